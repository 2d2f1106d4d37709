"""The live messages of one stream by sequence: adding, removing, and the state that nats-server reports.

Invariants: ``first_seq`` is the first live sequence, ``last_seq + 1`` when none is live, 0 when there never was one;
sequences only grow; a segment without live messages is freed.
"""

from bisect import bisect_left

import numpy as np

from delta_store.index import chains
from delta_store.index.segments import SEGMENT_SHIFT, SEGMENT_SLOTS, Ints, Segment
from delta_store.index.subject_table import SubjectTable

_DEAD_SUBJECTS_MIN = 4096


class LiveMessages:
    """Time, size and subject of each live message, and the totals over them."""

    __slots__ = (
        "bytes", "chained", "first_seq", "keys", "last_seq", "last_ts", "msgs", "renumbered", "segments", "table",
    )  # fmt: skip

    def __init__(self, *, chained: bool = False) -> None:
        self.segments: dict[int, Segment] = {}
        self.keys: list[int] = []
        """Keys of ``segments``, ascending; the key is ``seq >> SEGMENT_SHIFT``."""
        self.table = SubjectTable()
        self.chained = chained
        """Whether each message knows its subject's next one: what a per-subject limit above 1 needs."""
        self.msgs = 0
        self.bytes = 0
        self.first_seq = 0
        self.last_seq = 0
        self.last_ts = 0
        """Time of the last message ever stored, ns; 0 when there never was one."""
        self.renumbered = 0
        """How often subject ids were given anew: ids from before are void."""

    @property
    def first_ts(self) -> int:
        """Time of the first live message, ns; 0 when there is none."""
        return self.ts_of(self.first_seq) if self.msgs else 0

    @property
    def num_deleted(self) -> int:
        """Sequences between the first and the last that are not live."""
        return self.last_seq - self.first_seq + 1 - self.msgs if self.last_seq else 0

    @property
    def num_subjects(self) -> int:
        """Subjects that have live messages."""
        return self.table.live

    def append_id(self, seq: int, sid: int, *, ts_ns: int, size: int) -> None:
        """Add a message whose subject id is known."""
        segment = self._tail(seq >> SEGMENT_SHIFT)
        segment.write(seq, ts_ns=ts_ns, size=size, sid=sid)
        before = self.table.add(sid, seq)
        if before and self.chained:
            chains.link(self.segments, before, seq)
        if not self.msgs:
            self.first_seq = seq
        self.msgs += 1
        self.bytes += size
        self.last_seq = seq
        self.last_ts = ts_ns

    def append_run(self, seqs: Ints, *, sids: Ints, ts_ns: Ints, sizes: Ints) -> None:
        """Add messages with ascending sequences behind all others (equal lengths, at least one)."""
        if self.chained:
            chains.link_run(self.segments, self.table, seqs=seqs, sids=sids)
        self.table.add_run(sids, seqs)
        start = 0
        while start < len(seqs):
            key = int(seqs[start]) >> SEGMENT_SHIFT
            stop = int(np.searchsorted(seqs, (key + 1) << SEGMENT_SHIFT))
            part = slice(start, stop)
            self._tail(key).write_run(seqs[part], ts_ns=ts_ns[part], sizes=sizes[part], sids=sids[part])
            start = stop
        if self.chained:
            chains.link_within(self.segments, seqs=seqs, sids=sids)
        if not self.msgs:
            self.first_seq = int(seqs[0])
        self.msgs += len(seqs)
        self.bytes += int(sizes.sum())
        self.last_seq = int(seqs[-1])
        self.last_ts = int(ts_ns[-1])

    def remove(self, seq: int) -> bool:
        """Remove one message; False when it is not live."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        slot = segment.slot(seq) if segment is not None else -1
        sid = segment.sid.item(slot) if segment is not None and slot >= 0 else -1
        if segment is None or sid < 0:
            return False
        segment.sid[slot] = -1
        segment.live -= 1
        self.msgs -= 1
        self.bytes -= segment.size.item(slot)
        self.table.drop(sid, seq, distance=segment.chain.item(slot) if segment.chain is not None else 0)
        self._tidy(seq >> SEGMENT_SHIFT, segment)
        if seq == self.first_seq:
            self.first_seq = self.next_live(seq + 1) or self.last_seq + 1
        return True

    def remove_many(self, seqs: Ints) -> None:
        """Remove messages that are all live, given by ascending sequences."""
        start = 0
        while start < len(seqs):
            key = int(seqs[start]) >> SEGMENT_SHIFT
            stop = int(np.searchsorted(seqs, (key + 1) << SEGMENT_SHIFT))
            self._kill(key, seqs[start:stop], prefix=False)
            start = stop
        if len(seqs) and int(seqs[0]) == self.first_seq:
            self.first_seq = self.next_live(self.first_seq + 1) or self.last_seq + 1

    def advance_first(self, seq: int) -> int:
        """Remove every message below ``seq``; returns how many there were."""
        before = self.msgs
        while self.keys and self.msgs and self.first_seq < seq:
            key = self.keys[0]
            segment = self.segments[key]
            slots = segment.live_slots(0, segment.start(seq))
            if len(slots):
                self._kill(key, segment.sequences(slots), prefix=True)
            if key in self.segments:
                break
        if before != self.msgs:
            self.first_seq = self.next_live(seq) or self.last_seq + 1
        return before - self.msgs

    def restore_bounds(self, *, first_seq: int, last_seq: int, last_ts: int) -> None:
        """Take over bounds that no live message shows: those of a stream whose last messages are gone."""
        if last_seq >= self.last_seq:
            self.last_seq = last_seq
            self.last_ts = max(self.last_ts, last_ts)
        if not self.msgs:
            self.first_seq = max(self.first_seq, first_seq, self.last_seq + 1 if self.last_seq else 0)

    def sid_of(self, seq: int) -> int:
        """The subject id of a live message, or -1."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        if segment is None:
            return -1
        slot = segment.slot(seq)
        return segment.sid.item(slot) if slot >= 0 else -1

    def ts_of(self, seq: int) -> int:
        """The time of a live message, ns; 0 when it is not live."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        slot = segment.slot(seq) if segment is not None else -1
        return segment.ts.item(slot) if segment is not None and slot >= 0 and segment.sid.item(slot) >= 0 else 0

    def size_of(self, seq: int) -> int:
        """The stored size of a live message; 0 when it is not live."""
        segment = self.segments.get(seq >> SEGMENT_SHIFT)
        slot = segment.slot(seq) if segment is not None else -1
        return segment.size.item(slot) if segment is not None and slot >= 0 and segment.sid.item(slot) >= 0 else 0

    def next_live(self, seq: int) -> int:
        """The first live sequence from ``seq`` on, or 0."""
        place = bisect_left(self.keys, seq >> SEGMENT_SHIFT)
        for key in self.keys[place:] if place else self.keys:
            segment = self.segments[key]
            slot = segment.first_live(segment.start(seq))
            if slot >= 0:
                return segment.sequence(slot)
        return 0

    def chain_up(self) -> None:
        """Start keeping chains, for a stream that gets a per-subject limit above 1."""
        if self.chained:
            return
        self.chained = True
        chains.build(self.segments, self.keys)

    def renumber_subjects(self) -> bool:
        """Give subject ids anew when most belong to subjects that are gone; True when ids from before are void."""
        if self.table.dead <= max(_DEAD_SUBJECTS_MIN, self.table.live):
            return False
        moved = self.table.renumber()
        for segment in self.segments.values():
            segment.sid = moved[segment.sid]
        self.renumbered += 1
        return True

    def _tail(self, key: int) -> Segment:
        """The segment that takes the next messages; the one before is sealed."""
        segment = self.segments.get(key)
        if segment is None:
            if self.keys and self.segments[self.keys[-1]].worth_packing:
                self.segments[self.keys[-1]].pack()
            segment = self.segments[key] = Segment(key << SEGMENT_SHIFT, chained=self.chained)
            self.keys.append(key)
        return segment

    def _kill(self, key: int, seqs: Ints, *, prefix: bool) -> None:
        """Remove live messages of one segment."""
        segment = self.segments[key]
        slots = segment.slots(seqs)
        sids = segment.sid[slots].astype(np.int64)
        distances = segment.chain[slots] if prefix and segment.chain is not None else None
        self.table.drop_run(sids, seqs, distances=distances)
        segment.sid[slots] = -1
        segment.live -= len(slots)
        self.msgs -= len(slots)
        self.bytes -= int(segment.size[slots].sum(dtype=np.int64))
        self._tidy(key, segment)

    def _tidy(self, key: int, segment: Segment) -> None:
        """Free a segment that is empty, pack a sealed one that is mostly empty."""
        if not segment.live:
            del self.segments[key]
            del self.keys[bisect_left(self.keys, key)]
        elif segment.base + SEGMENT_SLOTS <= self.last_seq and segment.worth_packing:
            segment.pack()
