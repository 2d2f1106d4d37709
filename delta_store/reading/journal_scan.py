"""The rows of many journal files at once, for opening a store that has not settled for long.

A commit of one message is a file of its own, so the files are many and small, and the cost is by file, not by row:
small files are concatenated before their rows are processed. On a local disk one thread reads them, since decoding a
small file mostly holds the interpreter lock; an object store is read by several. However much is unsettled, only a part
of it is in memory at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries.journal_file import whole_rows
from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.reading.journal_tail import JournalTail, behind
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import RowColumns
from delta_store.values.schemas import JOURNAL_SCHEMA
from delta_store.values.watermark import Watermarks

_CHUNK_ROWS: Final = 16_384
_CHUNK_BYTES: Final = 32 * 1024 * 1024
"""Payload bytes of rows that are yielded together; a single commit may hold more. Arrow's columns end at 2 GiB."""
_FILES_AT_ONCE: Final = 64
_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
"""Payload bytes up to which files are concatenated; copying more would cost more than it saves."""
_REMOTE_THREADS: Final = 16
_ORDER: Final = [(name, "ascending") for name in ("stream", "stream_id", "seq", "event_no")]


def rows_above(
    journal: JournalTail, pinned: Snapshot, watermarks: Watermarks, passed: Callable[[int], None] = lambda _: None
) -> Iterator[RowColumns]:
    """Iterate over the journal's unsettled rows, ordered by position within each stream, payloads included.

    Every row of every file is verified, also the settled ones; ``passed`` is called with the number of rows verified.
    Raises ``DamagedData`` or ``FileGone``; both name the file.
    """
    files = sorted(pinned.files.values(), key=lambda file: file.path)
    # Files are named by the version that added them, and a stream's positions grow from commit to commit.
    batches = [files[start : start + _FILES_AT_ONCE] for start in range(0, len(files), _FILES_AT_ONCE)]
    gathered: list[Any] = []
    rows = size = 0
    for table in _in_order(journal, lambda batch: _unsettled(journal, batch, watermarks), batches, passed):
        gathered.append(table)
        rows += len(table)
        size += table["data"].nbytes
        if rows >= _CHUNK_ROWS or size >= _CHUNK_BYTES:
            yield from _chunks(gathered)
            gathered, rows, size = [], 0, 0
    if rows:
        yield from _chunks(gathered)


def unsettled(journal: JournalTail, pinned: Snapshot, watermarks: Watermarks, stream: str | None = None) -> Any:
    """Return the unsettled rows (of one stream) as an Arrow table, in commit order. Raises as :func:`rows_above`.

    All are in memory together, payloads included; rows of other streams are verified where they share a file.
    """
    found = pinned.files.values() if stream is None else pinned.of_stream(stream)
    files = sorted(found, key=lambda file: file.path)
    batches = [files[start : start + _FILES_AT_ONCE] for start in range(0, len(files), _FILES_AT_ONCE)]
    tables = [
        table if stream is None else table.filter(pc.equal(table["stream"], stream))
        for table in _in_order(journal, lambda batch: _unsettled(journal, batch, watermarks), batches, lambda _: None)
    ]
    return pa.concat_tables(tables) if tables else JOURNAL_SCHEMA.empty_table()


def _chunks(tables: list[Any]) -> Iterator[RowColumns]:
    table = pa.concat_tables(tables).sort_by(_ORDER)
    for start in range(0, len(table), _CHUNK_ROWS):
        yield row_columns(table.slice(start, _CHUNK_ROWS))


def rows_of(journal: JournalTail, file: DataFile) -> RowColumns:
    """Return all rows of one file, in its order. Raises as :func:`rows_above`."""
    [table] = _unsettled(journal, [file], {})
    return row_columns(table)


def row_columns(table: Any) -> RowColumns:
    """Convert an Arrow table with the journal's columns to rows for the catalog and the payload cache."""
    return RowColumns(**{name: table[name].to_pylist() for name in RowColumns.__slots__})


def _in_order(
    journal: JournalTail,
    read: Callable[[Sequence[DataFile]], Iterable[Any]],
    batches: Sequence[Sequence[DataFile]],
    passed: Callable[[int], None],
) -> Iterator[Any]:
    """Iterate over the results of ``read`` for each batch of files, in order."""
    if "://" not in journal.location:
        for batch in batches:
            yield from read(batch)
            passed(sum(file.rows for file in batch))
        return
    with ThreadPoolExecutor(_REMOTE_THREADS, thread_name_prefix="journal") as threads:
        for start in range(0, len(batches), _REMOTE_THREADS):
            together = batches[start : start + _REMOTE_THREADS]
            for batch, tables in zip(together, threads.map(lambda batch: list(read(batch)), together), strict=True):
                yield from tables
                passed(sum(file.rows for file in batch))


def _unsettled(journal: JournalTail, files: Sequence[DataFile], watermarks: Watermarks) -> Iterator[Any]:
    """Iterate over the rows of some files above the watermarks, verified, as a few Arrow tables."""
    paths: list[str] = []
    tables: list[Any] = []
    size = 0
    for place, file in enumerate(files, 1):
        path = journal.path_of(file)
        table = journal.files.whole(path)
        paths.append(path)
        tables.append(table)
        size += table["data"].nbytes if "data" in table.column_names else 0
        if size >= _BYTES_AT_ONCE or place == len(files):
            yield _above(_verified(paths, tables), watermarks)
            paths, tables, size = [], [], 0


def _verified(paths: Sequence[str], tables: Sequence[Any]) -> Any:
    """Concatenate the tables; raise ``DamagedData`` for the first file with a row that is not what was written."""
    try:
        together = tables[0] if len(tables) == 1 else pa.concat_tables(tables).combine_chunks()
        if together.schema == JOURNAL_SCHEMA and _is_whole(together):
            return together
    except pa.ArrowInvalid:  # written by different engines: verified one by one
        pass
    return pa.concat_tables(map(_verified_one, paths, tables))


def _verified_one(path: str, table: Any) -> Any:
    try:
        table = table.cast(JOURNAL_SCHEMA)
    except (pa.ArrowException, ValueError) as error:
        raise DamagedData(path, str(error)) from error
    if not _is_whole(table):
        raise DamagedData(path, "the checksum of a row does not match")
    return table


def _is_whole(table: Any) -> bool:
    return bool(whole_rows(table).all())


def _above(table: Any, watermarks: Watermarks) -> Any:
    """Return the rows above the watermarks, in the same order."""
    settled = None
    for stream in pc.unique(table["stream"]).to_pylist() if watermarks else ():
        mark = watermarks.get(stream)
        if mark is not None:
            its = pc.and_not(pc.equal(table["stream"], stream), behind(table, mark.position))
            settled = its if settled is None else pc.or_(settled, its)
    return table if settled is None else table.filter(pc.invert(settled))
