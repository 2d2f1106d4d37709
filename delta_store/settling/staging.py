"""The function that executors run on a batch: rows in, durable files in the folders of ``messages`` out, and a report.

Nothing names the files until the driver commits them. It runs in Python processes that know nothing of the driver's.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from conf.limits import SETTLE_ROWS_PER_FOLDER_MIN, STAGED_BYTES
from delta_store.entries.batch_columns import completed
from delta_store.entries.batch_layout import (
    FolderRows,
    in_order,
    laid_out,
    newest_of_consumers,
    of_consumers,
    summarised,
    without,
)
from delta_store.entries.batch_report import REPORT_DDL, BatchReport, merged
from delta_store.entries.settled_file import decode, encode
from delta_store.entries.staged_file import StagedFile, Writing, staged_path
from delta_store.settling.journal_rows import JournalRows
from delta_store.settling.typed_staging import NO_TABLES, TypedPlace, TypedWriters
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob, Storage

REWRITE_SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("dead", pa.list_(pa.struct([(name, pa.int64()) for name in ("stream_id", "seq", "event_no")]))),
    ]
)
"""A file's name, and the positions of its rows to leave out."""


_WRITES_AT_ONCE: Final = 4
"""Files on their way to the disk or store while the next ones are encoded."""


class Staging(NamedTuple):
    """Writes the rows of a batch; a value, which goes to the executors with the task."""

    location: str
    options: Mapping[str, str]
    writing: Writing
    bucketed: frozenset[str]
    """Streams whose subjects share buckets."""
    opened: str
    """Differs each time that the table is opened, which may have been lost and made anew."""
    spread_rows_min: int = SETTLE_ROWS_PER_FOLDER_MIN
    """Recent messages of a stream that are spread by subject at once."""
    typed: TypedPlace = NO_TABLES
    """The typed tables for which the batch is written as well."""
    journal: JournalRows | None = None
    """Reads the rows, where a task gets the names of files."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the journal's rows of one task, without superseded ones of consumers; yield its report as one row.

        Raises ``StorageError``; then no file is left.
        """
        typing = TypedWriters(self.typed)
        rows = batches if self.journal is None else self.journal(batches)
        with FileWriter(self) as writer:
            try:
                report = self._written(writer, typing, rows)._replace(typed=typing.end())
                writer.finish()
            except Exception:
                writer.discard()
                typing.discard()
                raise
        yield report.as_arrow()

    def _written(self, writer: "FileWriter", typing: TypedWriters, batches: Iterable[pa.RecordBatch]) -> BatchReport:
        reports = [BatchReport()]
        held: list[pa.Table] = []
        for rows in gathered(batches):
            ordered = completed(in_order(rows))
            typing.take(ordered)
            theirs, others = of_consumers(ordered)
            held += [theirs] if theirs.num_rows else []
            reports.append(summarised(ordered, self.bucketed)._replace(files=tuple(writer.write(others))))
        if held:
            newest = newest_of_consumers(in_order(pa.concat_tables(held).combine_chunks()))
            reports.append(BatchReport(tuple(writer.write(newest))))
        return merged(reports)


class Rewriting(NamedTuple):
    """Writes the rows of committed files anew: without dead ones, small files together."""

    staging: Staging
    files: Mapping[str, tuple[str, str, str]]
    """Path, stream and subject partition of each file, by its name."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rewrite the files of a task, which are rows of :data:`REWRITE_SCHEMA`; yield its report as one row."""
        with FileWriter(self.staging) as writer:
            try:
                files = (file for rows in gathered(self._left(batches)) for file in writer.write(in_order(rows)))
                report = BatchReport(tuple(files))
                writer.finish()
            except Exception:
                writer.discard()
                raise
        yield report.as_arrow()

    def _left(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        storage = _storage_of(self.staging)
        for batch in batches:
            for name, dead in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                path, stream, partition = self.files[name]
                rows = decode(storage.read(path), stream, partition)
                yield from without(rows, dead, file=path).to_batches()


def staged(rows: DataFrame, staging: Staging | Rewriting) -> BatchReport:
    """Run the writer on all rows, in one job and one task; return its report."""
    write: Any = staging
    found = rows.coalesce(1).mapInArrow(write, REPORT_DDL).collect()
    return merged([BatchReport.from_row(*row) for row in found])


class FileWriter:
    """The files of one attempt to write some rows; some are on their way while the next are encoded."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._storage = _storage_of(staging)
        self._unique = secrets.token_hex(8)
        self._paths: list[str] = []
        self._threads = ThreadPoolExecutor(_WRITES_AT_ONCE, thread_name_prefix="staging")
        self._under_way: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    def finish(self) -> None:
        """Wait until all files are durable."""
        while self._under_way:
            self._under_way.popleft().result()

    def discard(self) -> None:
        """Delete the files: nobody will commit them."""
        wait(self._under_way)
        self._storage.delete(self._paths)

    def write(self, rows: pa.Table) -> Iterator[StagedFile]:
        """Write rows that are in order; the files are durable when :meth:`finish` returns."""
        staging = self._staging
        if rows.num_rows:
            yield from map(self.put, laid_out(rows, staging.bucketed, spread_rows_min=staging.spread_rows_min))

    def put(self, part: FolderRows) -> StagedFile:
        """Write one file, durable as those of :meth:`write`."""
        file = encode(part.rows)
        path = self._path(part.stream, part.subject_partition)
        self._submit(partial(self._storage.write, Blob(path, file.body)))
        size, where = file.body.size, (part.stream, part.subject_partition)
        return StagedFile(path, *where, size, file.rows, file.checksum, file.stats)

    def put_behind(self, source: str, more: bytes, file: StagedFile) -> StagedFile:
        """Write one file as another one's bytes and more, durable as by :meth:`write`; return it with its path."""
        path = self._path(file.stream, file.subject_partition)
        self._submit(partial(self._storage.write_behind, source, Blob(path, more)))
        return file._replace(path=path)

    def _path(self, stream: str, subject_partition: str) -> str:
        number = len(self._paths)
        path = staged_path(self._staging.writing, stream, subject_partition, number=number, unique=self._unique)
        self._paths.append(path)
        return path

    def _submit(self, write: Callable[[], None]) -> None:
        self._under_way.append(self._threads.submit(write))
        if len(self._under_way) > _WRITES_AT_ONCE:
            self._under_way.popleft().result()


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Iterate over tables of about ``STAGED_BYTES``, which bounds the memory of a task."""
    parts: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        parts.append(batch)
        size += batch.nbytes
        if size >= STAGED_BYTES:
            yield pa.Table.from_batches(parts).combine_chunks()
            parts, size = [], 0
    if any(batch.num_rows for batch in parts):
        yield pa.Table.from_batches(parts).combine_chunks()


def _storage_of(staging: Staging) -> Storage:
    return _storage(staging.location, tuple(sorted(staging.options.items())), staging.opened)


@lru_cache(maxsize=4)
def _storage(location: str, options: tuple[tuple[str, str], ...], opened: str) -> Storage:
    """Keep a storage for the next task: it knows the folders that are durable."""
    del opened
    return open_storage(location, dict(options))
