"""Reads the rows of many journal files at once: what opening a store that has not settled for long comes down to.

A commit of one message is a file of its own, so the files are many and small, and what counts is the work a file, not
a row: small files are put together before anything is asked of their rows, and a few threads read ahead of each other.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_store.journal_file import checksums
from delta_store.journal_tail import JournalTail, behind
from delta_store.read_errors import DamagedData
from delta_store.records import RowColumns
from delta_store.schemas import JOURNAL_SCHEMA
from delta_store.settled_log import DataFile, Snapshot
from delta_store.watermark import Watermarks

_CHUNK_ROWS: Final = 16_384
_FILES_AT_ONCE: Final = 128
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Small files are put together up to here; copying more would cost more than it saves."""
_THREADS: Final = 4
_ORDER: Final = [(name, "ascending") for name in ("stream", "stream_id", "seq", "event_no")]


def rows_above(journal: JournalTail, pinned: Snapshot, watermarks: Watermarks) -> Iterator[RowColumns]:
    """The journal's rows that are not settled, ordered by position within each stream, payloads included.

    Every row of every file is verified, also the settled ones. Raises ``DamagedData`` or ``FileGone``; both name it.
    """
    files = list(pinned.files.values())
    batches = [files[start : start + _FILES_AT_ONCE] for start in range(0, len(files), _FILES_AT_ONCE)]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="journal") as threads:
        parts = threads.map(lambda batch: list(_unsettled(journal, batch, watermarks)), batches)
        tables = [table for part in parts for table in part if len(table)]
    if not tables:
        return
    table = pa.concat_tables(tables).sort_by(_ORDER)
    del tables
    for start in range(0, len(table), _CHUNK_ROWS):
        yield row_columns(table.slice(start, _CHUNK_ROWS))


def rows_of(journal: JournalTail, file: DataFile) -> RowColumns:
    """All rows of one file, in its order. Raises as :func:`rows_above`."""
    table = _read(journal, file)
    _verify(journal, [file], [table], table)
    return row_columns(table)


def row_columns(table: Any) -> RowColumns:
    """An Arrow table with the journal's columns as rows for the catalog and the payload cache."""
    return RowColumns(**{name: table[name].to_pylist() for name in RowColumns.__slots__})


def _unsettled(journal: JournalTail, files: Sequence[DataFile], watermarks: Watermarks) -> Iterator[Any]:
    """The rows of some files above the watermarks, verified, as a few Arrow tables."""
    read: list[DataFile] = []
    tables: list[Any] = []
    size = 0
    for place, file in enumerate(files, 1):
        read.append(file)
        tables.append(_read(journal, file))
        size += tables[-1].nbytes
        if size < _BYTES_AT_ONCE and place < len(files):
            continue
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        _verify(journal, read, tables, table)
        yield _above(table, watermarks)
        read, tables, size = [], [], 0


def _read(journal: JournalTail, file: DataFile) -> Any:
    """All columns of a file, none of them lacking a value that it must have."""
    path = journal.log.path_of(file)
    table = journal.files.whole(path)
    if table.schema != JOURNAL_SCHEMA:
        try:
            return table.cast(JOURNAL_SCHEMA)
        except (pa.ArrowException, ValueError) as error:
            raise DamagedData(path, str(error)) from error
    return table


def _verify(journal: JournalTail, files: Sequence[DataFile], tables: Sequence[Any], together: Any) -> None:
    """Raise ``DamagedData`` for the first file that holds a row whose checksum does not match."""
    if _is_whole(together):
        return
    for file, table in zip(files, tables, strict=True):
        if not _is_whole(table):
            raise DamagedData(journal.log.path_of(file), "the checksum of a row does not match")


def _is_whole(table: Any) -> bool:
    content = RowColumns(**{name: table[name].to_pylist() for name in ("seq", "subject", "headers", "data")})
    sums: list[int] = table["crc"].to_pylist()
    return checksums(content) == sums


def _above(table: Any, watermarks: Watermarks) -> Any:
    """The rows above the watermarks, in the same order."""
    settled = None
    for stream in pc.unique(table["stream"]).to_pylist() if watermarks else ():
        mark = watermarks.get(stream)
        if mark is not None:
            its = pc.and_not(pc.equal(table["stream"], stream), behind(table, mark.position))
            settled = its if settled is None else pc.or_(settled, its)
    return table if settled is None else table.filter(pc.invert(settled))
