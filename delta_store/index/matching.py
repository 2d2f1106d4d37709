"""Queries by subject over a stream's live messages, answered from numpy columns without touching a payload.

A filter is one subject, a :class:`SubjectFilter` or None for all. A literal subject is found by its first and last
sequence; a wildcard by a mask over subject ids, cached per filter, that is applied segment by segment.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from delta_store.index.segments import SEGMENT_SHIFT, Ints, Segment
from delta_store.index.stream_index import StreamIndex
from delta_store.index.subject_table import Mask, SubjectTable
from delta_store.values.read_errors import TooMany
from delta_store.values.subjects import SubjectFilter, has_wildcard

Filter = str | SubjectFilter | None
_SEGMENTS_NEAR = 32
"""Segments that are searched before the bounds of the whole search are computed."""
_PEEK = 128
"""Live messages that are compared one by one before a filter gets a mask."""


def last_by_subject(index: StreamIndex, subject: str) -> int:
    """Return the last sequence whose subject matches (wildcards allowed), or 0."""
    chosen = SubjectFilter((subject,))
    if chosen.is_literal:
        sid = index.table.ids.get(subject)
        return index.ends.last(sid) if sid is not None else 0
    return index.live.last() if chosen.matches_all else int(_lasts(index, chosen).max(initial=0))


def subjects_matching(index: StreamIndex, subjects: Filter = None) -> dict[str, int]:
    """Return each matching subject with its number of live messages, in no order."""
    table = index.table
    counts = table.count[: len(table.names)]
    chosen = _compiled(subjects)
    wanted = counts > 0 if chosen is None else (counts > 0) & table.mask(chosen)[: len(counts)]
    sids = np.flatnonzero(wanted)
    return {table.names[sid]: count for sid, count in zip(sids.tolist(), counts[sids].tolist(), strict=True)}


def next_matching(index: StreamIndex, subjects: Filter, from_seq: int) -> int:
    """Return the first live sequence from ``from_seq`` on whose subject matches, or 0."""
    chosen = _compiled(subjects)
    if chosen is None:
        return index.live.next(from_seq)
    if chosen.is_literal:
        sids = [index.table.ids[subject] for subject in chosen.literals if subject in index.table.ids]
        return min(filter(None, (index.ends.next(sid, from_seq) for sid in sids)), default=0)
    near = 0 if index.table.has_mask(chosen) else _peek(index, chosen, from_seq)
    return near or next(iter_matching(index, chosen, from_seq), 0)


def iter_matching(index: StreamIndex, subjects: Filter, from_seq: int) -> Iterator[int]:
    """Iterate over live sequences from ``from_seq`` on whose subjects match; the index must not change meanwhile."""
    chosen = _compiled(subjects)
    if chosen is None and not index.num_deleted:
        yield from range(max(from_seq, index.first_seq, 1), index.last_seq + 1)
        return
    if chosen is None:
        for segment, start in index.live.segments_from(from_seq):
            yield from segment.sequences(segment.live_slots(start)).tolist()
        return
    mask = index.table.mask(chosen)
    segments = index.live.segments_from(from_seq)
    for segment, start in islice(segments, _SEGMENTS_NEAR):
        yield from _chosen(segment, start, mask)
    behind = next(segments, None)
    if behind is None:
        return
    first, last = _span(index.table, mask)
    for segment, start in index.live.segments_from(max(first, behind[0].base)):
        if segment.base > last:
            return
        yield from _chosen(segment, start, mask)


def count_matching(index: StreamIndex, subjects: Filter, from_seq: int) -> int:
    """Count the live messages from ``from_seq`` on that match."""
    chosen = _compiled(subjects)
    if from_seq <= index.first_seq:
        if chosen is None:
            return index.msgs
        mask = index.table.mask(chosen)
        return int(index.table.count[mask[:-1]].sum(dtype=np.int64))
    count = 0
    for segment, start in index.live.segments_from(from_seq):
        if chosen is None:
            count += segment.live if not start else len(segment.live_slots(start))
        else:
            mask = index.table.mask(chosen)
            count += int(np.count_nonzero(mask[segment.sid[start : segment.used]]))
    return count


def last_per_subject(
    index: StreamIndex,
    filters: SubjectFilter | Iterable[str],
    up_to_seq: int | None = None,
    *,
    limit: int | None = None,
) -> list[int]:
    """Return the last sequence of each matching subject, ascending; only those up to ``up_to_seq``, if given.

    Raises :class:`TooMany` when there are more than ``limit``. Messages that were removed since are not returned.
    """
    chosen = filters if isinstance(filters, SubjectFilter) else SubjectFilter(filters)
    bounded = up_to_seq is not None and up_to_seq < index.last_seq
    found = _lasts_up_to(index, chosen, up_to_seq or 0) if bounded else _lasts(index, chosen)
    if limit is not None and len(found) > limit:
        raise TooMany(limit)
    ascending: list[int] = np.sort(found).tolist()
    return ascending


def rolled_up(index: StreamIndex, sid: int) -> list[int]:
    """Return the live sequences that a rollup under this subject (wildcards possible) replaces, ascending."""
    subject = index.table.names[sid]
    return list(iter_matching(index, subject, index.first_seq)) if has_wildcard(subject) else index.ends.sequences(sid)


def _peek(index: StreamIndex, chosen: SubjectFilter, from_seq: int) -> int:
    """Return the first match among the next few messages, compared by name; 0 when it is none of them."""
    names = index.table.names
    for segment, start in index.live.segments_from(from_seq):
        for slot in segment.live_slots(start, min(segment.used, start + _PEEK)).tolist():
            if chosen.matches(names[segment.sid.item(slot)]):
                return segment.sequence(slot)
        break
    return 0


def _lasts(index: StreamIndex, filters: SubjectFilter) -> Ints:
    """Return the last live sequence of each matching subject, in no order."""
    table = index.table
    if filters.is_literal:
        sids = [table.ids[subject] for subject in filters.literals if subject in table.ids]
        return np.array([seq for seq in map(index.ends.last, sids) if seq], np.int64)
    mask = table.mask(filters)
    for sid in [sid for sid in table.stale_last if mask[sid]]:
        index.ends.last(sid)
    lasts: Ints = table.last[mask[:-1] & (table.count > 0)]
    return lasts


def _lasts_up_to(index: StreamIndex, filters: SubjectFilter, up_to_seq: int) -> Ints:
    """Return the last live sequence at or below a bound of each matching subject, in no order."""
    table = index.table
    wanted = table.mask(filters)[:-1] & (table.count > 0) & (table.first <= up_to_seq)
    found = np.zeros(len(wanted), np.int64)
    left = int(np.count_nonzero(wanted))
    open_ids = np.append(wanted, False)
    for place in range(bisect_right(index.live.keys, up_to_seq >> SEGMENT_SHIFT) - 1, -1, -1):
        if not left:
            break
        segment = index.live.segments[index.live.keys[place]]
        sids = segment.sid[: segment.start(up_to_seq + 1)]
        slots = np.flatnonzero(open_ids[sids])
        found[sids[slots]] = segment.sequences(slots)
        open_ids[sids[slots]] = False
        left = int(np.count_nonzero(open_ids)) if len(slots) else left
    return found[found > 0]


def _compiled(subjects: Filter) -> SubjectFilter | None:
    if subjects is None:
        return None
    chosen = SubjectFilter((subjects,)) if isinstance(subjects, str) else subjects
    return None if chosen.matches_all else chosen


def _span(table: SubjectTable, mask: Mask) -> tuple[int, int]:
    """Return bounds, never too narrow, of the sequences whose subject id is in the mask; (1, 0) without any."""
    sids = np.flatnonzero(mask[:-1] & (table.count > 0))
    return (int(table.first[sids].min()), int(table.last[sids].max())) if len(sids) else (1, 0)


def _chosen(segment: Segment, start: int, mask: Mask) -> list[int]:
    """Return the sequences of a segment from a slot on whose subject id is in the mask."""
    slots = np.flatnonzero(mask[segment.sid[start : segment.used]])
    chosen: list[int] = segment.sequences(slots + start).tolist() if len(slots) else []
    return chosen
