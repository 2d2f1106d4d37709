"""The subjects of one stream by id: number of live messages, first and last sequence.

Subjects get small ids so that millions of messages can refer to theirs in four bytes and a filter becomes one array of
booleans over ids. ``first`` and ``last`` are hints that only err outwards: ``first`` is never above the subject's first
live message, ``last`` never below its last; :class:`SubjectEnds` corrects them.
"""

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delta_store.index.segments import Ints
from delta_store.values.lru import Lru
from delta_store.values.subjects import SubjectFilter

_IDS_MIN = 16
_MASK_BYTES_MAX = 64 * 1024 * 1024
_MASKS_MIN = 8
_SCANS_A_SORT = 4
"""Scans of all names that take as long as sorting them."""
_FEW = 4
"""A filter that may match more than one in so many names is faster by a scan of all."""
_BEHIND_DOT = chr(ord(".") + 1)

Mask = NDArray[np.bool_]


class SubjectTable:
    """Subject ids with their counts; an id is valid until :meth:`renumber`."""

    __slots__ = ("_masks", "_ordered", "_scanned", "count", "first", "ids", "last", "live", "names", "stale_last")

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.names: list[str] = []
        self.count = np.zeros(_IDS_MIN, np.int32)
        self.first = np.zeros(_IDS_MIN, np.int64)
        self.last = np.zeros(_IDS_MIN, np.int64)
        self.live = 0
        """Number of subjects with live messages."""
        self.stale_last: set[int] = set()
        """Ids with live messages whose ``last`` is no longer live."""
        self._ordered: list[str] = []
        """The names of the first ids, sorted, to look up the prefixes of filters."""
        self._scanned = 0
        """Names that filters have scanned since the last sort."""
        self._masks: Lru[SubjectFilter, tuple[Mask, int]] = Lru(
            _MASK_BYTES_MAX, lambda kept: len(kept[0]), least=_MASKS_MIN
        )

    def intern(self, subject: str) -> int:
        """Return the id of a subject, a new one if it has none."""
        sid = self.ids.get(subject)
        if sid is None:
            sid = self.ids[subject] = len(self.names)
            self.names.append(subject)
            if sid >= len(self.count):
                self._grow()
        return sid

    def add(self, sid: int, seq: int) -> int:
        """Count one more message; return the subject's last sequence before (0: it had no live message)."""
        count = self.count.item(sid)
        before: int = self.last.item(sid) if count else 0
        if not count:
            self.first[sid] = seq
            self.live += 1
        self.count[sid] = count + 1
        self.last[sid] = seq
        if self.stale_last:
            self.stale_last.discard(sid)
        return before

    def add_run(self, sids: Ints, seqs: Ints) -> None:
        """Count messages with ascending sequences."""
        different, places, counts = np.unique(sids, return_index=True, return_counts=True)
        fresh = self.count[different] == 0
        self.first[different[fresh]] = seqs[places[fresh]]
        self.live += int(fresh.sum())
        self.count[different] += counts.astype(np.int32)
        self.last[sids] = seqs
        if self.stale_last:
            self.stale_last.difference_update(different.tolist())

    def drop(self, sid: int, seq: int, *, distance: int = 0) -> None:
        """Count one message less; ``distance`` is that to the subject's next message, if known."""
        count = self.count.item(sid) - 1
        self.count[sid] = count
        if not count:
            self.live -= 1
            self.stale_last.discard(sid)
            return
        if seq == self.last.item(sid):
            self.stale_last.add(sid)
        if distance and seq == self.first.item(sid):
            self.first[sid] = seq + distance

    def drop_run(self, sids: Ints, seqs: Ints, *, distances: NDArray[np.uint32] | None) -> None:
        """Count removed messages with ascending sequences.

        ``distances`` (as for :meth:`drop`) may only be given when nothing in front of the removed messages is left.
        """
        different, counts = np.unique(sids, return_counts=True)
        self.count[different] -= counts.astype(np.int32)
        gone = self.count[different] == 0
        self.live -= int(gone.sum())
        if self.stale_last:
            self.stale_last.difference_update(different[gone].tolist())
        stale = sids[(self.last[sids] == seqs) & (self.count[sids] > 0)]
        self.stale_last.update(stale.tolist())
        if distances is not None:
            known = distances > 0
            self.first[sids[known]] = seqs[known] + distances[known]

    def mask(self, subjects: SubjectFilter) -> Mask:
        """Return one boolean an id, whether the filter matches it; always False at -1. Valid until a subject is new."""
        mask, known = self._masks.get(subjects) or (np.zeros(0, np.bool_), 0)
        if len(mask) != len(self.count) + 1:
            mask = np.concatenate((mask[:known], np.zeros(len(self.count) + 1 - known, np.bool_)))
        if known < len(self.names):
            mask[known : len(self.names)] = self._select(subjects, known)
            self._masks.put(subjects, (mask, len(self.names)))
        return mask

    def _select(self, subjects: SubjectFilter, known: int) -> list[bool] | Mask:
        mask: Mask = np.zeros(len(self.names) - known, np.bool_)
        if not subjects.is_literal:
            near = None if known else self._near(subjects)
            if near is None:
                self._scanned += len(mask)
                return subjects.select(self.names[known:])
            mask[[self.ids[name] for name in near if subjects.matches(name)]] = True
            return mask
        wanted = (self.ids.get(subject, -1) for subject in subjects.literals)
        mask[[sid - known for sid in wanted if sid >= known]] = True
        return mask

    def _near(self, subjects: SubjectFilter) -> list[str] | None:
        """Return few names that include all matches; None where a scan of all names is faster.

        Names are sorted once scans have cost as much as sorting.
        """
        starts = subjects.starts
        if starts is None:
            return None
        names = self.names
        if len(self._ordered) < len(names) and self._scanned >= _SCANS_A_SORT * len(names):
            self._ordered = sorted(self._ordered + names[len(self._ordered) :])
            self._scanned = 0
        ordered, behind = self._ordered, names[len(self._ordered) :]
        if len(behind) > len(ordered):
            return None
        self._scanned += len(behind)
        near = [name for name in subjects.literals if name in self.ids]
        for start in set(starts):
            first = bisect_left(ordered, start)
            stop = bisect_left(ordered, start[:-1] + _BEHIND_DOT, lo=first)
            if len(near) + stop - first > len(names) // _FEW:
                return None
            near += ordered[first:stop]
        return near + behind

    def has_mask(self, subjects: SubjectFilter) -> bool:
        """Whether :meth:`mask` would be cheap."""
        return subjects.is_literal or subjects in self._masks

    @property
    def dead(self) -> int:
        """Number of ids that no live message uses."""
        return len(self.names) - self.live

    def renumber(self) -> NDArray[np.int32]:
        """Drop the subjects without live messages; return the new id of each old one, -1 for none and at -1."""
        alive = np.flatnonzero(self.count[: len(self.names)] > 0)
        moved = np.full(len(self.names) + 1, -1, np.int32)
        moved[alive] = np.arange(len(alive), dtype=np.int32)
        names = self.names
        self.names = [names[sid] for sid in alive.tolist()]
        self.ids = {name: sid for sid, name in enumerate(self.names)}
        room = max(_IDS_MIN, len(alive))
        self.count = _resized(self.count[alive], room)
        self.first = _resized(self.first[alive], room)
        self.last = _resized(self.last[alive], room)
        self.stale_last = {moved.item(sid) for sid in self.stale_last}
        self._masks.clear()
        self._ordered, self._scanned = [], 0
        return moved

    def _grow(self) -> None:
        room = 2 * len(self.count)
        self.count = _resized(self.count, room)
        self.first = _resized(self.first, room)
        self.last = _resized(self.last, room)


def _resized(column: NDArray[Any], room: int) -> NDArray[Any]:
    return np.concatenate((column, np.zeros(room - len(column), column.dtype)))
