"""The messages of a slice's part as Arrow batches, wherever the process that reads them runs.

Files are read a row group at a time, those that statistics exclude not at all; each payload is verified. The journal's
files are truncated once they are settled: what a reader finds gone it reads from where the rows are then.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conf.data_location import DataLocation
from delta_store.entries.settled_log import Int64s
from delta_store.reading.message_slice import SlicePart, unpacked
from delta_store.reading.settled_files import MessageFiles, verify
from delta_store.reading.slice_plan import SlicePlanner
from delta_store.reading.state_at import inside_ranges
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.read_errors import FileGone
from delta_store.values.records import Kind
from delta_store.values.schemas import MESSAGES_FOLDER
from delta_store.values.stream_message import MessageRun

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 16 * 1024 * 1024
"""Rows, and bytes of their columns, that are gathered into one batch; one row group may hold more."""
_ALWAYS: Final = ("stream", "stream_id", "kind", "seq", "ts_ns", "subject")
_CONTENT: Final = ("headers", "data", "crc")
_TRIES: Final = 6


def scan(data: DataLocation, part: SlicePart, names: Sequence[str]) -> Iterator[Any]:
    """Iterate over a part's messages, as Arrow tables of a few columns.

    ``names`` are columns of ``messages`` but ``stream``; subjects are dictionary-encoded. Raises ``FileGone`` for a
    settled file that has been vacuumed, ``DamagedData``.
    """
    gathered: list[Any] = []
    rows = size = 0
    for table in _tables(data, part, names, tries=_TRIES):
        gathered.append(table)
        rows, size = rows + len(table), size + table.nbytes
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield pa.concat_tables(gathered).unify_dictionaries()
            gathered, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(gathered).unify_dictionaries()


def _tables(data: DataLocation, part: SlicePart, names: Sequence[str], *, tries: int) -> Iterator[Any]:
    filesystem, root = filesystem_of(data.table(part.table), data.options)
    files = MessageFiles(filesystem, cache_bytes=0)
    content = _CONTENT if "data" in names else ()
    wanted = tuple(dict.fromkeys((*_ALWAYS, *names, *content)))
    evicted = unpacked(part.evicted)

    def rows_of(path: str) -> Iterator[Any]:
        for table in files.scan(path, wanted, part.bounds.admits):
            chosen = chosen_rows(table, part, evicted)
            if len(chosen):
                _verify(path, chosen, content)
                yield chosen.select(list(names))

    if part.table == MESSAGES_FOLDER:
        for file in part.files:
            yield from rows_of(f"{root}/{file.path}")
        return
    for place, file in enumerate(part.files):
        try:
            found = list(rows_of(f"{root}/{file.path}"))
        except FileGone:
            if not tries:
                raise
            for moved in _moved(data, part, place):
                yield from _tables(data, moved, names, tries=tries - 1)
            return
        yield from found


def _moved(data: DataLocation, part: SlicePart, place: int) -> list[SlicePart]:
    """Return where the rows of the journal's files from ``place`` on are now."""
    bounds = part.bounds.within(part.files[place].first, part.bounds.seqs[1])
    found = SlicePlanner.of(data).log(part.stream, part.stream_id, bounds, complete=False)
    return [one._replace(removed=part.removed, evicted=part.evicted) for one in found.parts]


def chosen_rows(table: Any, part: SlicePart, evicted: Int64s) -> Any:
    """Return the rows that belong to the part; ``evicted`` are its own, unpacked."""
    seqs, times = table["seq"].to_numpy(), table["ts_ns"].to_numpy()
    (first, last), (early, late) = part.bounds.seqs, part.bounds.times
    mask = (seqs >= first) & (seqs <= last) & (times >= early) & (times <= late)
    mask &= table["stream_id"].to_numpy() == part.stream_id
    if "stream" in table.column_names:
        mask &= _equal(table["stream"], part.stream)
    mask &= _equal(table["kind"], Kind.MESSAGE.value)
    if part.removed:
        mask &= ~inside_ranges(seqs, part.removed)
    if len(evicted):
        mask &= ~np.isin(seqs, evicted)
    if not part.bounds.any_subject and mask.any():
        column = table["subject"].combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        wanted = np.array(part.bounds.select(column.dictionary.to_pylist()), dtype=np.bool_)
        mask &= wanted[column.indices.to_numpy(zero_copy_only=False)]
    return table if mask.all() else table.filter(pa.array(mask))


def _equal(column: Any, value: str) -> Any:
    return pc.equal(column, value).to_numpy(zero_copy_only=False)


def _verify(path: str, table: Any, content: Sequence[str]) -> None:
    if content:
        subjects, seqs, times, headers, data, sums = (
            table[name].to_pylist() for name in ("subject", "seq", "ts_ns", "headers", "data", "crc")
        )
        verify(path, MessageRun((subjects, seqs, times, headers, data)), sums)
