"""All streams of a shard: the operations on them, the routes to them, and the replay of their rows.

Each operation appends the row that records it and applies it to the state in the same call, so that state and journal
can't differ. Invariant: applying the appended rows to a catalog in the state before gives the state after.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from conf.limits import REMOVAL_RANGES_MAX
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import iter_matching, rolled_up
from delta_store.index.stream_index import StreamIndex
from delta_store.streams import retention
from delta_store.streams.event_rows import event_row, ranges_of, removal_data, stream_data
from delta_store.streams.msg_ttl import MsgTtls, marker_header
from delta_store.streams.replayed_streams import ReplayedStreams
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, Removal, Row, RowColumns, stored_size
from delta_store.values.subjects import SubjectFilter


class NewMessage(NamedTuple):
    """A message that is about to be stored."""

    sid: int
    """Its subject's id in the stream's index."""
    size: int
    """Its stored size."""
    msg_id: str | None


class Catalog(ReplayedStreams):
    """The streams by name; ``domain`` stands in publish acknowledgements when it is not empty."""

    def __init__(self, *, domain: str = "") -> None:
        super().__init__()
        self.domain = domain
        self.held = False
        """Whether nothing may be changed, because nothing can be committed for now; what is there can be read."""

    def require_change(self) -> None:
        """Raise 10047 while nothing may be changed."""
        if self.held:
            raise api_errors.INSUFFICIENT_STORAGE.error

    def create(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Create a stream; raises 10058 when its name and 10065 when its subjects are taken."""
        if config.name in self.streams:
            raise api_errors.STREAM_NAME_EXISTS.error
        self.refuse_overlap(config)
        self.require_change()
        state = self.open(config, stream_id=self.new_id(now_ns), created_ns=now_ns)
        if config.first_seq > 0:
            state.index.restore_bounds(first_seq=config.first_seq, last_seq=config.first_seq - 1, last_ts=0)
        self._record(state, Kind.STREAM, stream_data(config, now_ns), now_ns=now_ns, rows=rows)
        return state

    def update(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Change a stream's configuration and apply lowered limits; raises 10059 and 10065."""
        state = self.stream(config.name)
        self.refuse_overlap(config)
        self.require_change()
        self.reconfigure(state, config, ts_ns=state.next_ts(now_ns))
        self._record(state, Kind.STREAM, stream_data(config, state.created_ns), now_ns=now_ns, rows=rows)
        surplus = retention.over_subject_limit(config.max_msgs_per_subject, state.index)
        before = state.index.first_seq
        state.index.remove_many(surplus)
        retention.cut_front(config, state.index)
        if len(surplus) or state.index.first_seq != before:
            self.record_removal(state, surplus.tolist(), "limits", now_ns=now_ns, rows=rows)
        self.expire_stream(state, now_ns=now_ns, rows=rows)
        return state

    def delete(self, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Delete a stream with its messages; raises 10059."""
        state = self.stream(name)
        self.require_change()
        self._record(state, Kind.STREAM_DELETE, b"", now_ns=now_ns, rows=rows)
        self.close(name, state.position)

    def remove(self, name: str, seq: int, *, now_ns: int, rows: RowColumns, erase: bool = True) -> bool:
        """Delete one message; False when it is not there; raises 10059, 10109 and, when deletes are denied, 10057."""
        state = self.stream(name)
        if state.config.sealed:
            raise api_errors.SEALED_STREAM.error
        if state.config.deny_delete:
            raise api_errors.message_delete_failed("message delete not permitted")
        if state.index.live.sid_of(seq) < 0:
            return False
        self.require_change()
        state.index.remove(seq)
        self.record_removal(state, [seq], "delete", erase=erase, now_ns=now_ns, rows=rows)
        return True

    def purge(self, name: str, *, now_ns: int, rows: RowColumns, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages of a subject filter (all by default), below ``seq`` or but the last ``keep``.

        Returns how many were removed; raises 10059 and, when purges are denied, 10110. Purged messages are erased:
        reads of the past do not show them. Unlike nats-server's, a purge below a sequence that is still to come
        leaves the next sequence alone.
        """
        state = self.stream(name)
        if state.config.sealed:
            raise api_errors.SEALED_STREAM.error
        if state.config.deny_purge:
            raise api_errors.purge_failed("stream purge not permitted")
        index = state.index
        chosen = SubjectFilter((subject,)) if subject and subject != ">" else None
        if chosen is None:
            gone = index.live.sequences(index.first_seq, index.last_seq)
        else:
            gone = np.fromiter(iter_matching(index, chosen, index.first_seq), np.int64)
        if seq:
            gone = gone[gone < seq]
        elif keep:
            gone = gone[: max(0, len(gone) - keep)]
        if not len(gone):
            return 0
        self.require_change()
        index.remove_many(gone)
        self.record_removal(state, gone.tolist(), "purge", erase=True, now_ns=now_ns, rows=rows)
        return len(gone)

    def expire(self, *, now_ns: int, rows: RowColumns) -> int:
        """Remove what is older than its stream's ``max_age`` or its own TTL; returns how many messages."""
        return sum(self.expire_stream(state, now_ns=now_ns, rows=rows) for state in self.streams.values())

    def expire_stream(self, state: StreamState, *, now_ns: int, rows: RowColumns) -> int:
        """:meth:`expire` for one stream: what reads of it do first."""
        if self.held:
            return 0
        age, index = state.config.max_age, state.index
        if state.ttls is not None:
            return self._expire_singly(state, state.ttls, now_ns=now_ns, rows=rows)
        if age <= 0 or not index.msgs or index.first_ts + age > now_ns:
            return 0
        removed = index.advance_first(index.seq_at_time(now_ns - age + 1))
        if removed:
            self.record_removal(state, [], "age", now_ns=now_ns, rows=rows)
        return removed

    def next_expiry_ns(self) -> int:
        """When the next message is too old, 0 when none ever will be."""
        return min(filter(None, map(_expiry_ns, self.streams.values())), default=0)

    def roll_up(
        self, state: StreamState, message: NewMessage, *, whole: bool, now_ns: int, rows: RowColumns
    ) -> tuple[int, int, int]:
        """Store the next message and remove all others: those that its subject matches, or the ``whole`` stream's.

        Returns the message's time, the stream's first sequence then and the one message that its row evicts (0 for
        none). What more it removes is recorded by a row before the message's: the state at its sequence is the
        one after the rollup, and the state before still shows what there was: nothing is erased.
        """
        index, sid = state.index, message.sid
        gone = [] if whole else rolled_up(index, sid)
        if len(gone) > 1:
            self.record_removal(state, gone, "rollup", now_ns=now_ns, rows=rows)
        ts_ns = state.tick(now_ns)
        _, evicted = state.store_one(sid, ts_ns=ts_ns, size=message.size, msg_id=message.msg_id)
        if whole:
            index.advance_first(index.last_seq)
        for seq in gone:
            index.remove(seq)
        return ts_ns, index.first_seq, gone[0] if len(gone) == 1 else evicted

    def _expire_singly(self, state: StreamState, ttls: MsgTtls, *, now_ns: int, rows: RowColumns) -> int:
        """:meth:`expire_stream` where messages have TTLs of their own, or never expire."""
        index = state.index
        gone = ttls.expired(index, max_age=state.config.max_age, now_ns=now_ns)
        if not gone:
            return 0
        marked = _last_of_subjects(index, gone, ttls) if state.config.subject_delete_marker_ttl > 0 else []
        plain = np.array(sorted(set(gone) - set(marked)), np.int64)
        if len(plain):
            index.remove_many(plain)
            self.record_removal(state, plain.tolist(), "age", now_ns=now_ns, rows=rows)
        for seq in marked:
            self._mark(state, index.live.sid_of(seq), now_ns=now_ns, rows=rows)
        return len(gone)

    def _mark(self, state: StreamState, sid: int, *, now_ns: int, rows: RowColumns) -> None:
        """Store a delete marker in the place of the last message of a subject."""
        subject, header = state.index.table.names[sid], marker_header(state.config.subject_delete_marker_ttl)
        marker = NewMessage(sid, stored_size(subject, header, b""), None)
        ts_ns, first_seq, evicted = self.roll_up(state, marker, whole=False, now_ns=now_ns, rows=rows)
        seq = state.index.last_seq
        state.note_content(seq, header, b"", ts_ns=ts_ns)
        place = (state.name, state.stream_id, seq, state.event_no, Kind.MESSAGE.value)
        rows.append(Row(*place, subject, ts_ns, None, first_seq, evicted, header, b"", 0))

    def record_removal(
        self, state: StreamState, seqs: list[int], reason: str, *, now_ns: int, rows: RowColumns, erase: bool = False
    ) -> None:
        """Append REMOVE rows for what the index has lost already; several when there are very many ranges."""
        ranges = ranges_of(seqs)
        for start in range(0, max(1, len(ranges)), REMOVAL_RANGES_MAX):
            removal = Removal(ranges[start : start + REMOVAL_RANGES_MAX], reason, erase)
            data = removal_data(removal, last_ts=state.index.last_ts)
            self._record(state, Kind.REMOVE, data, now_ns=now_ns, rows=rows)

    def record_consumer(
        self, state: StreamState, kind: Kind, *, name: str, data: bytes, now_ns: int, rows: RowColumns
    ) -> None:
        """Append a consumer's row (one of CONSUMER_KINDS) and keep what it says."""
        state.note_consumer(kind, name, data)
        self._record(state, kind, data, now_ns=now_ns, rows=rows, subject=name)

    def _record(
        self, state: StreamState, kind: Kind, data: bytes, *, now_ns: int, rows: RowColumns, subject: str = ""
    ) -> None:
        """Append an event of a state that it was applied to already."""
        state.event_no += 1
        place = (state.index.last_seq, state.event_no, state.index.first_seq)
        ts_ns = state.tick(now_ns)
        incarnation = (state.name, state.stream_id)
        rows.append(event_row(kind, incarnation, place=place, ts_ns=ts_ns, data=data, subject=subject))


def _expiry_ns(state: StreamState) -> int:
    """When the next message of a stream is too old, 0 when none ever will be."""
    age = state.config.max_age
    if state.ttls is not None:
        return state.ttls.next_ns(state.index, max_age=age)
    return state.index.first_ts + age if age > 0 and state.index.msgs else 0


def _last_of_subjects(index: StreamIndex, gone: Sequence[int], ttls: MsgTtls) -> list[int]:
    """Those of the messages to be removed that leave nothing of their subject behind and are no delete markers."""
    left: dict[int, int] = {}
    lasts = []
    for seq in gone:
        sid = index.live.sid_of(seq)
        left[sid] = left.get(sid, index.table.count.item(sid)) - 1
        if not left[sid] and not ttls.is_marker(seq):
            lasts.append(seq)
    return lasts
