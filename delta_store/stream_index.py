"""The questions that reads ask of a stream's live messages, answered from numpy columns without touching a payload.

A filter is one subject, a :class:`SubjectFilter` or None for all. A literal subject is found by its first and last
sequence; a wildcard by a mask over subject ids, cached per filter, that is applied segment by segment.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from delta_store.live_messages import LiveMessages
from delta_store.segments import SEGMENT_SHIFT, Ints, Segment
from delta_store.subject_table import Mask
from delta_store.subjects import SubjectFilter

Filter = str | SubjectFilter | None
_PEEK = 128
"""Live messages that are compared one by one before a filter is worth a mask."""


class TooMany(Exception):
    """More subjects match than the caller's limit allows."""


class StreamIndex(LiveMessages):
    """Live messages of one stream with the look-ups of Direct Get, consumers and stream info."""

    __slots__ = ()

    def subject_of(self, seq: int) -> str | None:
        """The subject of a live message, None when it is not live."""
        sid = self.sid_of(seq)
        return self.table.names[sid] if sid >= 0 else None

    def last_by_subject(self, subject: str) -> int:
        """The last sequence whose subject matches (wildcards allowed), or 0."""
        chosen = SubjectFilter((subject,))
        if chosen.is_literal:
            sid = self.table.ids.get(subject)
            return self.last_of_id(sid) if sid is not None else 0
        return self._last_live() if chosen.matches_all else int(self._lasts(chosen).max(initial=0))

    def subjects_matching(self, subjects: Filter = None) -> dict[str, int]:
        """Each subject that has live messages and matches, with how many, in no order."""
        table = self.table
        counts = table.count[: len(table.names)]
        chosen = _compiled(subjects)
        wanted = counts > 0 if chosen is None else (counts > 0) & table.mask(chosen)[: len(counts)]
        sids = np.flatnonzero(wanted)
        return {table.names[sid]: count for sid, count in zip(sids.tolist(), counts[sids].tolist(), strict=True)}

    def first_of_id(self, sid: int) -> int:
        """The first live sequence of a subject id, or 0; amortised constant where chains are kept."""
        table = self.table
        if not table.count.item(sid):
            return 0
        seq: int = table.first.item(sid)
        if self.sid_of(seq) == sid:
            return seq
        last: int = table.last.item(sid)
        if table.count.item(sid) == 1 and self.sid_of(last) == sid:
            found = last
        else:
            found = self._follow(seq, sid) or self._scan_up(max(seq, self.first_seq), sid)
        table.first[sid] = found
        return found

    def last_of_id(self, sid: int) -> int:
        """The last live sequence of a subject id, or 0."""
        table = self.table
        if not table.count.item(sid):
            return 0
        seq: int = table.last.item(sid)
        if sid in table.stale_last or self.sid_of(seq) != sid:
            first: int = table.first.item(sid)
            alone = table.count.item(sid) == 1 and self.sid_of(first) == sid
            seq = first if alone else self._scan_down(seq, sid)
            table.last[sid] = seq
            table.stale_last.discard(sid)
        return seq

    def first_sequences_of_id(self, sid: int, number: int) -> list[int]:
        """The first ``number`` live sequences of a subject id (fewer when it has fewer), ascending."""
        found = []
        seq = self.first_of_id(sid)
        while seq:
            found.append(seq)
            if len(found) == number or seq == self.table.last.item(sid):
                break
            seq = self._follow(seq, sid) or self._scan_up(seq + 1, sid)
        return found

    def next_matching(self, subjects: Filter, from_seq: int) -> int:
        """The first live sequence from ``from_seq`` on whose subject matches, or 0."""
        chosen = _compiled(subjects)
        if chosen is None:
            return self.next_live(from_seq)
        near = 0 if self.table.has_mask(chosen) else self._peek(chosen, from_seq)
        return near or next(self._matching(chosen, from_seq), 0)

    def iter_matching(self, subjects: Filter, from_seq: int) -> Iterator[int]:
        """Live sequences from ``from_seq`` on whose subjects match; the index may not change while iterating."""
        return self._matching(_compiled(subjects), from_seq)

    def count_matching(self, subjects: Filter, from_seq: int) -> int:
        """How many live messages from ``from_seq`` on match."""
        chosen = _compiled(subjects)
        if from_seq <= self.first_seq:
            if chosen is None:
                return self.msgs
            mask = self.table.mask(chosen)
            return int(self.table.count[mask[:-1]].sum(dtype=np.int64))
        count = 0
        for segment, start in self._segments_from(from_seq):
            if chosen is None:
                count += segment.live if not start else len(segment.live_slots(start))
            else:
                mask = self.table.mask(chosen)
                count += int(np.count_nonzero(mask[segment.sid[start : segment.used]]))
        return count

    def last_per_subject(
        self, filters: SubjectFilter | Iterable[str], up_to_seq: int | None = None, *, limit: int | None = None
    ) -> list[int]:
        """The last sequence of each matching subject, ascending; those at or below ``up_to_seq`` only, when given.

        Raises :class:`TooMany` when there are more than ``limit``. What limits have removed since does not come back.
        """
        chosen = filters if isinstance(filters, SubjectFilter) else SubjectFilter(filters)
        bounded = up_to_seq is not None and up_to_seq < self.last_seq
        found = self._lasts_up_to(chosen, up_to_seq or 0) if bounded else self._lasts(chosen)
        if limit is not None and len(found) > limit:
            raise TooMany(f"{len(found)} subjects match, {limit} are allowed")
        ascending: list[int] = np.sort(found).tolist()
        return ascending

    def seq_at_time(self, ts_ns: int) -> int:
        """The first live sequence that is not older than ``ts_ns``; ``last_seq + 1`` when all are older."""
        place = bisect_left(self.keys, ts_ns, key=self._newest_ts)
        if place == len(self.keys):
            return self.last_seq + 1
        segment = self.segments[self.keys[place]]
        slots = segment.live_slots()
        return segment.sequence(slots.item(int(np.searchsorted(segment.ts[slots], ts_ns))))

    def deleted(self, limit: int | None = None) -> list[int]:
        """Sequences between the first and the last that are not live, ascending, at most ``limit``."""
        wanted = self.num_deleted if limit is None else min(limit, self.num_deleted)
        found: list[int] = []
        seq = self.first_seq
        while len(found) < wanted:
            stop = min(((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT, self.last_seq + 1)
            segment = self.segments.get(seq >> SEGMENT_SHIFT)
            hole = np.ones(stop - seq, np.bool_)
            if segment is not None:
                hole[segment.sequences(segment.live_slots(segment.start(seq))) - seq] = False
            found += (np.flatnonzero(hole)[: wanted - len(found)] + seq).tolist()
            seq = stop
        return found

    def live_sequences(self, from_seq: int, to_seq: int) -> Ints:
        """Live sequences from ``from_seq`` to ``to_seq`` inclusive, ascending."""
        parts = [
            segment.sequences(segment.live_slots(start, segment.start(to_seq + 1)))
            for segment, start in self._segments_from(from_seq)
            if segment.base <= to_seq
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def head(self, messages: int, size: int) -> tuple[Ints, Ints]:
        """The first live sequences and their sizes: at least so many messages and more than so many bytes, if there are."""
        seqs, sizes, count, total = [], [], 0, 0
        for key in self.keys:
            segment = self.segments[key]
            slots = segment.live_slots()
            seqs.append(segment.sequences(slots))
            sizes.append(segment.size[slots].astype(np.int64))
            count += len(slots)
            total += int(sizes[-1].sum())
            if count >= messages and total > size:
                break
        return (np.concatenate(seqs), np.concatenate(sizes)) if seqs else (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _matching(self, chosen: SubjectFilter | None, from_seq: int) -> Iterator[int]:
        if chosen is None:
            for segment, start in self._segments_from(from_seq):
                yield from segment.sequences(segment.live_slots(start)).tolist()
            return
        mask = self.table.mask(chosen)
        first, last = self._span(mask)
        for segment, start in self._segments_from(max(from_seq, first)):
            if segment.base > last:
                return
            slots = np.flatnonzero(mask[segment.sid[start : segment.used]]) + start
            if len(slots):
                yield from segment.sequences(slots).tolist()

    def _peek(self, chosen: SubjectFilter, from_seq: int) -> int:
        """The first match among the next few messages, compared by name; 0 says nothing about those behind."""
        names = self.table.names
        for segment, start in self._segments_from(from_seq):
            for slot in segment.live_slots(start, min(segment.used, start + _PEEK)).tolist():
                if chosen.matches(names[segment.sid.item(slot)]):
                    return segment.sequence(slot)
            break
        return 0

    def _segments_from(self, seq: int) -> Iterator[tuple[Segment, int]]:
        """The segments that may hold ``seq`` or later ones, each with the slot to start at."""
        for place in range(bisect_left(self.keys, seq >> SEGMENT_SHIFT), len(self.keys)):
            segment = self.segments[self.keys[place]]
            yield segment, segment.start(seq)

    def _span(self, mask: Mask) -> tuple[int, int]:
        """Bounds of the sequences whose subject id is in the mask: never too narrow; (1, 0) when there are none."""
        table = self.table
        sids = np.flatnonzero(mask[:-1] & (table.count > 0))
        return (int(table.first[sids].min()), int(table.last[sids].max())) if len(sids) else (1, 0)

    def _lasts(self, filters: SubjectFilter) -> Ints:
        """The last live sequence of each matching subject, in no order."""
        table = self.table
        if filters.is_literal:
            sids = [table.ids[subject] for subject in filters.literals if subject in table.ids]
            return np.array([seq for seq in map(self.last_of_id, sids) if seq], np.int64)
        mask = table.mask(filters)
        for sid in [sid for sid in table.stale_last if mask[sid]]:
            self.last_of_id(sid)
        lasts: Ints = table.last[mask[:-1] & (table.count > 0)]
        return lasts

    def _lasts_up_to(self, filters: SubjectFilter, up_to_seq: int) -> Ints:
        """The last live sequence at or below a bound of each matching subject, in no order."""
        table = self.table
        wanted = table.mask(filters)[:-1] & (table.count > 0) & (table.first <= up_to_seq)
        found = np.zeros(len(wanted), np.int64)
        left = int(np.count_nonzero(wanted))
        open_ids = np.append(wanted, False)
        for place in range(bisect_right(self.keys, up_to_seq >> SEGMENT_SHIFT) - 1, -1, -1):
            if not left:
                break
            segment = self.segments[self.keys[place]]
            sids = segment.sid[: segment.start(up_to_seq + 1)]
            slots = np.flatnonzero(open_ids[sids])
            found[sids[slots]] = segment.sequences(slots)
            open_ids[sids[slots]] = False
            left = int(np.count_nonzero(open_ids)) if len(slots) else left
        return found[found > 0]

    def _last_live(self) -> int:
        if not self.keys:
            return 0
        segment = self.segments[self.keys[-1]]
        return segment.sequence(segment.live_slots().item(-1))

    def _newest_ts(self, key: int) -> int:
        segment = self.segments[key]
        slots = segment.live_slots()
        return segment.ts.item(slots.item(-1))

    def _follow(self, seq: int, sid: int) -> int:
        """The next live message of a subject behind ``seq`` by the chain, or 0 when the chain is broken."""
        while True:
            segment = self.segments.get(seq >> SEGMENT_SHIFT)
            slot = segment.slot(seq) if segment is not None else -1
            if segment is None or slot < 0 or segment.chain is None or not segment.chain.item(slot):
                return 0
            seq += segment.chain.item(slot)
            if self.sid_of(seq) == sid:
                return seq

    def _scan_up(self, seq: int, sid: int) -> int:
        """The first live message of a subject from ``seq`` on, or 0."""
        for segment, start in self._segments_from(seq):
            slots = np.flatnonzero(segment.sid[start : segment.used] == sid)
            if len(slots):
                return segment.sequence(start + slots.item(0))
        return 0

    def _scan_down(self, seq: int, sid: int) -> int:
        """The last live message of a subject up to ``seq``, or 0."""
        for place in range(bisect_right(self.keys, seq >> SEGMENT_SHIFT) - 1, -1, -1):
            segment = self.segments[self.keys[place]]
            slots: NDArray[np.int64] = np.flatnonzero(segment.sid[: segment.start(seq + 1)] == sid)
            if len(slots):
                return segment.sequence(slots.item(-1))
        return 0


def _compiled(subjects: Filter) -> SubjectFilter | None:
    if subjects is None:
        return None
    chosen = SubjectFilter((subjects,)) if isinstance(subjects, str) else subjects
    return None if chosen.matches_all else chosen
