"""The gateway: what comes over the links is decided, committed, and only then answered.

One straight line. A run of messages is cut at its API requests; publishes go to the publish decision, requests to their
handlers; both change the in-memory state at once and append rows and replies to the group that gathers. The group
committer makes the rows durable and hands the group back for release: payloads enter the tail cache, reply frames leave
on the leaf link in order, and reads that were asked for meanwhile are answered.

Invariant: nothing leaves before all state that it was computed from is durable.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from api.direct.direct_get import no_responders_frame
from api.gateway.consumer_delivery import ConsumerDelivery
from api.gateway.gateway_reads import StoredRead
from api.jetstream import stream_advisories
from api.jetstream.api_call import ApiRequest, NeedMessage
from api.jetstream.dispatch import dispatch
from api.jetstream.responses import ApiAccount
from api.jetstream.shown_streams import shows_any
from api.responder.direct_responder import Read
from conf.clock import Clock
from conf.limits import INTAKE_BYTES_MAX, INTAKE_MESSAGES_MAX
from consumers.engine.ack_subject import ACK_PREFIX, FLOW_PREFIX
from consumers.machine.effects import PullRequest
from delta_store.config import api_errors
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns
from ingest.flow.group_commit import GroupCommitter
from ingest.flow.stream_copies import StreamCopies
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import Message
from ingest.publishing.group import Group
from ingest.publishing.pub_ack import pub_acks
from ingest.publishing.publish import decide, forget_batches

_DIRECT: Final = b"DIRECT.GET."
_NEXT: Final = b"CONSUMER.MSG.NEXT."
EXPIRY_SECONDS: Final = 0.25
"""How often streams with ``max_age`` are looked at; reads and publishes look for themselves as well."""
_ACK, _FLOW = ACK_PREFIX, FLOW_PREFIX
_KEYED: Final = (b"$KV.", b"$OBJ.")
"""What a hub with a domain wraps into that domain's API subjects."""


class Reads(Protocol):
    """Answers that need payloads: decided when asked for, sent when the state they show is durable."""

    def direct(self, request: Message) -> bytes | Read | None:
        """Frames of a Direct Get's answer, or what is left to read."""
        ...

    def stored(self, wanted: NeedMessage, reply: bytes) -> bytes | StoredRead:
        """The frame that holds one stored message, or what is left to read."""
        ...

    def submit(self, read: Read | StoredRead) -> None:
        """Finish a read whose state is durable by now."""
        ...

    def keep(self, rows: RowColumns, payload_bytes: int) -> None:
        """Rows are durable: keep their payloads at hand."""
        ...


class Link(Protocol):
    """Where replies leave and subjects are asked for."""

    @property
    def payload_max(self) -> int:
        """Bytes of header and payload that one message may have."""
        ...

    def send_runs(self, *runs: bytes) -> bool:
        """Send encoded leaf frames, those of a run all to one subject; False when that is not possible."""
        ...


class Subjects(Protocol):
    """The subjects that the links take in."""

    def follow(self, subjects: set[str], *, streams: set[str]) -> None:
        """Take these stream subjects in, and the acks of these streams, and no others."""
        ...


