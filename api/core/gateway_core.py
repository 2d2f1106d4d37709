"""The gateway's one decision core: what comes over the links, time and durability change memory; effects come out.

Every change of memory that the journal must know appends its rows to the group that gathers, and what may leave only
when those are durable goes with them. Who runs the core commits the group, and says when it is durable.

Invariant: nothing but the arguments of these methods, in their order, decides what memory holds and what comes out.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from api.core.core_parts import CoreParts
from api.core.effects import CoreEffects, Deferred
from api.direct.direct_frames import no_responders_frame
from api.jetstream import stream_advisories
from api.jetstream.api_call import ApiRequest, NeedMessage
from api.jetstream.dispatch import dispatch
from api.jetstream.shown_streams import shows_any
from consumers.engine.ack_subject import ACK_PREFIX, FLOW_PREFIX
from consumers.machine.effects import PullRequest
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing.group import Group
from ingest.publishing.publish import forget_batches

_DIRECT: Final = b"DIRECT.GET."
_NEXT: Final = b"CONSUMER.MSG.NEXT."
_ACK, _FLOW = ACK_PREFIX, FLOW_PREFIX
_KEYED: Final = (b"$KV.", b"$OBJ.")
"""What a hub with a domain wraps into that domain's API subjects."""


class GatewayCore(CoreParts):
    """The parts with the events that reach them."""

    def take(self, run: Sequence[WireMessage], now_ns: int) -> CoreEffects:
        """Messages in the order in which a link gave them: publishes, acks, requests."""
        start = 0
        acks: list[WireMessage] = []
        for place, message in enumerate(run):
            if message[0].startswith(b"$JS."):
                is_ack = message[0].startswith(_ACK)
                path = b"" if is_ack else self._api_path(message[0])
                if is_ack or path or message[0].startswith(_FLOW):
                    if start < place:
                        self._publish(run[start:place], now_ns)
                    start = place + 1
                    if is_ack:
                        acks.append(message)
                        continue
                    acks = self._acks(acks, now_ns)
                    self._request(message, path, now_ns)
        if start < len(run):
            self._publish(run[start:] if start else run, now_ns)
        self._acks(acks, now_ns)
        return self._decided()

    def expire(self, now_ns: int) -> bool:
        """Remove what is too old by now, for streams that nobody reads or writes; whether that came to anything."""
        group = self.gathering.group
        forget_batches(self.catalog, now_ns, group)
        told = self._tell_abandoned(now_ns)
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

    def _api_path(self, subject: bytes) -> bytes:
        """What follows ``$JS.API.`` or ``$JS.<domain>.API.``, empty for any other subject."""
        for prefix in (b"$JS.API.", self._domain_api):
            if subject.startswith(prefix):
                return subject[len(prefix) :]
        return b""

    def _acks(self, acks: list[WireMessage], now_ns: int) -> list[WireMessage]:
        """Take acks that were gathered; returns what is left to take: none."""
        if acks:
            unheard = tuple(self.consumers.acks(acks, now_ns))  # type: ignore[arg-type]
            for subject, reply, _, _ in acks if unheard else ():
                if reply and subject.startswith(unheard):
                    self.gathering.group.replies.append(no_responders_frame(subject, reply))
            self._sort_out(now_ns)
        return []

    def _request(self, message: WireMessage, path: bytes, now_ns: int) -> None:
        if not path:
            self.consumers.flow(message.subject, message.header, now_ns)
            return
        if path.startswith(_KEYED):
            self._publish([message._replace(subject=path)], now_ns)
            return
        group, waiting = self._group_for(path), self.gathering.group
        if path.startswith(_DIRECT):
            _answer(group, self._answers.direct(message))
        elif path.startswith(_NEXT):
            if message.reply and not self._pull(message, path, now_ns):
                group.replies.append(no_responders_frame(message.subject, message.reply))
        else:
            self._dispatch(group, message, path, now_ns=now_ns)
        if group is not waiting:
            self._effects.groups.append(group)

    def _dispatch(self, group: Group, message: WireMessage, path: bytes, *, now_ns: int) -> None:
        """Have a request of the API proper answered, and tell who listens what came of it."""
        account = self.account
        account.reply_bytes_max = self._hub.payload_max()
        events, total, errors = len(group.rows), account.api_total, account.api_errors
        answer = dispatch(
            self.catalog,
            ApiRequest(*message),
            now_ns=now_ns,
            rows=group.rows,
            account=account,
            consumers=self.consumers.registry,
        )
        changed = len(group.rows) > events
        self._sort_out(now_ns)
        if changed:
            self.consumers.registry.sync_streams(now_ns)
            told = stream_advisories.stream_action(path)
            if told is not None and account.api_errors == errors:
                self._advise(told, now_ns)
        if message.reply and answer is not None:
            if isinstance(answer, NeedMessage):
                _answer(group, self._answers.stored(answer, message.reply))
            else:
                group.replies.append(encode_message(message.reply, answer))
        if isinstance(answer, bytes) and account.api_total > total and self._tells(stream_advisories.AUDIT_SUBJECT):
            told = stream_advisories.api_audit(path, message.payload, answer, server=account.server_name)
            self._advise(told, now_ns)

    def _pull(self, message: WireMessage, path: bytes, now_ns: int) -> bool:
        """Give a consumer a request for messages; False when there is no such consumer."""
        names = path[len(_NEXT) :].decode(errors="replace").split(".")
        request = PullRequest(message.reply, message.payload, message.header)
        return len(names) == 2 and self.consumers.pull(names[0], names[1], request, now_ns)

    def _group_for(self, path: bytes) -> Group:
        """The group that gathers; while it waits for space one of its own for what shows nothing of it."""
        gathering = self.gathering
        if gathering.blocked is None or gathering.idle or shows_any(self.catalog, path, gathering.hidden):
            return gathering.group
        return Group()


def _answer(group: Group, answer: bytes | Deferred | None) -> None:
    """What is known leaves with the group, what must be read is read behind it."""
    if isinstance(answer, bytes):
        group.replies.append(answer)
    elif answer is not None:
        group.deferred.append(answer)
