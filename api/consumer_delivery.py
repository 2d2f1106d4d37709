"""What consumers decide, done: messages are fetched and sent, statuses and double acks' answers leave, timers run.

Deliveries and statuses show nothing but durable messages and leave at once, on the leaf link, in the order in which
they were decided. The answer to a double ack goes with the group that records the ack.
"""

import asyncio
import json
import sys
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from itertools import groupby, islice
from typing import Final, Protocol

from api import consumer_frames
from api.consumer_ahead import ConsumerAhead
from conf.clock import Clock
from conf.limits import (
    CONSUMER_AHEAD_BYTES,
    CONSUMER_AHEAD_MESSAGES,
    CONSUMER_READS_MAX,
    CONSUMER_RETRY_SECONDS,
    CONSUMER_RUN_BYTES,
    CONSUMER_RUN_MESSAGES,
    CONSUMER_STATE_SECONDS,
    CONSUMER_TURN_MESSAGES,
)
from consumers.consumer import Consumer
from consumers.effects import Advisory, Deliver, Effect, Reply, Status
from consumers.engine import ConsumerEngine
from delta_store.payloads import Payloads
from delta_store.read_errors import ReadError
from delta_store.read_threads import ReadsBusy, ReadThreads
from delta_store.stored_message import MessageRun, StoredMessage
from delta_store.subjects import SubjectFilter
from ingest.group import Group

_SECOND: Final = 1_000_000_000
_IDLE_SECONDS: Final = 3600.0
_DRAIN_SECONDS: Final = 1.0
_SMALL_BYTES: Final = 1024
"""Mean size of a stream's messages up to which a run is counted instead of weighed."""


class Link(Protocol):
    """Where deliveries leave."""

    def send(self, frames: bytes) -> bool:
        """Send encoded leaf frames; False when that is not possible."""
        ...

    @property
    def writable(self) -> bool:
        """Whether more may be sent now."""
        ...

    async def drain(self, timeout: float) -> None:
        """Wait until :attr:`writable` or detached. Raises ``TimeoutError``."""
        ...


