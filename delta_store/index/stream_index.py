"""The index of one stream's live messages: adding, removing, and the state that stream info reports.

Invariants: ``first_seq`` is the first live sequence, ``last_seq + 1`` when none is live, 0 when there never was one;
sequences only grow.
"""

import numpy as np

from delta_store.index import chains
from delta_store.index.live_messages import LiveMessages
from delta_store.index.segments import SEGMENT_SHIFT, Ints, by_segment
from delta_store.index.subject_ends import SubjectEnds
from delta_store.index.subject_table import SubjectTable
from delta_store.values.records import MESSAGE_OVERHEAD

_DEAD_SUBJECTS_MIN = 4096


class StreamIndex:
    """The live messages by sequence and by subject, with their totals."""

    __slots__ = ("bytes", "ends", "first_seq", "last_seq", "last_ts", "live", "msgs", "renumbered", "table")

    def __init__(self, *, chained: bool = False) -> None:
        self.live = LiveMessages(chained=chained)
        self.table = SubjectTable()
        self.ends = SubjectEnds(self.live, self.table)
        self.msgs = 0
        self.bytes = 0
        self.first_seq = 0
        self.last_seq = 0
        self.last_ts = 0
        """Time of the last message ever stored, ns; 0 when there never was one."""
        self.renumbered = 0
        """How often subject ids were renumbered; older ids are void."""

    @property
    def first_ts(self) -> int:
        """Time of the first live message, ns; 0 when there is none."""
        return self.live.ts_of(self.first_seq) if self.msgs else 0

    @property
    def num_deleted(self) -> int:
        """Number of sequences between the first and the last that are not live."""
        return self.last_seq - self.first_seq + 1 - self.msgs if self.last_seq else 0

    @property
    def num_subjects(self) -> int:
        """Number of subjects with live messages."""
        return self.table.live

    def subject_of(self, seq: int) -> str | None:
        """Return the subject of a live message; None when it is not live."""
        sid = self.live.sid_of(seq)
        return self.table.names[sid] if sid >= 0 else None

    def content_size(self, seq: int) -> int:
        """Return the bytes of headers and payload of a live message."""
        return max(0, self.live.size_of(seq) - MESSAGE_OVERHEAD - len((self.subject_of(seq) or "").encode()))

    def seq_at_time(self, ts_ns: int) -> int:
        """Return the first live sequence that is not older than ``ts_ns``; ``last_seq + 1`` when all are older."""
        return self.live.at_time(ts_ns) or self.last_seq + 1

    def deleted(self, limit: int | None = None) -> list[int]:
        """Return sequences between the first and the last that are not live, ascending, at most ``limit``."""
        wanted = self.num_deleted if limit is None else min(limit, self.num_deleted)
        found: list[int] = []
        seq = self.first_seq
        while len(found) < wanted:
            stop = min(((seq >> SEGMENT_SHIFT) + 1) << SEGMENT_SHIFT, self.last_seq + 1)
            hole = np.ones(stop - seq, np.bool_)
            hole[self.live.sequences(seq, stop - 1) - seq] = False
            found += (np.flatnonzero(hole)[: wanted - len(found)] + seq).tolist()
            seq = stop
        return found

    def append(self, seq: int, sid: int, *, ts_ns: int, size: int) -> None:
        """Add a message behind all others."""
        live = self.live
        live.tail(seq >> SEGMENT_SHIFT).write(seq, ts_ns=ts_ns, size=size, sid=sid)
        before = self.table.add(sid, seq)
        if before and live.chained:
            chains.link(live.segments, before, seq)
        if not self.msgs:
            self.first_seq = seq
        self.msgs += 1
        self.bytes += size
        self.last_seq = seq
        self.last_ts = ts_ns

    def append_run(self, seqs: Ints, *, sids: Ints, ts_ns: Ints, sizes: Ints) -> None:
        """Add messages with ascending sequences behind all others (equal lengths, at least one)."""
        live = self.live
        if live.chained:
            chains.link_run(live.segments, self.table, seqs=seqs, sids=sids)
        self.table.add_run(sids, seqs)
        for key, part in by_segment(seqs):
            live.tail(key).write_run(seqs[part], ts_ns=ts_ns[part], sizes=sizes[part], sids=sids[part])
        if live.chained:
            chains.link_within(live.segments, seqs=seqs, sids=sids)
        if not self.msgs:
            self.first_seq = int(seqs[0])
        self.msgs += len(seqs)
        self.bytes += int(sizes.sum())
        self.last_seq = int(seqs[-1])
        self.last_ts = int(ts_ns[-1])

    def remove(self, seq: int) -> bool:
        """Remove one message; return False when it is not live."""
        found = self.live.find(seq)
        if found is None:
            return False
        segment, slot = found
        distance = segment.chain.item(slot) if segment.chain is not None else 0
        self.table.drop(segment.sid.item(slot), seq, distance=distance)
        segment.sid[slot] = -1
        segment.live -= 1
        self.msgs -= 1
        self.bytes -= segment.size.item(slot)
        self.live.tidy(seq >> SEGMENT_SHIFT, last_seq=self.last_seq)
        if seq == self.first_seq:
            self.first_seq = self.live.next(seq + 1) or self.last_seq + 1
        return True

    def remove_many(self, seqs: Ints) -> None:
        """Remove messages that are all live, by ascending sequences."""
        for key, part in by_segment(seqs):
            self._remove_within(key, seqs[part], prefix=False)
        if len(seqs) and int(seqs[0]) == self.first_seq:
            self.first_seq = self.live.next(self.first_seq + 1) or self.last_seq + 1

    def advance_first(self, seq: int) -> int:
        """Remove every message below ``seq``; return how many there were."""
        live, before = self.live, self.msgs
        while live.keys and self.first_seq < seq:
            key = live.keys[0]
            segment = live.segments[key]
            slots = segment.live_slots(0, segment.start(seq))
            if len(slots):
                self._remove_within(key, segment.sequences(slots), prefix=True)
            if key in live.segments:
                break
        if before != self.msgs:
            self.first_seq = live.next(seq) or self.last_seq + 1
        return before - self.msgs

    def restore_bounds(self, *, first_seq: int, last_seq: int, last_ts: int) -> None:
        """Restore bounds that no live message implies: those of a stream whose last messages were removed."""
        if last_seq >= self.last_seq:
            self.last_seq = last_seq
            self.last_ts = max(self.last_ts, last_ts)
        if not self.msgs:
            self.first_seq = max(self.first_seq, first_seq, self.last_seq + 1 if self.last_seq else 0)

    def chain_up(self) -> None:
        """Start to keep chains, for a stream that gets a per-subject limit above 1."""
        if not self.live.chained:
            self.live.chained = True
            chains.build(self.live.segments, self.live.keys)

    def renumber_subjects(self) -> bool:
        """Renumber subject ids if most subjects have no live message; return True if older ids are void."""
        dead = self.table.dead
        if dead <= _DEAD_SUBJECTS_MIN or dead <= self.table.live:
            return False
        moved = self.table.renumber()
        for segment in self.live.segments.values():
            segment.sid = moved[segment.sid]
        self.renumbered += 1
        return True

    def _remove_within(self, key: int, seqs: Ints, *, prefix: bool) -> None:
        """Remove live messages of one segment; with ``prefix`` none in front of them is left."""
        segment = self.live.segments[key]
        slots = segment.slots(seqs)
        sids = segment.sid[slots].astype(np.int64)
        distances = segment.chain[slots] if prefix and segment.chain is not None else None
        self.table.drop_run(sids, seqs, distances=distances)
        segment.sid[slots] = -1
        segment.live -= len(slots)
        self.msgs -= len(slots)
        self.bytes -= int(segment.size[slots].sum(dtype=np.int64))
        self.live.tidy(key, last_seq=self.last_seq)
