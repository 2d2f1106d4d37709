"""The gateway: messages of the links are decided, committed, and only then answered.

One straight line: links, core, committer, links. The core (:mod:`api.core.gateway_core`) decides and appends rows and
replies to the gathering group. The committer makes the rows durable and returns the group for release: payloads enter
the tail cache, reply frames leave on the leaf link in order, and deferred reads are answered.

Invariant: no reply leaves before all state that it was computed from is durable.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from api.core.effects import BegunTransfer, Deferred
from api.core.gateway_core import GatewayCore
from api.gateway.branch_carry import BranchCarry, SettleView
from api.gateway.consumer_delivery import ConsumerDelivery, DeliveryLink, QueueInterest
from api.gateway.past_desk import PastDesk
from api.gateway.restore_receiver import RestoreReceiver
from api.gateway.snapshot_reads import SnapshotReads
from api.gateway.snapshot_sender import SnapshotSender, TransferInterest, TransferSubjects, TransferSurroundings
from api.gateway.stream_landing import DurableMark, StreamLanding
from api.gateway.transfers import Transfers
from api.gateway.view_desk import ViewDesk
from conf.clock import Clock
from consumers.machine.effects import Advisory
from delta_store.reading.past_runs import PastRuns
from delta_store.reading.settled import SettledTable
from delta_store.reading.store_reader import StoreReader
from delta_store.streams import restores
from delta_store.values.records import RowColumns
from ingest.flow.group_commit import GroupCommitter, GroupJournal, Pace
from ingest.flow.origin_copies import OriginCopies
from ingest.flow.schedule_firing import ScheduleFiring
from ingest.flow.stream_copies import StreamCopies
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group

EXPIRY_SECONDS: Final = 0.25
"""Interval of expiry for idle streams with ``max_age``; reads and publishes expire messages too."""


class DeferredReads(Protocol):
    """Replies that need payloads, finished when the state that they show is durable."""

    begin: Callable[[BegunTransfer], None]
    """Begins the transfer of a past point; set by the gateway."""

    def submit(self, read: Deferred) -> None:
        """Finish a read, whose state is durable now."""
        ...

    def keep(self, rows: RowColumns, payload_bytes: int) -> None:
        """Cache the payloads of durable rows."""
        ...


class HubInterest(QueueInterest, TransferInterest, Protocol):
    """The interest at the hub."""


class Link(DeliveryLink, Protocol):
    """The link on which replies and deliveries leave."""

    @property
    def interest(self) -> HubInterest:
        """The interest at the hub."""
        ...

    def send_runs(self, *runs: bytes) -> bool:
        """Send encoded leaf frames, each run to one subject; return False if they were not sent."""
        ...


class Subjects(TransferSubjects, Protocol):
    """The subscriptions of the links."""

    def follow(self, subjects: set[str], *, streams: set[str]) -> None:
        """Subscribe to exactly these stream subjects, and to the acks of these streams."""
        ...


@dataclass(frozen=True, slots=True)
class Around:
    """The gateway's access to hub, disk and clock."""

    journal: GroupJournal
    reader: StoreReader
    settled: SettledTable
    past: PastRuns
    reads: DeferredReads
    link: Link
    subjects: Subjects
    clock: Clock
    brake_seconds: Callable[[], float]
    """Returns the seconds for which acknowledgements are held back now."""
    warn: Callable[[str], None]
    """Logs a warning."""
    settling: SettleView = field(default_factory=SettleView)
    executor: Executor | None = None
    """Runs commits to a slow store; None for the event loop."""
    pace: Pace = field(default_factory=Pace)


