"""A range of a stream's sequences as numpy columns: the memory of the stream index.

A segment covers :data:`SEGMENT_SLOTS` sequences. While it is filled its slot is the sequence's offset; once it is
sealed and many of its messages are removed it is packed, so that memory follows the live messages and not the
sequences. Columns: ``ts`` (int64 ns), ``size`` (int32 bytes), ``sid`` (int32 subject id, -1 when not live) and, for
streams that need it, ``chain`` (uint32 distance to the subject's next message, 0 when there was none).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEGMENT_SHIFT = 13
SEGMENT_SLOTS = 1 << SEGMENT_SHIFT
_SLOTS_MIN = 64
CHAIN_MAX = (1 << 32) - 1
"""Longest distance that a chain can hold; longer ones count as unknown (0)."""

Ints = NDArray[np.int64]


def by_segment(seqs: Ints) -> Iterator[tuple[int, slice]]:
    """Iterate over ascending sequences by segment: its key (``seq >> SEGMENT_SHIFT``) and their slice."""
    start = 0
    while start < len(seqs):
        key = int(seqs[start]) >> SEGMENT_SHIFT
        stop = int(np.searchsorted(seqs, (key + 1) << SEGMENT_SHIFT))
        yield key, slice(start, stop)
        start = stop


class Segment:
    """The live messages of the sequences ``base`` to ``base + SEGMENT_SLOTS - 1``."""

    __slots__ = ("base", "chain", "live", "offsets", "sid", "size", "ts", "used")

    def __init__(self, base: int, *, chained: bool) -> None:
        self.base = base
        self.ts = np.zeros(_SLOTS_MIN, np.int64)
        self.size = np.zeros(_SLOTS_MIN, np.int32)
        self.sid = np.full(_SLOTS_MIN, -1, np.int32)
        self.chain: NDArray[np.uint32] | None = np.zeros(_SLOTS_MIN, np.uint32) if chained else None
        self.offsets: NDArray[np.uint16] | None = None
        """Offsets of the slots, ascending, once packed; None while slot and offset are equal."""
        self.used = 0
        self.live = 0

    def write(self, seq: int, *, ts_ns: int, size: int, sid: int) -> None:
        """Add one message; sequences only grow, and a packed segment takes no more."""
        slot = seq - self.base
        if slot >= len(self.sid):
            self._grow(slot + 1)
        self.ts[slot] = ts_ns
        self.size[slot] = size
        self.sid[slot] = sid
        self.used = slot + 1
        self.live += 1

    def write_run(self, seqs: Ints, *, ts_ns: Ints, sizes: Ints, sids: Ints) -> None:
        """Add messages with ascending sequences of this segment."""
        first, last = int(seqs[0]) - self.base, int(seqs[-1]) - self.base
        if last >= len(self.sid):
            self._grow(last + 1)
        where: Any = slice(first, last + 1) if last - first + 1 == len(seqs) else seqs - self.base
        self.ts[where] = ts_ns
        self.size[where] = sizes
        self.sid[where] = sids
        self.used = last + 1
        self.live += len(seqs)

    def slot(self, seq: int) -> int:
        """Return the slot of a sequence, live or not; -1 without one."""
        offset = seq - self.base
        if self.offsets is None:
            return offset if offset < self.used else -1
        place = int(np.searchsorted(self.offsets, offset))
        return place if place < self.used and self.offsets.item(place) == offset else -1

    def slots(self, seqs: Ints) -> Ints:
        """Return the slots of sequences that are all live."""
        if self.offsets is None:
            return seqs - self.base
        return np.searchsorted(self.offsets, (seqs - self.base).astype(np.uint16)).astype(np.int64)

    def start(self, seq: int) -> int:
        """Return the first slot whose sequence is not below ``seq``; ``used`` when there is none."""
        offset = seq - self.base
        if offset <= 0:
            return 0
        if offset >= SEGMENT_SLOTS:
            return self.used
        if self.offsets is None:
            return min(offset, self.used)
        return int(np.searchsorted(self.offsets, offset))

    def sequence(self, slot: int) -> int:
        """Return the sequence of a slot."""
        return self.base + (slot if self.offsets is None else self.offsets.item(slot))

    def sequences(self, slots: Ints) -> Ints:
        """Return the sequences of slots."""
        return self.base + (slots if self.offsets is None else self.offsets[slots].astype(np.int64))

    def live_slots(self, start: int = 0, stop: int | None = None) -> Ints:
        """Return the slots of live messages between two slots, ascending."""
        found: Ints = np.flatnonzero(self.sid[start : self.used if stop is None else stop] >= 0)
        return found + start if start else found

    def first_live(self, start: int) -> int:
        """Return the first live slot from ``start`` on, or -1."""
        if start < self.used and self.sid.item(start) >= 0:
            return start
        alive = self.sid[start : self.used] >= 0
        found = int(alive.argmax()) if len(alive) else 0
        return start + found if len(alive) and alive[found] else -1

    def link(self, slot: int, distance: int) -> None:
        """Set the distance from the message in ``slot`` to its subject's next message."""
        if self.chain is not None:
            self.chain[slot] = distance if distance <= CHAIN_MAX else 0

    def start_chain(self) -> None:
        """Allocate the chain; all distances are unknown."""
        self.chain = np.zeros(len(self.sid), np.uint32)

    @property
    def worth_packing(self) -> bool:
        """Whether packing would free a quarter or more of the memory."""
        return self.used > _SLOTS_MIN and 4 * self.live < 3 * len(self.sid)

    def pack(self) -> None:
        """Drop the slots of removed messages; the segment takes no more messages afterwards."""
        slots = self.live_slots()
        self.offsets = (slots if self.offsets is None else self.offsets[slots]).astype(np.uint16)
        self.ts, self.size, self.sid = self.ts[slots], self.size[slots], self.sid[slots]
        if self.chain is not None:
            self.chain = self.chain[slots]
        self.used = len(slots)

    def _grow(self, slots: int) -> None:
        capacity = min(SEGMENT_SLOTS, max(2 * len(self.sid), slots))
        extra = capacity - len(self.sid)
        self.ts = np.concatenate((self.ts, np.zeros(extra, np.int64)))
        self.size = np.concatenate((self.size, np.zeros(extra, np.int32)))
        self.sid = np.concatenate((self.sid, np.full(extra, -1, np.int32)))
        if self.chain is not None:
            self.chain = np.concatenate((self.chain, np.zeros(extra, np.uint32)))
