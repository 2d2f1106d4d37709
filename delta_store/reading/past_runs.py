"""The messages of a stream as it stood at a point, in order and in bulk: what branches, rewinds and undeletes read.

The sequences are read first, then the messages by as many of them as fit into memory, from files that are pinned. A
file that is vacuumed meanwhile ends the read with ``PastHorizon``; an erased message that it still has is never
returned if it was erased before the sequences were read.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from conf.data_location import DataLocation
from conf.limits import PAST_STEP_BYTES, PAST_STEP_MESSAGES
from delta_store.entries.settled_log import Int64s
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_scan import scan
from delta_store.reading.message_slice import SlicePart, part_within, unpacked
from delta_store.reading.settled_files import MessageFiles
from delta_store.reading.slice_plan import PastSlice, SlicePlanner
from delta_store.reading.whole_files import belongs
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.as_of import AsOf
from delta_store.values.read_errors import DamagedData, FileGone, PastHorizon
from delta_store.values.schemas import MESSAGES_FOLDER
from delta_store.values.stream_message import MessageRun

_FIRST_STEP: Final = 256
"""Messages of the first step, by which the size of those behind is known."""
_CONTENT: Final = ("subject", "seq", "ts_ns", "headers", "data")
_EVERYTHING: Final = MessageBounds()


class PastMessages(NamedTuple):
    """The messages that were live at a point."""

    plan: PastSlice
    seqs: Int64s
    """Ascending."""


class PastRuns:
    """Reads the past of any stream in bulk; blocking and thread-safe."""

    def __init__(self, planner: SlicePlanner, data: DataLocation) -> None:
        self._planner = planner
        self._data = data

    def at(self, stream: str, point: AsOf, bounds: MessageBounds = _EVERYTHING) -> PastMessages:
        """Return the messages within bounds that were live at a point, by sequence.

        Raises ``NoSuchStream``, ``NoSuchCut``, ``PastHorizon`` or ``DamagedData``.
        """
        plan = self.plan(stream, point, bounds)
        return self.of(plan, plan.slice.parts)

    def plan(self, stream: str, point: AsOf, bounds: MessageBounds = _EVERYTHING) -> PastSlice:
        """Return how the stream stood, and where its messages are, of which none is read. Raises as :meth:`at`."""
        return self._planner.then(stream, bounds, point)

    def of(self, plan: PastSlice, parts: Sequence[SlicePart]) -> PastMessages:
        """Return the messages of some parts of a plan. Raises as :meth:`at`."""
        found = [table["seq"].to_numpy() for part in parts for table in self._tables(part, ("seq",))]
        seqs = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
        return PastMessages(plan, seqs)

    def has_only(self, plan: PastSlice, seqs: Int64s) -> bool:
        """Whether a plan has no other messages than these of its own, each once. Raises as :meth:`at`.

        They are counted, by footers where every row of a file is a message of the plan.
        """
        number = 0
        for part in plan.slice.parts:
            number += self._count(part)
            if number > len(seqs):
                return False
        return number == len(seqs)

    def _count(self, part: SlicePart) -> int:
        """Return how many rows a part has."""
        if part.table != MESSAGES_FOLDER:
            return sum(map(len, self._tables(part, ("seq",))))
        filesystem, root = filesystem_of(self._data.table(part.table), self._data.options)
        files, evicted, number = MessageFiles(filesystem, cache_bytes=0), unpacked(part.evicted), 0
        for file in part.files:
            path = f"{root}/{file.path}"
            try:
                metadata = files.metadata(path)
                whole = belongs(metadata, part, evicted, partial(files.sequences, path))
            except FileGone as error:
                raise PastHorizon(part.stream, None) from error
            one = part._replace(files=(file,))
            number += metadata.num_rows if whole else sum(map(len, self._tables(one, ("seq",))))
        return number

    def runs(self, past: PastMessages, seqs: Int64s) -> Iterator[MessageRun]:
        """Iterate over those of the messages with these ascending sequences. Raises as :meth:`at`."""
        parts, start, step = past.plan.slice.parts, 0, _FIRST_STEP
        while start < len(seqs):
            wanted = seqs[start : start + step]
            run, size = self._read(parts, wanted)
            yield run
            start += len(wanted)
            step = max(1, min(PAST_STEP_MESSAGES, PAST_STEP_BYTES * len(wanted) // max(1, size)))

    def _read(self, parts: list[SlicePart], wanted: Int64s) -> tuple[MessageRun, int]:
        """Return messages, and the bytes of their columns."""
        near = [part_within(part, int(wanted[0]), int(wanted[-1])) for part in parts]
        tables = [_chosen(table, wanted) for part in filter(None, near) for table in self._tables(part, _CONTENT)]
        table = pa.concat_tables(tables).unify_dictionaries().combine_chunks() if tables else None
        seqs: Int64s = np.empty(0, np.int64) if table is None else table["seq"].to_numpy()
        order = np.unique(seqs, return_index=True)[1]
        if table is None or len(order) < len(wanted):
            lost = int(np.setdiff1d(wanted, seqs)[0])
            raise DamagedData(f"the files of {self._data}", f"sequence {lost} can't be read back")
        columns = [table[name].take(pa.array(order)).to_pylist() for name in _CONTENT]
        return MessageRun((columns[0], columns[1], columns[2], columns[3], columns[4])), table.nbytes

    def _tables(self, part: SlicePart, names: Sequence[str]) -> Iterator[Any]:
        try:
            yield from scan(self._data, part, names)
        except FileGone as error:
            raise PastHorizon(part.stream, None) from error


def _chosen(table: Any, wanted: Int64s) -> Any:
    """Return the rows with one of the ascending sequences."""
    seqs = table["seq"].to_numpy()
    place = np.minimum(np.searchsorted(wanted, seqs), len(wanted) - 1)
    mask = wanted[place] == seqs
    return table if mask.all() else table.filter(pa.array(mask))