class Gateway:
    """The core with its committer, deliveries, copies and timers."""

    def __init__(self, core: GatewayCore, around: Around) -> None:
        self.core = core
        self._around = around
        self._clock = around.clock
        self.committer = GroupCommitter(
            core.gathering, around.journal, self, executor=around.executor, pace=around.pace
        )
        changed = self.committer.changed
        look = partial(self.receive, [])
        landing = StreamLanding(core, around.clock, look)
        self._views = ViewDesk(core, around.reader.pasts, landing, around.clock, look)
        self._delivery = ConsumerDelivery(
            core, around.reader, link=around.link, clock=around.clock, changed=changed, lost=self._views.lost
        )
        self._copies = StreamCopies(core, around.reader, clock=around.clock, changed=changed, warn=around.warn)
        self._origins = OriginCopies(core, around.link, around.subjects, clock=around.clock, changed=changed)
        self._schedules = ScheduleFiring(core.catalog, around.reader, clock=around.clock, gathering=core.gathering)
        self._transfers = _transfers(core, around, landing, self._views, look)
        around.reads.begin = self._transfers.begin
        self._followed = -1

    def restore(self) -> None:
        """Begin with a catalog whose state is all durable."""
        now_ns, rows = self._clock.now_ns(), self.core.gathering.group.rows
        restores.drop_unfinished(self.core.catalog, now_ns=now_ns, rows=rows)
        self.core.consumers.registry.restore(now_ns=now_ns, rows=rows)
        self._copies.restore()
        self._follow()

    async def run(self) -> None:
        """Run commits, deliveries, copies and timers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in (self.committer, self._delivery, self._copies, self._origins, self._transfers, self._views):
                tasks.create_task(part.run())
            tasks.create_task(self._expire())

    def receive(self, run: list[WireMessage]) -> None:
        """Apply a link's messages, in order."""
        effects = self.core.take(self._origins.take(self._transfers.take(run)), self._clock.now_ns())
        if effects:
            self._around.link.send_runs(*effects.frames)
            for group in effects.groups:
                self.release(group)
        self._follow()
        self._delivery.pump()
        self.committer.changed()

    def interest(self, subject: bytes, _queue: bytes, _added: bool) -> None:  # noqa: FBT001  # the link's callback
        """Apply a change of interest at the hub."""
        self.core.consumers.interest_changed(subject, self._clock.now_ns())
        self._delivery.wanted()

    def reachable(self, attached: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Apply that the leaf link is attached, or not."""
        self.core.consumers.attached(attached, self._clock.now_ns())
        self._origins.attached(attached)

    def call_back(self) -> None:
        """Have clients pull again whose pulls waited when the previous process ended."""
        self.core.consumers.call_back()
        self._delivery.wanted()

    def stop_copying(self) -> None:
        """Stop copies, at the begin of a drain."""
        self._copies.stop()
        self._origins.stop()

    async def wind_up(self, timeout_seconds: float) -> None:
        """End waiting pulls, then commit and answer everything received. Raises ``TimeoutError``."""
        consumers = self.core.consumers
        consumers.send_off(self._clock.now_ns())
        self._delivery.flush()
        consumers.persist_dirty()
        self.committer.changed()
        await self.committer.drain(timeout_seconds)

    # --- what the committer asks and tells ---

    def marks(self, rows: RowColumns) -> dict[str, dict[str, int]]:
        """Return the positions of a group's streams after it."""
        return self.core.marks(rows)

    def seal(self, group: Group) -> None:
        """Append the closing rows of a group that is about to be committed."""
        self.core.seal(group, self._clock.now_ns())

    def brake_seconds(self) -> float:
        """Return the seconds for which a durable group's replies are held back."""
        return self._around.brake_seconds()

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Begin or end to refuse changes, while nothing can be committed."""
        self.core.hold(held)
        if held:
            return
        self._delivery.pump()
        self._copies.sync()
        self.committer.changed()

    def release(self, group: Group) -> None:
        """Release a durable group: cache its payloads, send its replies, finish its reads."""
        around = self._around
        if len(group.rows):
            around.reads.keep(group.rows, group.bytes)
        if group.replies:
            around.link.send_runs(*group.replies)
        for work in group.deferred:
            if isinstance(work, BegunTransfer):
                self._transfers.begin(work)
            elif isinstance(work, DurableMark):
                work.done.set()
            else:
                around.reads.submit(work)
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
        self._origins.sync()
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


def _transfers(
    core: GatewayCore, around: Around, landing: StreamLanding, views: ViewDesk, changed: Callable[[], None]
) -> Transfers:
    def tell(advisory: Advisory) -> None:
        core.advise(advisory, around.clock.now_ns())
        changed()

    surroundings = TransferSurroundings(around.link, around.subjects, around.clock, tell, core.new_id)
    snapshots = SnapshotSender(SnapshotReads(around.reader, around.settled), surroundings)
    carry = BranchCarry(core, landing, around.settled, around.settling)
    past = PastDesk(core, around.past, landing, carry, around.clock, changed)
    return Transfers(snapshots, RestoreReceiver(core, surroundings, landing, changed), past, views, around.link)
