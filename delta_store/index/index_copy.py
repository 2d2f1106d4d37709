"""A stream's live messages up to a sequence as the index of another stream: arrays copied, no message looked at.

The copy is made a few segments at a time, while the origin takes messages behind the sequence. It is true as long as
the origin loses none up to there, which :attr:`IndexCopy.holds` tells: sequences don't come back.
"""

from bisect import bisect_right
from typing import Final

import numpy as np

from delta_store.index.segments import SEGMENT_SHIFT, Segment
from delta_store.index.stream_index import StreamIndex

SEGMENTS_A_STEP: Final = 128
"""Segments that one step copies: a million messages, some milliseconds."""


class IndexCopy:
    """The live messages of an index up to a sequence."""

    def __init__(self, origin: StreamIndex, last_seq: int, index: StreamIndex) -> None:
        """Copy into ``index``, which is empty, by :meth:`step` until all are copied, and :meth:`fill` then."""
        self.index = index
        self._origin, self._last_seq, self._renumbered = origin, last_seq, origin.renumbered
        self._chained, keys = origin.live.chained, origin.live.keys
        self._left = keys[: bisect_right(keys, last_seq >> SEGMENT_SHIFT)][::-1]
        self._segments: list[Segment] = []
        self._names: list[str] = []

    def step(self) -> bool:
        """Copy some segments; return False when all are."""
        for _ in range(min(SEGMENTS_A_STEP, len(self._left))):
            segment = self._origin.live.segments.get(self._left.pop())
            if segment is not None and (part := _copied(segment, self._last_seq)) is not None:
                self._segments.append(part)
        self._names = [] if self._left else list(self._origin.table.names)
        return bool(self._left)

    @property
    def holds(self) -> bool:
        """Whether the origin has lost nothing of what was copied."""
        live, last = self._origin.live, self._last_seq
        keys = live.keys[: bisect_right(live.keys, last >> SEGMENT_SHIFT)]
        number = sum(live.segments[key].live for key in keys)
        if keys:
            end = live.segments[keys[-1]]
            number -= len(end.live_slots(end.start(last + 1)))
        return (
            not self._left
            and number == sum(one.live for one in self._segments)
            and self._origin.renumbered == self._renumbered
        )

    def fill(self) -> None:
        """Make the index of what was copied; touches the origin no more."""
        segments, index = self._segments, self.index
        live, table = index.live, index.table
        if not segments:
            return
        names, room = self._names, max(len(self._names), len(table.count))
        table.names, table.ids = names, {name: sid for sid, name in enumerate(names)}
        table.count = np.zeros(room, np.int32)
        table.first, table.last = np.zeros(room, np.int64), np.zeros(room, np.int64)
        for segment in segments:
            slots = segment.live_slots()
            sids = segment.sid[slots]
            np.add.at(table.count, sids, 1)
            table.last[sids] = segment.sequences(slots)
            index.msgs += segment.live
            index.bytes += int(segment.size[slots].sum(dtype=np.int64))
            index.last_ts = max(index.last_ts, int(segment.ts[slots].max()))
        for segment in reversed(segments):
            slots = segment.live_slots()[::-1]
            table.first[segment.sid[slots]] = segment.sequences(slots)
        table.live = int(np.count_nonzero(table.count))
        live.segments = {segment.base >> SEGMENT_SHIFT: segment for segment in segments}
        live.keys = list(live.segments)
        self._chain()
        index.first_seq, index.last_seq = live.next(0), live.last()

    def _chain(self) -> None:
        """Keep chains where the index has them; none leads behind the last sequence."""
        wanted, self.index.live.chained = self.index.live.chained, self._chained
        for segment in self._segments:
            if not wanted:
                segment.chain = None
            elif segment.chain is not None:
                ends = segment.sequences(np.arange(segment.used)) + segment.chain[: segment.used]
                segment.chain[: segment.used][ends > self._last_seq] = 0
        if wanted:
            self.index.chain_up()
        self.index.live.chained = wanted


def _copied(segment: Segment, last_seq: int) -> Segment | None:
    """Return what a segment has up to a sequence; None for nothing. The last one takes messages behind it."""
    stop = segment.start(last_seq + 1)
    slots = segment.live_slots(0, stop)
    if not len(slots):
        return None
    new = Segment(segment.base, chained=segment.chain is not None)
    if segment.base >> SEGMENT_SHIFT == last_seq >> SEGMENT_SHIFT:
        seqs = segment.sequences(slots)
        sizes, sids = segment.size[slots].astype(np.int64), segment.sid[slots].astype(np.int64)
        new.write_run(seqs, ts_ns=segment.ts[slots], sizes=sizes, sids=sids)
        if new.chain is not None and segment.chain is not None:
            new.chain[seqs - new.base] = segment.chain[slots]
        return new
    new.offsets = None if segment.offsets is None else segment.offsets[:stop].copy()
    new.ts, new.size, new.sid = segment.ts[:stop].copy(), segment.size[:stop].copy(), segment.sid[:stop].copy()
    new.chain = None if segment.chain is None else segment.chain[:stop].copy()
    new.used, new.live = stop, len(slots)
    return new
