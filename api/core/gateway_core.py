"""The gateway's one decision core: what comes over the links, time and durability change memory; effects come out.

Every change of memory that the journal must know appends its rows to the group that gathers, and what may leave only
when those are durable goes with them. Who runs the core commits the group, and says when it is durable.

Invariant: nothing but the arguments of these methods, in their order, decides what memory holds and what comes out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from api.core.consumer_outlet import ConsumerOutlet
from api.core.effects import CoreEffects
from api.core.hub_view import HubView
from api.core.intake import Intake
from api.core.request_desk import Answers, RequestDesk
from api.direct.direct_frames import no_responders_frame
from api.jetstream.responses import ApiAccount
from consumers.engine.ack_subject import ACK_PREFIX, FLOW_PREFIX
from consumers.engine.engine import ConsumerEngine
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Gathering, Group
from ingest.publishing.publish import forget_batches

_ACK, _FLOW = ACK_PREFIX, FLOW_PREFIX
_NOTHING: Final = CoreEffects()


class GatewayCore:
    """Streams, consumers and the group that gathers. Every time is given, in nanoseconds since 1970."""

    def __init__(
        self,
        catalog: Catalog,
        answers: Answers,
        hub: HubView,
        *,
        new_id: Callable[[], str],
        settling: Callable[[], Mapping[str, object]] = dict,
        is_full: Callable[[], bool] = bool,
    ) -> None:
        """``is_full`` says whether more is unsettled than may be, ``settling`` what the API tells of that."""
        self.catalog = catalog
        self.gathering = gathering = Gathering()
        self.consumers = consumers = ConsumerEngine(
            catalog,
            interested=hub.interest.has_interest,
            listened_to=hub.interest.listens,
            new_id=new_id,
            rows=lambda: gathering.group.rows,
        )
        self._intake = Intake(catalog, gathering, hub=hub, consumers=consumers, new_id=new_id, is_full=is_full)
        self.outlet = ConsumerOutlet(consumers, gathering, self._intake)
        self._requests = RequestDesk(
            catalog,
            answers,
            hub,
            account=ApiAccount(settling=settling),
            gathering=gathering,
            consumers=consumers,
            intake=self._intake,
            outlet=self.outlet,
        )

    def take(self, run: Sequence[WireMessage], now_ns: int) -> CoreEffects:
        """Messages in the order in which a link gave them: publishes, acks, requests."""
        intake, requests = self._intake, self._requests
        start = 0
        acks: list[WireMessage] = []
        for place, message in enumerate(run):
            if message[0].startswith(b"$JS."):
                is_ack = message[0].startswith(_ACK)
                path = b"" if is_ack else requests.path_of(message[0])
                if is_ack or path or message[0].startswith(_FLOW):
                    if start < place:
                        intake.publish(run[start:place], now_ns)
                    start = place + 1
                    if is_ack:
                        acks.append(message)
                        continue
                    acks = self._acks(acks, now_ns)
                    requests.take(message, path, now_ns)
        if start < len(run):
            intake.publish(run[start:] if start else run, now_ns)
        self._acks(acks, now_ns)
        if not (intake.refusals or requests.groups):
            return _NOTHING
        effects = CoreEffects(intake.refusals, requests.groups)
        intake.refusals, requests.groups = [], []
        return effects

    def expire(self, now_ns: int) -> bool:
        """Remove what is too old by now, for streams that nobody reads or writes; whether that came to anything."""
        group = self.gathering.group
        forget_batches(self.catalog, now_ns, group)
        told = self._intake.tell_abandoned(now_ns)
        if 0 < self.catalog.next_expiry_ns() <= now_ns:
            self.catalog.expire(now_ns=now_ns, rows=group.rows)
            return True
        return told

    def stored(self) -> None:
        """Something else than a publish, a copy or a schedule, has stored messages."""
        self.consumers.stored()

    def copied(self, origin: StreamState, seqs: Sequence[int]) -> None:
        """Messages of a stream have been copied into another one."""
        if origin.config.retention != "limits":
            self.consumers.copied(origin, seqs)
        self.consumers.stored()

    def seal(self, group: Group, now_ns: int) -> None:
        """A group is about to be taken: add what sums it up."""
        self.consumers.seal(group.rows, now_ns)

    def marks(self, rows: RowColumns) -> dict[str, dict[str, int]]:
        """Where the streams of a group stand behind it."""
        marks = {}
        for name in set(rows.stream):
            state = self.catalog.streams.get(name)
            if state is not None:
                at, first = state.position, state.index.first_seq
                marks[name] = {"id": at.stream_id, "seq": at.seq, "event": at.event_no, "first": first}
        return marks

    def released(self, reached: Mapping[tuple[str, int], int], now_ns: int) -> None:
        """Streams (by name and id) are durable up to these sequences."""
        self.consumers.released(reached, now_ns)

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Nothing can be committed for now, or again: begin or end to refuse changes."""
        self.catalog.held = held
        if not held:
            self.consumers.resume()

    def _acks(self, acks: list[WireMessage], now_ns: int) -> list[WireMessage]:
        """Take acks that were gathered; returns what is left to take: none."""
        if acks:
            unheard = tuple(self.consumers.acks(acks, now_ns))  # type: ignore[arg-type]
            for subject, reply, _, _ in acks if unheard else ():
                if reply and subject.startswith(unheard):
                    self.gathering.group.replies.append(no_responders_frame(subject, reply))
            self.outlet.sort(now_ns)
        return []
