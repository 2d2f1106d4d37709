"""The gateway's decision core: messages of the links, time and durability change memory; effects come out. Pure.

Every change of memory that the journal records appends its rows to the gathering group, and replies that may leave only
when those are durable go with them. The runner of the core commits the group, and reports when it is durable.

Invariant: memory and effects depend on nothing but the arguments of these methods, in their order.
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
from consumers.machine.effects import Advisory
from delta_store.streams import restores
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Gathering, Group
from ingest.publishing.publish import forget_batches

_ACK, _FLOW = ACK_PREFIX, FLOW_PREFIX
_NOTHING: Final = CoreEffects()


class GatewayCore:
    """Streams, consumers and the gathering group. All times are arguments, in ns since 1970."""

    def __init__(
        self,
        catalog: Catalog,
        answers: Answers,
        hub: HubView,
        *,
        new_id: Callable[[], str],
        account: ApiAccount | None = None,
        is_full: Callable[[], bool] = bool,
    ) -> None:
        """``is_full`` returns whether too much is unsettled, ``account`` is the API's own data."""
        self.catalog = catalog
        self.new_id = new_id
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
            account=account or ApiAccount(),
            gathering=gathering,
            consumers=consumers,
            intake=self._intake,
            outlet=self.outlet,
        )

    def take(self, run: Sequence[WireMessage], now_ns: int) -> CoreEffects:
        """Apply a link's messages in order: publishes, acks, requests."""
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
        """Remove expired messages, batches and broken restores, also of idle streams; return whether there were any."""
        group = self.gathering.group
        forget_batches(self.catalog, now_ns, group)
        told = self._intake.tell_abandoned(now_ns)
        told |= restores.give_up_late(self.catalog, now_ns=now_ns, rows=group.rows)
        if 0 < self.catalog.next_expiry_ns() <= now_ns:
            self.catalog.expire(now_ns=now_ns, rows=group.rows)
            return True
        return told

    def advise(self, advisory: Advisory, now_ns: int) -> None:
        """Send an advisory with the gathering group."""
        self._intake.advise(advisory, now_ns)

    def stored(self) -> None:
        """Apply messages stored otherwise than by a publish, a copy or a schedule."""
        self.consumers.stored()

    def copied(self, origin: StreamState, seqs: Sequence[int]) -> None:
        """Apply that messages of ``origin`` have been copied into another stream."""
        if origin.config.retention != "limits":
            self.consumers.copied(origin, seqs)
        self.consumers.stored()

    def seal(self, group: Group, now_ns: int) -> None:
        """Append the closing rows of a group that is about to be committed."""
        self.consumers.seal(group.rows, now_ns)

    def marks(self, rows: RowColumns) -> dict[str, dict[str, int]]:
        """Return the positions of a group's streams after it."""
        marks = {}
        for name in set(rows.stream):
            state = self.catalog.streams.get(name) or self.catalog.restoring.get(name) or self.catalog.parked.get(name)
            if state is not None:
                at, first = state.position, state.index.first_seq
                marks[name] = {"id": at.stream_id, "seq": at.seq, "event": at.event_no, "first": first}
        return marks

    def released(self, reached: Mapping[tuple[str, int], int], now_ns: int) -> None:
        """Apply that streams, by name and id, are durable up to these sequences."""
        self.consumers.released(reached, now_ns)

    def hold(self, held: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Begin or end to refuse changes, while nothing can be committed."""
        self.catalog.held = held
        if not held:
            self.consumers.resume()

    def _acks(self, acks: list[WireMessage], now_ns: int) -> list[WireMessage]:
        """Apply gathered acks; return an empty list for the next ones."""
        if acks:
            unheard = tuple(self.consumers.acks(acks, now_ns))  # type: ignore[arg-type]
            for subject, reply, _, _ in acks if unheard else ():
                if reply and subject.startswith(unheard):
                    self.gathering.group.replies.append(no_responders_frame(subject, reply))
            self.outlet.sort(now_ns)
        return []
