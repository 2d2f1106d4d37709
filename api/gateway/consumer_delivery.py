"""The execution of consumers' decisions: fetches and sends messages, sends statuses, runs timers.

Deliveries and statuses show durable messages only, and so leave at once, on the leaf link, in the order of the
decisions.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from typing import Final, Protocol

from api.core import consumer_frames
from api.core.gateway_core import GatewayCore
from api.gateway.consumer_reads import ConsumerReads
from conf.clock import Clock
from conf.limits import (
    CONSUMER_RUN_BYTES,
    CONSUMER_RUN_MESSAGES,
    CONSUMER_STATE_SECONDS,
    CONSUMER_TURN_MESSAGES,
)
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.effects import Deliver, Status
from consumers.machine.past_view import PastView
from delta_store.reading.store_reader import StoreReader
from delta_store.values.read_errors import PastHorizon

_SECOND: Final = 1_000_000_000
_IDLE_SECONDS: Final = 3600.0
_DRAIN_SECONDS: Final = 1.0
_SMALL_BYTES: Final = 1024
"""Mean bytes of a stream's messages up to which the bytes of a run are not checked."""


class QueueInterest(Protocol):
    """The interest at the hub."""

    def queues(self, subject: bytes) -> frozenset[bytes]:
        """Return the queue groups that each get one copy of a message to this subject."""
        ...


class DeliveryLink(Protocol):
    """The link on which deliveries leave."""

    @property
    def interest(self) -> QueueInterest:
        """The interest at the hub."""
        ...

    def send(self, frames: bytes) -> bool:
        """Send encoded leaf frames; return False if they were not sent."""
        ...

    @property
    def writable(self) -> bool:
        """Whether more may be sent now."""
        ...

    async def drain(self, timeout: float) -> None:
        """Wait until :attr:`writable` or detached. Raises ``TimeoutError``."""
        ...


class ConsumerDelivery:
    """The executor of the decisions of the core's consumers."""

    def __init__(
        self,
        core: GatewayCore,
        reader: StoreReader,
        *,
        link: DeliveryLink,
        clock: Clock,
        changed: Callable[[], None],
        lost: Callable[[PastView, PastHorizon], None],
    ) -> None:
        """``changed`` is called when the gathering group may have changed, ``lost`` as by :class:`ConsumerReads`."""
        self._outlet = core.outlet
        self._engine = core.consumers
        self._link = link
        self._queues = link.interest.queues
        self._clock = clock
        self._changed = changed
        self._kick = asyncio.Event()
        self._unsaved = asyncio.Event()
        self._reads = ConsumerReads(core.consumers, reader, clock=clock, delivered=self._turn, lost=lost)
        self._going_on = False

    def flush(self) -> None:
        """Send the consumers' effects that leave at once."""
        if self._engine.unsaved:
            self._unsaved.set()
        outgoing = self._outlet.take(self._clock.now_ns()) if self._outlet else ()
        if not outgoing:
            return
        frames: list[bytes] = []
        for (consumer, is_run), group in groupby(outgoing, key=lambda one: (one[0], isinstance(one[1], Deliver))):
            effects = [effect for _, effect in group]
            if is_run:
                run = [effect for effect in effects if isinstance(effect, Deliver)]
                for part in consumer_frames.delivered(consumer.stream_name, consumer, run, queues=self._queues):
                    self._link.send(b"".join((*frames, part)))
                    frames.clear()
            else:
                statuses = [effect for effect in effects if isinstance(effect, Status)]
                frames += [consumer_frames.status(consumer, effect, queues=self._queues) for effect in statuses]
        if frames:
            self._link.send(b"".join(frames))

    def pump(self) -> None:
        """Deliver messages in memory, within the bounds of one turn; the rest follows in :meth:`run`."""
        self.flush()
        ready = self._engine.ready
        left = CONSUMER_TURN_MESSAGES
        while ready and left > 0 and self._link.writable:
            consumer = next(iter(ready))
            del ready[consumer]
            if not self._reads.hold_up(consumer):
                left -= self._serve(consumer) or 1
        if ready and self._link.writable:
            self._go_on()
        elif ready or self._engine.next_wake_ns:
            self._kick.set()

    def _go_on(self) -> None:
        """Deliver more in the next turn of the event loop, after the sent frames have left."""
        if not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._going_on = False
        self.pump()
        self._changed()

    def wanted(self) -> None:
        """Have :meth:`run` check for ready consumers and due timers."""
        self._kick.set()

    async def run(self) -> None:
        """Run timers, long deliveries and reads until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._persist())
            tasks.create_task(self._reads.run())
            while True:
                await self._wait()
                self._engine.wake(self._clock.now_ns())
                self.pump()
                self._changed()
                if self._engine.ready and not self._link.writable:
                    try:
                        await self._link.drain(_DRAIN_SECONDS)
                    except TimeoutError:
                        continue
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Wait until a timer is due or a consumer is ready."""
        if self._engine.ready and self._link.writable:
            return
        self._kick.clear()
        due = self._engine.next_wake_ns
        seconds = (due - self._clock.now_ns()) / _SECOND if due else _IDLE_SECONDS
        if self._engine.ready:
            seconds = min(seconds, _DRAIN_SECONDS)
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._kick.wait()
            except TimeoutError:
                return

    def _serve(self, consumer: ConsumerMachine) -> int:
        """Deliver the next run of one consumer, or begin to read it; return the number of messages delivered."""
        now_ns = self._clock.now_ns()
        seqs = self._within_bytes(consumer, consumer.upcoming(CONSUMER_RUN_MESSAGES, now_ns))
        if not seqs:
            self.flush()
            return 0
        found = self._reads.take(consumer, seqs)
        if found:
            self._engine.deliver(consumer, found, (), now_ns)
            self.flush()
        return len(found)

    def _within_bytes(self, consumer: ConsumerMachine, seqs: list[int]) -> list[int]:
        """Return as many of the sequences as fit the bytes of one run, at least one."""
        index = consumer.view.index
        if index.bytes <= _SMALL_BYTES * index.msgs:
            return seqs
        left = CONSUMER_RUN_BYTES
        for place, seq in enumerate(seqs):
            left -= index.live.size_of(seq)
            if left < 0 and place:
                return seqs[:place]
        return seqs

    async def _persist(self) -> None:
        """Record progress for which no reply waits: at once after a pause, else now and then.

        So a single delivery counts as one even if the process is killed right after it.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CONSUMER_STATE_SECONDS):
                    await self._unsaved.wait()
            self._unsaved.clear()
            if self._engine.persist_dirty():
                self._changed()
                await asyncio.sleep(CONSUMER_STATE_SECONDS)