class Gateway:
    """Intake, requests, expiry and release; owns the order of everything."""

    def __init__(
        self,
        catalog: Catalog,
        reads: Reads,
        *,
        delivery: ConsumerDelivery,
        link: Link,
        subjects: Subjects,
        clock: Clock,
    ) -> None:
        self.catalog = catalog
        self.delivery = delivery
        self.consumers = delivery.engine
        delivery.keep = self._keep
        self.committer: GroupCommitter
        """Set by whoever assembles the gateway, before the first message."""
        self.too_much_unsettled: Callable[[], bool] = lambda: False
        """Whether the journal holds as much as it may; set likewise."""
        self.copies: StreamCopies
        """Mirrors and sources; set likewise."""
        self._reads = reads
        self._link = link
        self._subjects = subjects
        self._clock = clock
        self.account = ApiAccount()
        """What the API says of itself."""
        self._followed = -1
        self._domain_api = f"$JS.{catalog.domain}.API.".encode() if catalog.domain else b"$JS.API."

    def receive(self, run: list[Message]) -> None:
        """Take messages in the order in which a link gave them."""
        now_ns = self._clock.now_ns()
        start = 0
        acks: list[Message] = []
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
        self.delivery.pump()
        self.committer.changed()

    def hold(self, held: bool) -> None:  # noqa: FBT001  # the committer's callback
        """Nothing can be committed for now, or again: begin or end to refuse changes."""
        self.catalog.held = held
        if held:
            return
        self.consumers.resume()
        self.delivery.pump()
        self.copies.sync()
        self.committer.changed()

    def follow_subjects(self) -> None:
        """Ask the links for the subjects of all streams, and for their acks, if streams changed since the last call."""
        if self._followed == self.catalog.changes:
            return
        self._followed = self.catalog.changes
        streams = self.catalog.streams
        subjects = {name for state in streams.values() for name in state.config.subjects}
        self._subjects.follow(subjects, streams=set(streams))

    def seal(self, group: Group) -> None:
        """A group is about to be taken: add what sums it up."""
        self.consumers.seal(group.rows, self._clock.now_ns())

    def interest(self, subject: bytes, _queue: bytes, _added: bool) -> None:  # noqa: FBT001  # the link's callback
        """Somebody at the hub began or ceased to listen."""
        self.consumers.interest_changed(subject, self._clock.now_ns())
        self.delivery.wanted()

    def expire(self) -> None:
        """Remove what is too old by now; called by a timer, for streams that nobody reads or writes."""
        now_ns = self._clock.now_ns()
        forget_batches(self.catalog, now_ns, self.committer.group)
        for told in stream_advisories.abandoned_batches(self.committer.group):
            self.delivery.advise(told)
            self.committer.changed()
        if 0 < self.catalog.next_expiry_ns() <= now_ns:
            self.catalog.expire(now_ns=now_ns, rows=self.committer.group.rows)
            self.committer.changed()

    def release(self, group: Group) -> None:
        """A group is durable: keep its payloads, send its replies, answer its reads."""
        if len(group.rows):
            self._reads.keep(group.rows, group.bytes)
        if group.replies:
            self._link.send_runs(*group.replies)
        for read in group.deferred:
            self._reads.submit(read)
        reached = group.rows.reached()
        self.consumers.released(reached, self._clock.now_ns())
        self.copies.released(reached)
        self.delivery.pump()

    def _api_path(self, subject: bytes) -> bytes:
        """What follows ``$JS.API.`` or ``$JS.<domain>.API.``, empty for any other subject."""
        for prefix in (b"$JS.API.", self._domain_api):
            if subject.startswith(prefix):
                return subject[len(prefix) :]
        return b""

    def _publish(self, run: Sequence[Message], now_ns: int) -> None:
        committer = self.committer
        if committer.blocked is not None:
            self._refuse(run, api_errors.INSUFFICIENT_STORAGE.error)
        elif (
            committer.pending_rows > INTAKE_MESSAGES_MAX
            or committer.pending_bytes > INTAKE_BYTES_MAX
            or self.too_much_unsettled()
        ):
            self._refuse(run, None)
        else:
            decide(self.catalog, run, now_ns, committer.group)
            self.consumers.stored()
            for told in stream_advisories.abandoned_batches(committer.group):
                self.delivery.advise(told)

    def _refuse(self, run: Sequence[Message], error: api_errors.ApiError | None) -> None:
        """Answer publishes that are not looked at: the disk is full (``error``), or too many are waiting (None)."""
        frames = []
        for message in run:
            state = self.catalog.stream_of(message.subject.decode(errors="replace"))
            if state is not None and message.reply and not state.config.no_ack:
                acks = pub_acks(state.name, self.catalog.domain)
                frames.append(acks.failed(message.reply, error) if error else acks.busy(message.reply))
        self._link.send_runs(*frames)

    def _acks(self, acks: list[Message], now_ns: int) -> list[Message]:
        """Take acks that were gathered; returns what is left to take: none."""
        if acks:
            unheard = tuple(self.consumers.acks(acks, now_ns))  # type: ignore[arg-type]
            for subject, reply, _, _ in acks if unheard else ():
                if reply and subject.startswith(unheard):
                    self.committer.group.replies.append(no_responders_frame(subject, reply))
            self.delivery.flush()
        return []

    def _request(self, message: Message, path: bytes, now_ns: int) -> None:
        if not path:
            self.consumers.flow(message.subject, message.header, now_ns)
            return
        if path.startswith(_KEYED):
            self._publish([message._replace(subject=path)], now_ns)
            return
        group, waiting = _group_for(path, self.committer, self.catalog), self.committer.group
        if path.startswith(_DIRECT):
            _answer(group, self._reads.direct(message))
        elif path.startswith(_NEXT):
            if message.reply and not self._pull(message, path, now_ns):
                group.replies.append(no_responders_frame(message.subject, message.reply))
        else:
            self._dispatch(group, message, path, now_ns=now_ns)
        if group is not waiting:
            self.release(group)

    def _dispatch(self, group: Group, message: Message, path: bytes, *, now_ns: int) -> None:
        """Have a request of the API proper answered, and tell who listens what came of it."""
        account = self.account
        account.reply_bytes_max = self._link.payload_max
        events, total, errors = len(group.rows), account.api_total, account.api_errors
        answer = dispatch(
            self.catalog,
            ApiRequest(*message),
            now_ns=now_ns,
            rows=group.rows,
            account=account,
            consumers=self.consumers,
        )
        changed = len(group.rows) > events
        self.delivery.flush()
        if changed:
            self.consumers.sync_streams(now_ns)
            self.copies.sync()
            self.follow_subjects()
            told = stream_advisories.stream_action(path)
            if told is not None and account.api_errors == errors:
                self.delivery.advise(told)
        if message.reply and answer is not None:
            if isinstance(answer, NeedMessage):
                _answer(group, self._reads.stored(answer, message.reply))
            else:
                group.replies.append(encode_message(message.reply, answer))
        if (
            isinstance(answer, bytes)
            and account.api_total > total
            and self.delivery.tells(stream_advisories.AUDIT_SUBJECT)
        ):
            told = stream_advisories.api_audit(path, message.payload, answer, server=account.server_name)
            self.delivery.advise(told)

    def _keep(self, message: Message) -> None:
        """Store an advisory as if a client had published it."""
        self._publish([message], self._clock.now_ns())
        self.committer.changed()

    def _pull(self, message: Message, path: bytes, now_ns: int) -> bool:
        """Give a consumer a request for messages; False when there is no such consumer."""
        names = path[len(_NEXT) :].decode(errors="replace").split(".")
        request = PullRequest(message.reply, message.payload, message.header)
        return len(names) == 2 and self.consumers.pull(names[0], names[1], request, now_ns)


def _answer(group: Group, answer: bytes | Read | StoredRead | None) -> None:
    """What is known leaves with the group, what must be read is read behind it."""
    if isinstance(answer, bytes):
        group.replies.append(answer)
    elif answer is not None:
        group.deferred.append(answer)


def _group_for(path: bytes, committer: GroupCommitter, catalog: Catalog) -> Group:
    """The group that gathers; while it waits for space one of its own for what shows nothing of it."""
    if committer.blocked is None or committer.idle or shows_any(catalog, path, committer.hidden):
        return committer.group
    return Group()
