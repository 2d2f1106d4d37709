"""Where the messages of each subject begin and end: the hints of the subject table, made exact by looking."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import numpy as np

from delta_store.index import chains
from delta_store.index.live_messages import LiveMessages
from delta_store.index.segments import SEGMENT_SHIFT, Ints, Segment

_FEW = 8
"""Messages of a subject that are found one after the other sooner than by looking through all segments."""


class SubjectEnds(LiveMessages):
    """Live messages with their subjects' first and last sequences, and the stream's own."""

    __slots__ = ()

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
            found = chains.follow(self.segments, seq, sid) or self._scan_up(max(seq, self.first_seq), sid)
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
            seq = chains.follow(self.segments, seq, sid) or self._scan_up(seq + 1, sid)
        return found

    def sequences_of_id(self, sid: int) -> list[int]:
        """All live sequences of a subject id, ascending."""
        number = self.table.count.item(sid)
        if number <= _FEW:
            return self.first_sequences_of_id(sid, number)
        found: list[int] = []
        for segment, start in self.segments_from(self.first_of_id(sid)):
            found += segment.sequences(np.flatnonzero(segment.sid[start : segment.used] == sid) + start).tolist()
        return found

    def next_of_id(self, sid: int, from_seq: int) -> int:
        """The first live sequence of a subject id from ``from_seq`` on, or 0."""
        table = self.table
        if not table.count.item(sid) or from_seq > table.last.item(sid):
            return 0
        return self.first_of_id(sid) if from_seq <= table.first.item(sid) else self._scan_up(from_seq, sid)

    def head(self, messages: int, size: int) -> tuple[Ints, Ints]:
        """The first live sequences and their sizes: at least so many messages and bytes, if there are."""
        seqs, sizes, count, total = [], [], 0, 0
        for key in self.keys:
            segment = self.segments[key]
            slots = segment.live_slots()
            seqs.append(segment.sequences(slots))
            sizes.append(segment.size[slots].astype(np.int64))
            count += len(slots)
            total += int(sizes[-1].sum())
            if count >= messages and total >= size:
                break
        return (np.concatenate(seqs), np.concatenate(sizes)) if seqs else (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def last_live(self) -> int:
        """The last live sequence, or 0."""
        if not self.keys:
            return 0
        segment = self.segments[self.keys[-1]]
        return segment.sequence(segment.live_slots().item(-1))

    def segments_from(self, seq: int) -> Iterator[tuple[Segment, int]]:
        """The segments that may hold ``seq`` or later ones, each with the slot to start at."""
        for place in range(bisect_left(self.keys, seq >> SEGMENT_SHIFT), len(self.keys)):
            segment = self.segments[self.keys[place]]
            yield segment, segment.start(seq)

    def _scan_up(self, seq: int, sid: int) -> int:
        """The first live message of a subject from ``seq`` on, or 0."""
        for segment, start in self.segments_from(seq):
            slots = np.flatnonzero(segment.sid[start : segment.used] == sid)
            if len(slots):
                return segment.sequence(start + slots.item(0))
        return 0

    def _scan_down(self, seq: int, sid: int) -> int:
        """The last live message of a subject up to ``seq``, or 0."""
        for place in range(bisect_right(self.keys, seq >> SEGMENT_SHIFT) - 1, -1, -1):
            segment = self.segments[self.keys[place]]
            slots: Ints = np.flatnonzero(segment.sid[: segment.start(seq + 1)] == sid)
            if len(slots):
                return segment.sequence(slots.item(-1))
        return 0
