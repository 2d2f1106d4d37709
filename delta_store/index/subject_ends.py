"""The first and last message of each subject: the subject table's hints, corrected when they are read."""

from bisect import bisect_right

import numpy as np

from delta_store.index import chains
from delta_store.index.live_messages import LiveMessages
from delta_store.index.segments import SEGMENT_SHIFT, Ints
from delta_store.index.subject_table import SubjectTable

_FEW = 8
"""Messages of a subject that are faster to follow one by one than to find by a scan of all segments."""


class SubjectEnds:
    """The first and the last live sequence of each subject id, and those between."""

    __slots__ = ("_live", "_table")

    def __init__(self, live: LiveMessages, table: SubjectTable) -> None:
        self._live, self._table = live, table

    def first(self, sid: int) -> int:
        """Return the first live sequence of a subject id, or 0; amortised constant where chains are kept."""
        table, sid_of = self._table, self._live.sid_of
        if not table.count.item(sid):
            return 0
        seq: int = table.first.item(sid)
        if sid_of(seq) == sid:
            return seq
        last: int = table.last.item(sid)
        if table.count.item(sid) == 1 and sid_of(last) == sid:
            found = last
        else:
            found = chains.follow(self._live.segments, seq, sid) or self._scan_up(seq, sid)
        table.first[sid] = found
        return found

    def last(self, sid: int) -> int:
        """Return the last live sequence of a subject id, or 0."""
        table, sid_of = self._table, self._live.sid_of
        if not table.count.item(sid):
            return 0
        seq: int = table.last.item(sid)
        if sid in table.stale_last or sid_of(seq) != sid:
            first: int = table.first.item(sid)
            alone = table.count.item(sid) == 1 and sid_of(first) == sid
            seq = first if alone else self._scan_down(seq, sid)
            table.last[sid] = seq
            table.stale_last.discard(sid)
        return seq

    def next(self, sid: int, from_seq: int) -> int:
        """Return the first live sequence of a subject id from ``from_seq`` on, or 0."""
        table = self._table
        if not table.count.item(sid) or from_seq > table.last.item(sid):
            return 0
        return self.first(sid) if from_seq <= table.first.item(sid) else self._scan_up(from_seq, sid)

    def firsts(self, sid: int, number: int) -> list[int]:
        """Return the first ``number`` live sequences of a subject id (or all, if fewer), ascending."""
        found = []
        seq = self.first(sid)
        while seq:
            found.append(seq)
            if len(found) == number or seq == self._table.last.item(sid):
                break
            seq = chains.follow(self._live.segments, seq, sid) or self._scan_up(seq + 1, sid)
        return found

    def sequences(self, sid: int) -> list[int]:
        """Return all live sequences of a subject id, ascending."""
        number = self._table.count.item(sid)
        if number <= _FEW:
            return self.firsts(sid, number)
        found: list[int] = []
        for segment, start in self._live.segments_from(self.first(sid)):
            found += segment.sequences(np.flatnonzero(segment.sid[start : segment.used] == sid) + start).tolist()
        return found

    def _scan_up(self, seq: int, sid: int) -> int:
        """Return the first live message of a subject from ``seq`` on, or 0."""
        for segment, start in self._live.segments_from(seq):
            slots = np.flatnonzero(segment.sid[start : segment.used] == sid)
            if len(slots):
                return segment.sequence(start + slots.item(0))
        return 0

    def _scan_down(self, seq: int, sid: int) -> int:
        """Return the last live message of a subject up to ``seq``, or 0."""
        keys, segments = self._live.keys, self._live.segments
        for place in range(bisect_right(keys, seq >> SEGMENT_SHIFT) - 1, -1, -1):
            segment = segments[keys[place]]
            slots: Ints = np.flatnonzero(segment.sid[: segment.start(seq + 1)] == sid)
            if len(slots):
                return segment.sequence(slots.item(-1))
        return 0
