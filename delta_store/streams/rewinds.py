"""A stream made to stand as it stood at a point, and lost messages brought back: what that takes. Pure.

Sequences never go back. What came after the point leaves the stream, not erased, so that the past still shows it. What
was there at the point and has left since comes back as new messages. They keep their order to the messages that were
behind them, which are written anew after them: those of the whole stream, or, where subjects have a limit of their own
(``max_msgs_per_subject``, as in a key-value bucket), those of their subjects.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from conf.limits import REMOVAL_RANGES_MAX
from delta_store.index.segments import Ints
from delta_store.index.stream_index import StreamIndex
from delta_store.streams.event_rows import ranges_of
from delta_store.streams.removal_rows import removal_data
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_state import NewRun, StreamState
from delta_store.values.records import Kind, Removal, RowColumns
from delta_store.values.stream_message import MessageRun

REASON = "rewind"


class Rewound(NamedTuple):
    """What a rewind has changed."""

    removed: int
    """Messages that came after the point."""
    restored: int
    """Messages that had left the stream."""
    rewritten: int
    """Messages that were behind these, and got new sequences with them."""


def lost(past: Ints, live: Ints) -> Ints:
    """Return those of the sequences that were there which are not live (both ascending)."""
    found: Ints = past[~np.isin(past, live, assume_unique=True)]
    return found


def followers(index: StreamIndex, gone: Iterable[tuple[str, int]], *, up_to_seq: int) -> Ints:
    """Return the live sequences behind lost messages of their own subject (given with them, ascending)."""
    firsts: dict[int, int] = {}
    for subject, seq in gone:
        sid = index.table.ids.get(subject)
        if sid is not None:
            firsts.setdefault(sid, seq)
    if not firsts:
        return np.zeros(0, np.int64)
    since = np.full(len(index.table.names), up_to_seq, np.int64)
    since[list(firsts)] = list(firsts.values())
    parts = []
    for segment, start in index.live.segments_from(min(firsts.values())):
        if segment.base > up_to_seq:
            break
        slots = segment.live_slots(start)
        seqs = segment.sequences(slots)
        parts.append(seqs[(seqs > since[segment.sid[slots]]) & (seqs <= up_to_seq)])
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def growth(index: StreamIndex, again: MessageRun, *, up_to_seq: int) -> int:
    """Return by how many bytes a stream grows when what came after ``up_to_seq`` leaves it and ``again`` comes back."""
    lost = np.array([index.live.sid_of(seq) < 0 for seq in again.seqs], np.bool_)
    newer = index.live.segments_from(up_to_seq + 1)
    leaving = sum(int(segment.size[segment.live_slots(start)].sum()) for segment, start in newer)
    return int(stored_sizes(again.subjects, again.headers, again.data)[lost].sum()) - leaving


def rewind(state: StreamState, again: MessageRun, *, up_to_seq: int, now_ns: int, rows: RowColumns) -> Rewound:
    """Remove what came after ``up_to_seq``; store ``again``, messages from before it, behind all others, in order."""
    index = state.index
    moved = np.array([seq for seq in again.seqs if index.live.sid_of(seq) >= 0], np.int64)
    newer = index.live.sequences(up_to_seq + 1, index.last_seq)
    ranges = ranges_of(moved.tolist()) + ([(int(newer[0]), int(newer[-1]))] if len(newer) else [])
    index.remove_many(np.concatenate((moved, newer)))
    for start in range(0, len(ranges), REMOVAL_RANGES_MAX):
        removal = Removal(ranges[start : start + REMOVAL_RANGES_MAX], REASON, erase=False)
        state.record(Kind.REMOVE, removal_data(removal, last_ts=index.last_ts), now_ns=now_ns, rows=rows)
    bring_back(state, again, now_ns=now_ns, rows=rows)
    return Rewound(len(newer), len(again) - len(moved), len(moved))


def bring_back(state: StreamState, again: MessageRun, *, now_ns: int, rows: RowColumns) -> None:
    """Store messages of the past as new ones, with new sequences and times; limits apply to them as to any."""
    if not len(again):
        return
    sids = [state.index.table.intern(subject) for subject in again.subjects]
    if state.counters is not None:
        for message in zip(again.subjects, sids, again.headers, again.data, [None] * len(again), strict=True):
            state.store(message, now_ns=now_ns, rows=rows)
        return
    state.store_run(NewRun(again.subjects, sids, again.headers, again.data, None), now_ns=now_ns, rows=rows)


def broken_by(delivered: Iterable[tuple[str, int]], *, up_to_seq: int) -> list[str]:
    """Return the consumers, given with the last sequence delivered, that have seen what came after the point."""
    return sorted(name for name, seq in delivered if seq > up_to_seq)
