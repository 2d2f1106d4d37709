"""Messages out of Parquet files, row group by row group, with a cache of row groups.

Settled files and journal files are read alike; a journal file has a ``stream`` column, a settled file has it in its
folder's name. Every payload's checksum is verified before it is returned; page checksums are verified where the writer
made them (they guard the columns that the payload's checksum does not cover).
"""

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from delta_store.entries.settled_log import Int64s
from delta_store.reading.message_bounds import Extent
from delta_store.storage.arrow_filesystem import FileOpener
from delta_store.values.lru import Lru
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Kind
from delta_store.values.schemas import JOURNAL_SCHEMA
from delta_store.values.stream_message import MessageRun

_COLUMNS: Final = ("stream", "stream_id", "kind", "seq", "subject", "ts_ns", "headers", "data", "crc")
_FILES_KEPT: Final = 512
_COLUMN_THREADS_ROWS_MIN: Final = 4096
"""Rows from which on decoding a file's columns in parallel pays."""
_TYPES: Final = {field.name: field.type for field in JOURNAL_SCHEMA}
_SUBJECT_IDS: Final = pa.dictionary(pa.int32(), pa.string())


class _Rows(NamedTuple):
    """The messages of one stream in one row group."""

    file: str
    seqs: Int64s
    """Ascending."""
    order: Int64s
    """Row of the table for each of ``seqs``."""
    table: Any

    def take(self, wanted: Int64s) -> MessageRun:
        """Return those of the ascending ``wanted`` that are here, each verified."""
        places = np.searchsorted(self.seqs, wanted)
        inside = places < len(self.seqs)
        places = places[inside]
        found = places[self.seqs[places] == wanted[inside]]
        if not len(found):
            return MessageRun(((), (), (), (), ()))
        rows = self.table.take(pa.array(self.order[found]))
        subjects, times, headers, data, sums = (
            rows.column(name).to_pylist() for name in ("subject", "ts_ns", "headers", "data", "crc")
        )
        seqs = self.seqs[found].tolist()
        verify(self.file, MessageRun((subjects, seqs, times, headers, data)), sums)
        return MessageRun((subjects, seqs, times, headers, data))


def verify(file: str, run: MessageRun, sums: Sequence[int]) -> None:
    """Raise :class:`DamagedData` unless every message has its checksum."""
    known: dict[str, int] = {}
    for subject, seq, headers, data, crc in zip(run.subjects, run.seqs, run.headers, run.data, sums, strict=True):
        start = known.get(subject)
        if start is None:
            start = known[subject] = crc32(subject.encode())
        if crc32(data, crc32(headers, start) if headers else start) != crc:
            raise DamagedData(file, f"the checksum of sequence {seq} does not match")


class _Footer(NamedTuple):
    metadata: Any
    names: frozenset[str]
    low: Int64s
    high: Int64s


