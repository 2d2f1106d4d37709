"""The storing of single messages with further effects: rollups, counters, schedules, republishing."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.index.segments import Ints
from delta_store.streams.catalog import Catalog
from delta_store.streams.counters import BrokenCounter, whole_number
from delta_store.streams.msg_ttl import ttl_seconds
from delta_store.streams.stream_state import NewMessage, NewRun, StreamState
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing import publish_checks
from ingest.publishing.group import Group
from ingest.publishing.pub_ack import PubAcks, pub_acks
from ingest.publishing.publish_headers import set_field, with_field, without
from ingest.publishing.republish import republished
from ingest.publishing.schedule_checks import NEXT, SCHEDULER

_SECOND: Final = 1_000_000_000


class Single(NamedTuple):
    """One message that passed all checks."""

    subject: str
    sid: int
    reply: bytes
    header: bytes | None
    payload: bytes
    fields: publish_checks.Fields


class BatchEnd(NamedTuple):
    """The fields of a batch's acknowledgement, passed with its last message."""

    batch_id: str
    messages: int


class FeaturedStore:
    """The messages stored in one stream: one by one with all effects of each, or many without further effects."""

    __slots__ = ("acks", "again", "catalog", "group", "now_ns", "state")

    def __init__(self, catalog: Catalog, state: StreamState, now_ns: int, group: Group) -> None:
        self.catalog = catalog
        self.state = state
        self.now_ns = now_ns
        self.group = group
        self.acks: PubAcks = pub_acks(state.name, catalog.domain)
        self.again: list[WireMessage] = []
        """Messages to republish."""

    def counted(self, message: Single) -> Single | ApiRefusal:
        """Return the message with its counter's new total; an error if it can't be added."""
        counters, increment = self.state.counters, message.fields.get(b"Nats-Incr")
        if counters is None or increment is None:
            return message
        try:
            total = counters.last(self.state.index, message.sid)
        except BrokenCounter:
            return api_errors.COUNTER_BROKEN.error
        header, added, shares = message.header or b"", whole_number(increment.decode()), total.sources
        source = message.fields.get(b"Nats-Stream-Source")
        if source is not None:
            try:
                added, shares = total.with_source(source, message.payload)
            except BrokenCounter:
                return api_errors.COUNTER_BROKEN.error
            header = set_field(header, b"Nats-Incr", str(added).encode())
        if shares:
            header = set_field(header, b"Nats-Counter-Sources", shares)
        payload = total.plus(added)
        if 0 < self.state.config.max_msg_size < len(header) + len(payload):
            return api_errors.MESSAGE_TOO_LARGE.error
        return message._replace(header=header or None, payload=payload)

    def store(self, message: Single, *, end: BatchEnd | None = None) -> None:
        """Store one message that passed all checks: state, row, republished message and acknowledgement."""
        state, group, subject, header = self.state, self.group, message.subject, self._header(message)
        last_seq = state.index.ends.last(message.sid) if state.republishes is not None else 0
        msg_id = publish_checks.text(message.fields.get(b"Nats-Msg-Id", b"")) or None
        new = NewMessage(subject, message.sid, header, message.payload, msg_id)
        whole = {"sub": False, "all": True}.get(publish_checks.rollup(message.fields))
        if whole is None:
            ts_ns = state.store(new, now_ns=self.now_ns, rows=group.rows)
        else:
            ts_ns = state.roll_up(new, whole=whole, now_ns=self.now_ns, rows=group.rows)
        seq = state.index.last_seq
        if msg_id and not state.dedup.find(msg_id):
            state.dedup.remember(msg_id, seq, ts_ns)
        group.bytes += len(message.payload) + len(header or b"")
        self._end_schedule(message.fields)
        kept = WireMessage(subject.encode(), b"", header or b"", message.payload)
        again = republished(state, kept, seq=seq, ts_ns=ts_ns, last_seq=last_seq)
        if again is not None:
            self.again.append(again)
            group.replies.append(encode_message(again.subject, again.payload, header=again.header))
        if message.reply and not state.config.no_ack:
            group.replies.append(self._ack(message, seq, end))

    def store_run(self, run: NewRun, replies: Sequence[bytes] = (), *, ts_ns: Ints | None = None) -> None:
        """Store messages that passed all checks and have no further effects; see :meth:`StreamState.store_run`."""
        state, group = self.state, self.group
        first_seq = state.index.last_seq + 1
        state.store_run(run, now_ns=self.now_ns, rows=group.rows, ts_ns=ts_ns)
        group.bytes += sum(map(len, run.data)) + (sum(map(len, filter(None, run.headers))) if run.headers else 0)
        if replies and not state.config.no_ack:
            group.replies += self.acks.stored_run(replies, first_seq)

    def _end_schedule(self, fields: publish_checks.Fields) -> None:
        """Remove, without erasing, the schedule that the message ends, if any."""
        config, scheduler = self.state.config, fields.get(SCHEDULER)
        if fields.get(NEXT) != b"purge" or not scheduler or not config.allow_rollup_hdrs or config.deny_purge:
            return
        index = self.state.index
        sid = index.table.ids.get(publish_checks.text(scheduler))
        gone = index.ends.sequences(sid) if sid is not None else []
        for seq in gone:
            index.remove(seq)
        if gone:
            self.state.record_removal(gone, "schedule", now_ns=self.now_ns, rows=self.group.rows)

    def _ack(self, message: Single, seq: int, end: BatchEnd | None) -> bytes:
        if end is not None:
            return self.acks.committed(message.reply, seq, batch_id=end.batch_id, count=end.messages)
        if self.state.counters is not None:
            return self.acks.counted(message.reply, seq, message.payload)
        return self.acks.stored(message.reply, seq)

    def _header(self, message: Single) -> bytes | None:
        """Return the header block, with the TTL raised to that of the stream's delete markers."""
        config, header = self.state.config, message.header
        least = config.subject_delete_marker_ttl // _SECOND
        ttl = ttl_seconds(message.fields.get(b"Nats-TTL", b"00")) or 0
        if not header or not 0 < ttl < least or config.max_msgs_per_subject == 1:
            return header
        return with_field(without(header, b"Nats-TTL"), b"Nats-TTL", b"%d" % least)
