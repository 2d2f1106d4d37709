"""The live messages of one stream by sequence: time, size and subject id of each.

Invariant: a segment without live messages is freed.
"""

from bisect import bisect_left
from collections.abc import Iterator

import numpy as np

from delta_store.index.segments import SEGMENT_SHIFT, SEGMENT_SLOTS, Ints, Segment


class LiveMessages:
    """Segments in the order of their sequences; :class:`StreamIndex` keeps the totals."""

    __slots__ = ("chained", "keys", "segments")

    def __init__(self, *, chained: bool = False) -> None:
        self.segments: dict[int, Segment] = {}
        self.keys: list[int] = []
        """Keys of ``segments``, ascending; the key is ``seq >> SEGMENT_SHIFT``."""
        self.chained = chained
        """Whether chains are kept, which a per-subject limit above 1 needs."""

    def tail(self, key: int) -> Segment:
        """Return the segment for the next messages; the one before is sealed."""
        segment = self.segments.get(key)
        if segment is None:
            if self.keys and self.segments[self.keys[-1]].worth_packing:
                self.segments[self.keys[-1]].pack()
            segment = self.segments[key] = Segment(key << SEGMENT_SHIFT, chained=self.chained)
            self.keys.append(key)
        return segment

    def tidy(self, key: int, *, last_seq: int) -> None:
        """Free a segment that is empty; pack a sealed one (``last_seq`` is behind it) that is mostly empty."""
        segment = self.segments[key]
        if not segment.live:
            del self.segments[key]
            del self.keys[bisect_left(self.keys, key)]
        elif segment.base + SEGMENT_SLOTS <= last_seq and segment.worth_packing:
            segment.pack()

    def find(self, seq: int) -> tuple[Segment, int] | None:
        """Return the segment and the slot of a live message; None when it is not live."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        slot = segment.slot(seq) if segment is not None else -1
        return (segment, slot) if segment is not None and slot >= 0 and segment.sid.item(slot) >= 0 else None

    def sid_of(self, seq: int) -> int:
        """Return the subject id of a live message, or -1."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        if segment is None:
            return -1
        slot = segment.slot(seq)
        return segment.sid.item(slot) if slot >= 0 else -1

    def ts_of(self, seq: int) -> int:
        """Return the time of a live message, ns; 0 when it is not live."""
        found = self.find(seq)
        return found[0].ts.item(found[1]) if found is not None else 0

    def size_of(self, seq: int) -> int:
        """Return the stored size of a live message, bytes; 0 when it is not live."""
        found = self.find(seq)
        return found[0].size.item(found[1]) if found is not None else 0

    def segments_from(self, seq: int) -> Iterator[tuple[Segment, int]]:
        """Iterate over the segments that may hold ``seq`` or later ones, each with the slot to start at."""
        for place in range(bisect_left(self.keys, seq >> SEGMENT_SHIFT), len(self.keys)):
            segment = self.segments[self.keys[place]]
            yield segment, segment.start(seq)

    def next(self, seq: int) -> int:
        """Return the first live sequence from ``seq`` on, or 0."""
        for segment, start in self.segments_from(seq):
            slot = segment.first_live(start)
            if slot >= 0:
                return segment.sequence(slot)
        return 0

    def last(self) -> int:
        """Return the last live sequence, or 0."""
        if not self.keys:
            return 0
        segment = self.segments[self.keys[-1]]
        return segment.sequence(segment.live_slots().item(-1))

    def head(self, messages: int, size: int) -> tuple[Ints, Ints]:
        """Return the first live sequences and their sizes: at least so many messages and bytes, if there are."""
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

    def sequences(self, from_seq: int, to_seq: int) -> Ints:
        """Return the live sequences from ``from_seq`` to ``to_seq`` inclusive, ascending."""
        parts = [
            segment.sequences(segment.live_slots(start, segment.start(to_seq + 1)))
            for segment, start in self.segments_from(from_seq)
            if segment.base <= to_seq
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def at_time(self, ts_ns: int) -> int:
        """Return the first live sequence that is not older than ``ts_ns``, or 0."""
        place = bisect_left(self.keys, ts_ns, key=lambda key: _newest_ts(self.segments[key]))
        if place == len(self.keys):
            return 0
        segment = self.segments[self.keys[place]]
        slots = segment.live_slots()
        return segment.sequence(slots.item(int(np.searchsorted(segment.ts[slots], ts_ns))))


def _newest_ts(segment: Segment) -> int:
    return segment.ts.item(segment.live_slots().item(-1))
