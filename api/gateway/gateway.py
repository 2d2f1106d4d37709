"""The gateway: what comes over the links is decided, committed, and only then answered.

One straight line: links, core, committer, links. The core (:mod:`api.core.gateway_core`) decides and appends rows and
replies to the group that gathers. The committer makes the rows durable and hands the group back for release: payloads
enter the tail cache, reply frames leave on the leaf link in order, and reads that were asked for are answered.

Invariant: nothing leaves before all state that it was computed from is durable.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, Protocol

from api.core.effects import Deferred
from api.core.gateway_core import GatewayCore
from api.gateway.consumer_delivery import ConsumerDelivery, DeliveryLink
from conf.clock import Clock
from delta_store.reading.store_reader import StoreReader
from delta_store.values.records import RowColumns
from ingest.flow.group_commit import GroupCommitter, GroupJournal, Pace
from ingest.flow.schedule_firing import ScheduleFiring
from ingest.flow.stream_copies import StreamCopies
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group

EXPIRY_SECONDS: Final = 0.25
"""How often streams with ``max_age`` are looked at; reads and publishes look for themselves as well."""


class DeferredReads(Protocol):
    """Answers that need payloads, finished when the state they show is durable."""

    def submit(self, read: Deferred) -> None:
        """Finish a read whose state is durable by now."""
        ...

    def keep(self, rows: RowColumns, payload_bytes: int) -> None:
        """Rows are durable: keep their payloads at hand."""
        ...


class Link(DeliveryLink, Protocol):
    """Where replies and deliveries leave."""

    def send_runs(self, *runs: bytes) -> bool:
        """Send encoded leaf frames, those of a run all to one subject; False when that is not possible."""
        ...


class Subjects(Protocol):
    """The subjects that the links take in."""

    def follow(self, subjects: set[str], *, streams: set[str]) -> None:
        """Take these stream subjects in, and the acks of these streams, and no others."""
        ...


@dataclass(frozen=True, slots=True)
class Around:
    """What the gateway reaches the hub and the disk by."""

    journal: GroupJournal
    reader: StoreReader
    reads: DeferredReads
    link: Link
    subjects: Subjects
    clock: Clock
    brake_seconds: Callable[[], float]
    """How long acknowledgements are to be held back for now."""
    warn: Callable[[str], None]
    """Told what somebody should know."""
    executor: Executor | None = None
    """Runs commits where the store is slow."""
    pace: Pace = field(default_factory=Pace)


class Gateway:
    """The core with its committer, deliveries, copies and timers; owns the order of everything."""

    def __init__(self, core: GatewayCore, around: Around) -> None:
        self.core = core
        self._around = around
        self._clock = around.clock
        self.committer = GroupCommitter(
            core.gathering, around.journal, self, executor=around.executor, pace=around.pace
        )
        changed = self.committer.changed
        self._delivery = ConsumerDelivery(core, around.reader, link=around.link, clock=around.clock, changed=changed)
        self._copies = StreamCopies(core, around.reader, clock=around.clock, changed=changed, warn=around.warn)
        self._schedules = ScheduleFiring(core.catalog, around.reader, clock=around.clock, gathering=core.gathering)
        self._followed = -1

    def restore(self) -> None:
        """Begin: all that the catalog holds is durable."""
        self.core.consumers.registry.restore(now_ns=self._clock.now_ns(), rows=self.core.gathering.group.rows)
        self._copies.restore()
        self._follow()

    async def run(self) -> None:
        """Commit, deliver, copy and keep time until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.committer, self._delivery, self._copies):
                tasks.create_task(part.run())
            tasks.create_task(self._expire())

    def receive(self, run: list[WireMessage]) -> None:
        """Take messages in the order in which a link gave them."""
        effects = self.core.take(run, self._clock.now_ns())
        if effects:
            self._around.link.send_runs(*effects.frames)
            for group in effects.groups:
                self.release(group)
        self._follow()
        self._delivery.pump()
        self.committer.changed()

    def interest(self, subject: bytes, _queue: bytes, _added: bool) -> None:  # noqa: FBT001  # the link's callback
        """Somebody at the hub began or ceased to listen."""
        self.core.consumers.interest_changed(subject, self._clock.now_ns())
        self._delivery.wanted()

    def reachable(self, attached: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """The leaf link is attached, or is not."""
        self.core.consumers.attached(attached, self._clock.now_ns())

    def call_back(self) -> None:
        """Clients can be reached: have those ask anew who waited when the process before this one ended."""
        self.core.consumers.call_back()
        self._delivery.wanted()

    def stop_copying(self) -> None:
        """Begin to wind up: no more comes in."""
        self._copies.stop()

    async def wind_up(self, timeout_seconds: float) -> None:
        """Tell whoever waits, and commit and answer what was taken in. Raises ``TimeoutError``."""
        consumers = self.core.consumers
        consumers.send_off(self._clock.now_ns())
        self._delivery.flush()
        consumers.persist_dirty()
        self.committer.changed()
        await self.committer.drain(timeout_seconds)

    # --- what the committer asks and tells ---

    def marks(self, rows: RowColumns) -> dict[str, dict[str, int]]:
        """Where the streams of a group stand behind it."""
        return self.core.marks(rows)

    def seal(self, group: Group) -> None:
        """A group is about to be taken: add what sums it up."""
        self.core.seal(group, self._clock.now_ns())

    def brake_seconds(self) -> float:
        """How long to hold back a durable group's replies."""
        return self._around.brake_seconds()

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Nothing can be committed for now, or again: begin or end to refuse changes."""
        self.core.hold(held)
        if held:
            return
        self._delivery.pump()
        self._copies.sync()
        self.committer.changed()

    def release(self, group: Group) -> None:
        """A group is durable: keep its payloads, send its replies, answer its reads."""
        around = self._around
        if len(group.rows):
            around.reads.keep(group.rows, group.bytes)
        if group.replies:
            around.link.send_runs(*group.replies)
        for read in group.deferred:
            around.reads.submit(read)
        reached = group.rows.reached()
        self.core.released(reached, self._clock.now_ns())
        self._copies.released(reached)
        self._delivery.pump()

    def _follow(self) -> None:
        """Follow the catalog's streams, if they changed since the last call: their subjects and acks, and copies."""
        catalog = self.core.catalog
        if self._followed == catalog.changes:
            return
        self._followed = catalog.changes
        self._copies.sync()
        subjects = {name for state in catalog.streams.values() for name in state.config.subjects}
        self._around.subjects.follow(subjects, streams=set(catalog.streams))

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_SECONDS)
            if self.core.expire(self._clock.now_ns()):
                self.committer.changed()
            if self.core.gathering.blocked is None and await self._schedules.look():
                self.core.stored()
                self.committer.changed()
