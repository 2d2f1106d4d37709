"""Which settled message came last before a time, by what each version of ``messages`` added, before any removal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from delta_store.entries.settled_log import DataFile, Int64s, Snapshot
from delta_store.reading.settled import SettledTable
from delta_store.reading.state_at import END, EventRow
from delta_store.streams.removal_rows import read_removal
from delta_store.values.read_errors import PastHorizon
from delta_store.values.records import Kind

ReadColumns = Callable[[Snapshot, Sequence[DataFile], Sequence[str]], Any]
"""Reads columns of a version's files as an Arrow table."""


def last_stored_ns(files: Iterable[DataFile], events: Iterable[EventRow]) -> int:
    """Return a time at which the last settled message was stored already, by the newest version's files and events.

    :data:`END` where none is known. What was removed since is told of by the newest REMOVE row.
    """
    removals = [read_removal(event.data)[1] for event in events if event.kind == Kind.REMOVE]
    known = [*(file.ts_ns[1] for file in files), *removals]
    return END if not known or 0 in removals[-1:] else max(known)


class SettledTimes:
    """The times of the settled messages of one incarnation of a stream."""

    def __init__(self, settled: SettledTable, incarnation: tuple[str, int], read: ReadColumns) -> None:
        self._settled, self._read = settled, read
        self._stream, self._stream_id = incarnation

    def last_before(self, ts_ns: int, settled_seq: int) -> int:
        """Return the last sequence up to ``settled_seq`` that was stored before a time; 0 for none.

        Bisects the versions. Raises ``PastHorizon`` where they are gone.
        """
        low, high, proven = 0, settled_seq, True
        while low < high:
            middle = (low + high + 1) // 2
            try:
                seqs, times = self._settled_from(middle, high, ts_ns)
            except PastHorizon:
                low, proven = middle, False
                continue
            if not len(seqs) or ts_ns <= times[0]:
                high = min([middle, *seqs[:1].tolist()]) - 1
            elif ts_ns > times[-1]:
                low, proven = max(middle, int(seqs[-1])), True
            else:
                return int(seqs[times < ts_ns].max())
        if not proven:
            raise PastHorizon(self._stream, None)
        return low

    def _settled_from(self, seq: int, last_seq: int, ts_ns: int) -> tuple[Int64s, Int64s]:
        """Return as :meth:`_settled_by` what the version settled that settled a sequence.

        Where that were gaps only, as copies have them, what the next one did; nothing where all up to ``last_seq`` are.
        """
        while seq <= last_seq:
            version = self._settled.append_version_for(self._stream, self._stream_id, seq)
            if any(self._added(version)):
                return self._settled_by(version, ts_ns)
            mark = self._settled.mark_at(version, self._stream)
            seq = max(seq, mark.seq if mark is not None else seq) + 1
        return np.array([], np.int64), np.array([], np.int64)

    def _settled_by(self, version: int, ts_ns: int) -> tuple[Int64s, Int64s]:
        """Return sequences and times of the messages that a version settled, ascending.

        Only the first and the last where statistics tell them and ``ts_ns`` is not between; a file may hold rows of an
        incarnation before, and then its bounds mean nothing.
        """
        files = self._added(version)
        first, last = min(one.ts_ns[0] for one in files), max(one.ts_ns[1] for one in files)
        if not first < ts_ns <= last and all(one.stream_ids == (self._stream_id, self._stream_id) for one in files):
            ends = min(one.seq[0] for one in files), max(one.seq[1] for one in files)
            return np.array(ends), np.array([first, last])
        return self._times(version, files)

    def stored_ns(self, seq: int) -> int:
        """Return when the version that settled a sequence had its last message up to there stored; 0 for none.

        Raises ``PastHorizon`` or ``FileGone``.
        """
        version = self._settled.append_version_for(self._stream, self._stream_id, seq)
        files = self._added(version)
        if not files:
            return 0
        seqs, times = self._times(version, files)
        return int(times[seqs <= seq].max(initial=0))

    def _added(self, version: int) -> list[DataFile]:
        """Return the files of messages that a version added."""
        added = [one for one in self._settled.log.entry(version).added if one.stream == self._stream]
        return [one for one in added if one.has_messages and one.stream_ids[0] <= self._stream_id <= one.stream_ids[1]]

    def _times(self, version: int, files: Sequence[DataFile]) -> tuple[Int64s, Int64s]:
        table = self._read(self._settled.log.at(version), files, ("stream_id", "seq", "ts_ns"))
        table = table.filter(pc.equal(table["stream_id"], self._stream_id))
        seqs, times = table["seq"].to_numpy(), table["ts_ns"].to_numpy()
        order = np.argsort(seqs)
        return seqs[order], times[order]
