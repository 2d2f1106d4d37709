"""The messages of a stream that were live at a point: recorded effects applied to columns of rows. Pure.

State at sequence S is the state right after message S was stored; at a time, that of the last message before it with
all that was removed before it. It has the rows with ``seq`` ≤ S that are not below the ``first_seq`` recorded on row S,
not evicted by a row ≤ S, not in a REMOVE that happened before S, and not erased by any REMOVE, however late. Nothing is
decided here that was not recorded.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.entries.settled_log import Int64s
from delta_store.streams.removal_rows import read_removal
from delta_store.values.records import Kind

Mask = npt.NDArray[np.bool_]
END = (1 << 62) - 1
"""A sequence behind all sequences: the state at END is the newest, with all events after its last message."""


Place = tuple[int, int, int]
"""A point as :func:`cut_at` takes it: ``up_to_seq``, ``before_ns``, ``event_no``."""


class Columns(NamedTuple):
    """Message rows of one incarnation of a stream, in any order (equal lengths)."""

    seq: Int64s
    evicts: Int64s


class EventRow(NamedTuple):
    """The columns of an event row that affect liveness."""

    seq: int
    event_no: int
    kind: str
    first_seq: int
    data: bytes
    ts_ns: int


class Cut(NamedTuple):
    """Everything that decides liveness at one point, apart from the rows themselves."""

    up_to_seq: int
    first_seq: int
    removed: tuple[tuple[int, int], ...]
    """Disjoint inclusive ranges, ascending."""


def cut_at(up_to_seq: int, *, first_seq: int, events: Iterable[EventRow], before_ns: int = 0, event_no: int = 0) -> Cut:
    """Return the cut for the state at ``up_to_seq``; ``events`` are all of the stream's, in any order.

    An event that carries sequence S happened after message S, so it belongs to the state only from S+1 on; or, where
    the point is a time (``before_ns``, exclusive) whose last message is S, if it happened before that time; or, where
    the point is a place in the stream's order, if its number is at most that of the place (``event_no``).
    """
    ranges: list[tuple[int, int]] = []
    for event in events:
        if event.kind != Kind.REMOVE:
            continue
        what, _ = read_removal(event.data)
        happened = has_happened(event, up_to_seq, before_ns, event_no)
        if what.erase or happened:
            ranges.extend(what.ranges)
        if happened:
            first_seq = max(first_seq, event.first_seq)
    return Cut(up_to_seq, first_seq, merged(ranges))


def removed_since(up_to_seq: int, events: Iterable[EventRow], *, before_ns: int = 0, event_no: int = 0) -> bool:
    """Whether messages were removed other than by new ones after a point, as :func:`cut_at` takes it.

    An incarnation's newest REMOVE row is always kept, so this is known however old the point is.
    """
    return removed_between((up_to_seq, before_ns, event_no), (END, 0, 0), events)


def removed_between(start: Place, end: Place, events: Iterable[EventRow]) -> bool:
    """Whether messages were removed other than by new ones between two points."""
    removals = [event for event in events if event.kind == Kind.REMOVE]
    return any(has_happened(event, *end) and not has_happened(event, *start) for event in removals)


def has_happened(event: EventRow, up_to_seq: int, before_ns: int, event_no: int) -> bool:
    """Whether an event belongs to the state at a point, as :func:`cut_at` takes it."""
    behind = event.ts_ns < before_ns or event.event_no <= event_no
    return event.seq < up_to_seq or (event.seq == up_to_seq and behind)


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the same sequences as disjoint ascending ranges."""
    whole: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if whole and low <= whole[-1][1] + 1:
            whole[-1] = (whole[-1][0], max(high, whole[-1][1]))
        elif low <= high:
            whole.append((low, high))
    return tuple(whole)


def live_at(rows: Columns, cut: Cut) -> Mask:
    """Return which of the rows were live at the cut.

    ``rows`` must include, for each row in question, the row that evicted it if one did (a per-subject limit evicts only
    messages of the evicting row's own subject, so the rows of whole subjects are enough).
    """
    inside = rows.seq <= cut.up_to_seq
    live: Mask = inside & (rows.seq >= cut.first_seq)
    evicted = rows.evicts[inside & (rows.evicts > 0)]
    if len(evicted):
        live &= ~np.isin(rows.seq, evicted)
    if cut.removed:
        live &= ~inside_ranges(rows.seq, cut.removed)
    return live


def inside_ranges(seqs: Int64s, ranges: tuple[tuple[int, int], ...]) -> Mask:
    """Return which of the sequences are in one of the disjoint ascending ranges, of which there is one at least."""
    low = np.array([one[0] for one in ranges], dtype=np.int64)
    high = np.array([one[1] for one in ranges], dtype=np.int64)
    place = np.searchsorted(low, seqs, side="right") - 1
    found: Mask = (place >= 0) & (seqs <= high[np.maximum(place, 0)])
    return found


def last_of_each(seqs: Int64s, subject_ids: Int64s) -> Int64s:
    """Return the greatest sequence of each subject id, ascending."""
    if not len(seqs):
        return seqs
    order = np.lexsort((seqs, subject_ids))
    ids = subject_ids[order]
    last = np.append(ids[1:] != ids[:-1], [True])
    return np.sort(seqs[order][last])
