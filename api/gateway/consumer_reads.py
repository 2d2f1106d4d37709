"""Reads of messages for consumers: from the tables, off the event loop, a few thousand ahead."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice

from api.gateway.consumer_ahead import ConsumerAhead
from conf.clock import Clock
from conf.limits import (
    CONSUMER_AHEAD_BYTES,
    CONSUMER_AHEAD_MESSAGES,
    CONSUMER_READS_MAX,
    CONSUMER_RETRY_SECONDS,
)
from conf.log import log
from consumers.engine.engine import ConsumerEngine
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.past_view import PastView
from delta_store.index.matching import iter_matching
from delta_store.reading.point_in_time import Point
from delta_store.reading.read_plan import ReadPlan, step_of
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.store_reader import FoundRun, StoreReader
from delta_store.values.read_errors import PastHorizon, ReadError
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter


class ConsumerReads:
    """The next messages of consumers, from memory at once or by a read that ends with the delivery."""

    def __init__(
        self,
        engine: ConsumerEngine,
        reader: StoreReader,
        *,
        clock: Clock,
        delivered: Callable[[], None],
        lost: Callable[[PastView, PastHorizon], None],
    ) -> None:
        """``delivered`` is called when a read has ended, ``lost`` for a past state that is no longer kept."""
        self._lost = lost
        self._delivered = delivered
        self._engine = engine
        self._reader = reader
        self._clock = clock
        self._reading: dict[ConsumerMachine, bool] = {}
        """Consumers with a read under way; True for those that wait for it."""
        self._reads: asyncio.Queue[tuple[ConsumerMachine, list[int]]] = asyncio.Queue()
        """At most one read of each consumer waits."""
        self._ahead = ConsumerAhead()

    def hold_up(self, consumer: ConsumerMachine) -> bool:
        """Whether a consumer waits for its read."""
        return self._reading.get(consumer, False)

    def take(self, consumer: ConsumerMachine, seqs: list[int]) -> Sequence[StreamMessage]:
        """Return the first messages of these sequences that are in memory; if there are none, begin a read."""
        state = self._engine.directory.homes[consumer].state
        found: Sequence[StreamMessage] | None = self._ahead.take(consumer, seqs)
        found = found or self._reader.payloads.span_now(state.config.name, state.stream_id, seqs)
        if not found:
            self._begin(consumer, seqs)
        elif self._ahead.wants_more(consumer, seqs[len(found) - 1] + 1):
            self._begin(consumer, [])
        return found

    async def run(self) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONSUMER_READS_MAX):
                tasks.create_task(self._read())

    def _begin(self, consumer: ConsumerMachine, seqs: list[int]) -> None:
        """Queue a read of ``seqs``, or of the sequences behind those read last."""
        if consumer not in self._reading:
            self._reading[consumer] = bool(seqs)
            self._reads.put_nowait((consumer, seqs))

    async def _read(self) -> None:
        """Work through the queue of reads."""
        while True:
            consumer, seqs = await self._reads.get()
            try:
                if consumer in self._engine.directory.homes:
                    await self._read_run(consumer, seqs)
                else:
                    self._ahead.forget(consumer)
            finally:
                self._reading.pop(consumer, None)
            if consumer in self._engine.directory.homes:
                self._engine.ready[consumer] = None
            self._delivered()

    async def _read_run(self, consumer: ConsumerMachine, seqs: list[int]) -> None:
        state = self._engine.directory.homes[consumer].state
        wanted = self._further(consumer, seqs)
        if not wanted:
            return
        plan = ReadPlan(state.config.name, state.stream_id, wanted)
        try:
            found = await self._found(consumer.past, plan)
        except PastHorizon as gone:
            if consumer.past is not None:
                self._lost(consumer.past, gone)
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
            return
        except (ReadError, ReadsBusy, TimeoutError) as error:
            log.warning("delivery waits", stream=state.config.name, reason=f"{type(error).__name__}: {error}")
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
            return
        if consumer not in self._engine.directory.homes:
            return
        run, lost = found
        if not seqs:
            self._ahead.keep(consumer, run)
        elif len(run) and run.seqs[0] <= max(seqs):
            self._deliver_read(consumer, seqs, found)
        elif lost:
            log.warning("delivery waits", stream=state.config.name, reason=f"message {lost} is in no file")
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
        else:
            self._engine.deliver(consumer, [], seqs, self._clock.now_ns())

    async def _found(self, past: PastView | None, plan: ReadPlan) -> FoundRun:
        """Return the messages of a plan, those of a past state as they were then."""
        if past is None:
            return await self._reader.read_run(plan)
        place = Point(past.place.seq, event_no=past.place.event_no)
        return FoundRun(await self._reader.read_place(plan, place), 0)

    def _deliver_read(self, consumer: ConsumerMachine, seqs: list[int], found: FoundRun) -> None:
        """Deliver the requested messages and keep the others read ahead."""
        run, lost = found
        places = {seq: place for place, seq in enumerate(run.seqs)}
        messages = [run[places[seq]] for seq in seqs if seq in places]
        missing = [seq for seq in seqs if seq not in places and not 0 < lost <= seq]
        self._engine.deliver(consumer, messages, missing, self._clock.now_ns())
        behind = bisect_left(run.seqs, max(seqs) + 1)
        self._ahead.keep(consumer, run[behind:])

    def _further(self, consumer: ConsumerMachine, seqs: list[int]) -> list[int]:
        """Return the sequences to read: ``seqs`` and the consumer's next ones, within the bounds of one read."""
        view = consumer.view
        filters = consumer.config.filters
        start = max(seqs) + 1 if seqs else self._ahead.last(consumer) + 1
        matching = iter_matching(view.index, SubjectFilter(filters) if filters else None, start)
        number = step_of(view.index, CONSUMER_AHEAD_MESSAGES, CONSUMER_AHEAD_BYTES)
        behind = [seq for seq in islice(matching, max(0, number - len(seqs))) if seq <= view.durable_seq]
        return sorted(seqs) + behind