class ConsumerDelivery:
    """Carries out what the engine's consumers decide."""

    def __init__(
        self, engine: ConsumerEngine, payloads: Payloads, *, link: Link, threads: ReadThreads, clock: Clock
    ) -> None:
        self.engine = engine
        self.group: Callable[[], Group]
        """Gives the group that gathers; set by whoever assembles the gateway."""
        self.changed: Callable[[], None]
        """Told when the group has something new; set likewise."""
        self.new_id: Callable[[], str]
        """Ids of advisories; set likewise."""
        self._payloads = payloads
        self._link = link
        self._threads = threads
        self._clock = clock
        self._kick = asyncio.Event()
        self._reading: dict[Consumer, bool] = {}
        """Consumers that are read for; True for those that can't go on before it is done."""
        self._reads: asyncio.Queue[tuple[Consumer, list[int]]] = asyncio.Queue()
        """At most one read of each consumer waits."""
        self._ahead = ConsumerAhead()
        self._going_on = False

    def flush(self) -> None:
        """Send, or put into the group, whatever the engine has said so far."""
        outbox = self.engine.outbox
        if not outbox:
            return
        self.engine.outbox = []
        frames: list[bytes] = []
        for (consumer, is_run), group in groupby(outbox, key=lambda one: (one[0], isinstance(one[1], Deliver))):
            effects = [effect for _, effect in group]
            if is_run:
                run = [effect for effect in effects if isinstance(effect, Deliver)]
                frames.append(consumer_frames.delivered(consumer.stream_name, consumer, run))
            else:
                self._flush_others(consumer, effects, frames)
        if frames:
            self._link.send(b"".join(frames))

    def _flush_others(self, consumer: Consumer, effects: list[Effect], frames: list[bytes]) -> None:
        for effect in effects:
            if isinstance(effect, Status):
                frames.append(consumer_frames.status(consumer, effect))
            elif isinstance(effect, Reply):
                self.group().replies.append(consumer_frames.reply(effect))
            elif isinstance(effect, Advisory):
                self.advise(effect)

    def advise(self, effect: Advisory) -> None:
        """Send an advisory, if anyone listens, when what it tells of is durable."""
        if self.engine.interested(effect.subject.encode()):
            frame = consumer_frames.advisory(effect, id_=self.new_id(), now_ns=self._clock.now_ns())
            self.group().replies.append(frame)

    def pump(self) -> None:
        """Deliver what is in memory, within the bounds of one turn; the rest follows in :meth:`run`."""
        self.flush()
        ready = self.engine.ready
        left = CONSUMER_TURN_MESSAGES
        while ready and left > 0 and self._link.writable:
            consumer = next(iter(ready))
            del ready[consumer]
            if not self._reading.get(consumer):
                left -= self._serve(consumer) or 1
        if ready and self._link.writable:
            self._go_on()
        elif ready or self.engine.next_wake_ns:
            self._kick.set()

    def _go_on(self) -> None:
        """Deliver more in the next turn of the event loop, when what was sent so far has left."""
        if not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._going_on = False
        self.pump()
        self.changed()

    def wanted(self) -> None:
        """Something may have become ready or due: look at it in the next turn."""
        self._kick.set()

    async def run(self) -> None:
        """Timers, long deliveries and reads, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._persist())
            for _ in range(CONSUMER_READS_MAX):
                tasks.create_task(self._read())
            while True:
                await self._wait()
                self.engine.wake(self._clock.now_ns())
                self.pump()
                self.changed()
                if self.engine.ready and not self._link.writable:
                    try:
                        await self._link.drain(_DRAIN_SECONDS)
                    except TimeoutError:
                        continue
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Until the next timer is due or there is something to deliver."""
        if self.engine.ready and self._link.writable:
            return
        self._kick.clear()
        due = self.engine.next_wake_ns
        seconds = (due - self._clock.now_ns()) / _SECOND if due else _IDLE_SECONDS
        if self.engine.ready:
            seconds = min(seconds, _DRAIN_SECONDS)
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._kick.wait()
            except TimeoutError:
                return

    def _serve(self, consumer: Consumer) -> int:
        """Deliver the next run of one consumer, or begin to read it; returns the number of messages delivered."""
        now_ns = self._clock.now_ns()
        seqs = self._within_bytes(consumer, consumer.upcoming(CONSUMER_RUN_MESSAGES, now_ns))
        if not seqs:
            self.flush()
            return 0
        state = self.engine.home(consumer).state
        found = self._ahead.take(consumer, seqs) or self._payloads.span_now(state.config.name, state.stream_id, seqs)
        if not found:
            first = self._payloads.now(state.config.name, state.stream_id, seqs[0])
            if first is None:
                self._begin_read(consumer, seqs)
                return 0
            found = [first]
        self.engine.deliver(consumer, found, (), now_ns)
        self.flush()
        if self.engine.is_live(consumer) and self._ahead.wants_more(consumer, seqs[len(found) - 1] + 1):
            self._begin_read(consumer, [])
        return len(found)

    def _begin_read(self, consumer: Consumer, seqs: list[int]) -> None:
        """Have ``seqs`` read, or what follows those that were read last."""
        if consumer not in self._reading:
            self._reading[consumer] = bool(seqs)
            self._reads.put_nowait((consumer, seqs))

    def _within_bytes(self, consumer: Consumer, seqs: list[int]) -> list[int]:
        """As many of the sequences as one run may weigh, at least one."""
        index = self.engine.home(consumer).index
        if index.bytes <= _SMALL_BYTES * index.msgs:
            return seqs
        left = CONSUMER_RUN_BYTES
        for place, seq in enumerate(seqs):
            left -= index.size_of(seq)
            if left < 0 and place:
                return seqs[:place]
        return seqs

    async def _read(self) -> None:
        """Read for one consumer after the other what is not in memory."""
        while True:
            consumer, seqs = await self._reads.get()
            try:
                if self.engine.is_live(consumer):
                    await self._read_run(consumer, seqs)
                else:
                    self._ahead.forget(consumer)
            finally:
                self._reading.pop(consumer, None)
            if self.engine.is_live(consumer):
                self.engine.ready[consumer] = None
            self.pump()
            self.changed()

    async def _read_run(self, consumer: Consumer, seqs: list[int]) -> None:
        home = self.engine.home(consumer)
        state = home.state
        wanted = self._further(consumer, seqs)
        if not wanted:
            return
        fetch = partial(self._payloads.fetch_run, state.config.name, state.stream_id, wanted)
        try:
            run = await self._threads.run(fetch)
        except (ReadError, ReadsBusy, TimeoutError) as error:
            _report("delivery waits", f"{state.config.name}: {type(error).__name__}: {error}")
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
            return
        if not self.engine.is_live(consumer):
            return
        found = set(run.seqs) if len(run) < len(wanted) else frozenset(wanted)
        lost = next((seq for seq in wanted if seq not in found and home.index.sid_of(seq) >= 0), None)
        if lost is not None:
            run = run[: bisect_left(run.seqs, lost)]
        if not seqs:
            self._ahead.keep(consumer, run)
        elif len(run) and run.seqs[0] <= max(seqs):
            self._deliver_read(consumer, seqs, run)
        elif lost is not None:
            _report("delivery waits", f"{state.config.name}: message {lost} is in no file")
            await asyncio.sleep(CONSUMER_RETRY_SECONDS)
        else:
            self.engine.deliver(consumer, [], seqs, self._clock.now_ns())

    def _deliver_read(self, consumer: Consumer, seqs: list[int], run: MessageRun) -> None:
        """Deliver what was asked for and keep what was read on top of it."""
        places = {seq: place for place, seq in enumerate(run.seqs)}
        index = self.engine.home(consumer).index
        messages: list[StoredMessage] = []
        missing: list[int] = []
        for seq in seqs:
            if seq in places:
                messages.append(run[places[seq]])
            elif index.sid_of(seq) >= 0:
                break
            else:
                missing.append(seq)
        self.engine.deliver(consumer, messages, missing, self._clock.now_ns())
        behind = bisect_left(run.seqs, max(seqs) + 1)
        self._ahead.keep(consumer, run[behind:])

    def _further(self, consumer: Consumer, seqs: list[int]) -> list[int]:
        """The sequences to read: ``seqs`` and those that the consumer will want next, within the bounds of one read."""
        home = self.engine.home(consumer)
        filters = consumer.config.filters
        start = max(seqs) + 1 if seqs else self._ahead.last(consumer) + 1
        matching = home.index.iter_matching(SubjectFilter(filters) if filters else None, start)
        size = max(1, home.index.bytes // max(1, home.index.msgs))
        number = min(CONSUMER_AHEAD_MESSAGES, max(1, CONSUMER_AHEAD_BYTES // size))
        behind = [seq for seq in islice(matching, max(0, number - len(seqs))) if seq <= home.durable_seq]
        return sorted(seqs) + behind

    async def _persist(self) -> None:
        """Have progress recorded now and then, for acks that nobody waits for."""
        while True:
            await asyncio.sleep(CONSUMER_STATE_SECONDS)
            if self.engine.persist_dirty():
                self.changed()


def _report(event: str, reason: str) -> None:
    sys.stderr.write(json.dumps({"event": event, "reason": reason}) + "\n")
    sys.stderr.flush()