class MessageFiles:
    """Row groups of Parquet files, cached within ``cache_bytes``, least recently used first out. Thread-safe."""

    def __init__(self, filesystem: FileOpener, *, cache_bytes: int) -> None:
        self._filesystem = filesystem
        self._lock = Lock()
        self._footers: Lru[str, _Footer] = Lru(_FILES_KEPT)
        self._rows: Lru[tuple[str, int, str, int], _Rows] = Lru(cache_bytes, lambda rows: int(rows.table.nbytes))

    def fetch(self, path: str, stream: str, stream_id: int, wanted: Int64s) -> list[MessageRun]:
        """Return the messages with the ascending sequences ``wanted`` in the file at ``path``, by row group.

        Raises :class:`FileGone` or :class:`DamagedData`, both naming the file.
        """
        footer = self._footer(path)
        first = np.searchsorted(wanted, footer.low)
        inside = first < len(wanted)
        groups = np.flatnonzero(inside & (wanted[np.minimum(first, len(wanted) - 1)] <= footer.high))
        runs: list[MessageRun] = []
        for group in groups.tolist():
            rows = self._row_group(path, group, stream, stream_id)
            with _reading(path):
                runs.append(rows.take(wanted))
        return [run for run in runs if len(run)]

    def extent(self, path: str) -> tuple[int, int]:
        """Return a file's number of rows and its highest sequence, by its footer. Raises as :meth:`fetch`."""
        footer = self._footer(path)
        return int(footer.metadata.num_rows), int(footer.high.max(initial=0))

    def metadata(self, path: str) -> pq.FileMetaData:
        """Return what a file's footer says of it. Raises as :meth:`fetch`."""
        return self._footer(path).metadata

    def sequences(self, path: str) -> Int64s:
        """Return the sequences of a file's rows, in their order. Raises as :meth:`fetch`."""
        seqs: Int64s = self.columns(path, ("seq",))["seq"].to_numpy()
        return seqs

    def columns(self, path: str, names: Sequence[str]) -> Any:
        """Read whole columns of a file (those of ``names`` that it has) to Arrow, subjects dictionary-encoded."""
        with _reading(path):
            file = self._open(path, None, dictionary=True)
            try:
                held = frozenset(file.schema_arrow.names)
                return _plain(_read_all(file, [name for name in names if name in held]), dictionary=True)
            finally:
                file.close()

    def scan(self, path: str, names: Sequence[str], admits: Callable[[Extent], bool]) -> Iterator[Any]:
        """Read columns (those that it has) of the row groups whose statistics are admitted, an Arrow table for each.

        Subjects are dictionary-encoded. Raises as :meth:`fetch`.
        """
        with _reading(path):
            file = self._open(path, None, dictionary=True)
        try:
            held = frozenset(file.schema_arrow.names)
            chosen = [name for name in names if name in held]
            for group in range(file.metadata.num_row_groups):
                with _reading(path):
                    if not admits(_extent(file.metadata.row_group(group))):
                        continue
                    table = _plain(file.read_row_group(group, columns=chosen), dictionary=True)
                yield table
        finally:
            file.close()

    def whole(self, path: str) -> Any:
        """Read a file at once and without a cast, as an Arrow table. Raises as :meth:`fetch`."""
        with _reading(path):
            with self._filesystem.open_input_file(path) as source:
                body = source.read_buffer()
            return _read_all(pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True), None)

    def _row_group(self, path: str, group: int, stream: str, stream_id: int) -> _Rows:
        key = (path, group, stream, stream_id)
        with self._lock:
            kept = self._rows.get(key)
        if kept is not None:
            return kept
        rows = self._read(key)
        with self._lock:
            self._rows.put(key, rows)
        return rows

    def _read(self, key: tuple[str, int, str, int]) -> _Rows:
        path, group, stream, stream_id = key
        footer = self._footer(path)
        with _reading(path):
            file = self._open(path, footer.metadata)
            try:
                table = file.read_row_group(group, columns=[name for name in _COLUMNS if name in footer.names])
                table = _plain(table, dictionary=False)
            finally:
                file.close()
            chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.equal(table["kind"], Kind.MESSAGE.value))
            if "stream" in footer.names:
                chosen = pc.and_(chosen, pc.equal(table["stream"], stream))
            table = table.filter(chosen).select(["seq", "subject", "ts_ns", "headers", "data", "crc"])
            table = table.combine_chunks()
        seqs = table.column("seq").to_numpy()
        order = np.argsort(seqs, kind="stable")
        return _Rows(path, seqs[order], order, table)

    def _footer(self, path: str) -> _Footer:
        with self._lock:
            kept = self._footers.get(path)
        if kept is not None:
            return kept
        with _reading(path):
            file = self._open(path, None)
            try:
                footer = _footer(file.metadata)
            finally:
                file.close()
        with self._lock:
            self._footers.put(path, footer)
        return footer

    def _open(self, path: str, metadata: Any, *, dictionary: bool = False) -> Any:
        return pq.ParquetFile(
            self._filesystem.open_input_file(path),
            metadata=metadata,
            read_dictionary=["subject"] if dictionary else None,
            page_checksum_verification=True,
        )


class _reading:  # noqa: N801  # used as a keyword, like contextlib.suppress
    """A context that turns errors of the file system and Arrow into read errors that name the file."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            raise FileGone(self._path) from error
        if isinstance(error, OSError | pa.ArrowException | ValueError | LookupError):
            raise DamagedData(self._path, str(error)) from error


def _read_all(file: pq.ParquetFile, names: Sequence[str] | None) -> Any:
    return file.read(columns=names, use_threads=file.metadata.num_rows >= _COLUMN_THREADS_ROWS_MIN)


def _plain(table: Any, *, dictionary: bool) -> Any:
    """Cast the table to one Arrow type for each column, whichever engine (and string layout) wrote the file."""
    types = {field.name: _TYPES.get(field.name, field.type) for field in table.schema}
    if dictionary and "subject" in types:
        types["subject"] = _SUBJECT_IDS
    return table.cast(pa.schema(types.items()))


def _extent(group: Any) -> Extent:
    """Return the bounds that a row group's statistics give."""
    bounds: dict[str, Any] = dict.fromkeys(Extent._fields)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema in bounds and column.is_stats_set and column.statistics.has_min_max:
            bounds[column.path_in_schema] = (column.statistics.min, column.statistics.max)
    return Extent(**bounds)


def _footer(metadata: Any) -> _Footer:
    names = frozenset(metadata.schema.to_arrow_schema().names)
    place = [metadata.schema.column(i).path for i in range(metadata.num_columns)].index("seq")
    bounds = [metadata.row_group(i).column(place).statistics for i in range(metadata.num_row_groups)]
    wide = np.iinfo(np.int64)
    low = [one.min if one is not None and one.has_min_max else wide.min for one in bounds]
    high = [one.max if one is not None and one.has_min_max else wide.max for one in bounds]
    return _Footer(metadata, names, np.array(low, dtype=np.int64), np.array(high, dtype=np.int64))
