"""Expiry of messages: by their stream's ``max_age``, or by TTLs of their own."""

from collections.abc import Sequence

import numpy as np

from delta_store.index.stream_index import StreamIndex
from delta_store.streams.msg_ttl import MsgTtls, marker_header
from delta_store.streams.stream_state import NewMessage, StreamState
from delta_store.values.records import RowColumns


def expire(state: StreamState, *, now_ns: int, rows: RowColumns) -> int:
    """Remove messages older than the stream's ``max_age`` or their own TTL; return how many."""
    age, index = state.config.max_age, state.index
    if state.ttls is not None:
        return _expire_singly(state, state.ttls, now_ns=now_ns, rows=rows)
    if age <= 0 or not index.msgs or index.first_ts + age > now_ns:
        return 0
    removed = index.advance_first(index.seq_at_time(now_ns - age + 1))
    if removed:
        state.record_removal([], "age", now_ns=now_ns, rows=rows)
    return removed


def next_expiry_ns(state: StreamState) -> int:
    """Return when the next message of a stream expires, ns; 0 when none ever will."""
    age = state.config.max_age
    if state.ttls is not None:
        return state.ttls.next_ns(state.index, max_age=age)
    return state.index.first_ts + age if age > 0 and state.index.msgs else 0


def _expire_singly(state: StreamState, ttls: MsgTtls, *, now_ns: int, rows: RowColumns) -> int:
    """Do :func:`expire` where messages have TTLs of their own, or never expire."""
    index = state.index
    gone = ttls.expired(index, max_age=state.config.max_age, now_ns=now_ns)
    if not gone:
        return 0
    marked = _last_of_subjects(index, gone, ttls) if state.config.subject_delete_marker_ttl > 0 else []
    plain = np.array(sorted(set(gone) - set(marked)), np.int64)
    if len(plain):
        index.remove_many(plain)
        state.record_removal(plain.tolist(), "age", now_ns=now_ns, rows=rows)
    for seq in marked:
        sid, header = index.live.sid_of(seq), marker_header(state.config.subject_delete_marker_ttl)
        marker = NewMessage(index.table.names[sid], sid, header, b"", None)
        state.roll_up(marker, whole=False, now_ns=now_ns, rows=rows)
    return len(gone)


def _last_of_subjects(index: StreamIndex, gone: Sequence[int], ttls: MsgTtls) -> list[int]:
    """Return those of the messages ``gone`` after which their subject is empty and that are no delete markers."""
    left: dict[int, int] = {}
    lasts = []
    for seq in gone:
        sid = index.live.sid_of(seq)
        left[sid] = left.get(sid, index.table.count.item(sid)) - 1
        if not left[sid] and not ttls.is_marker(seq):
            lasts.append(seq)
    return lasts
