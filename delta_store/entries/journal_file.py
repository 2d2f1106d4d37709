"""A commit's rows as one Parquet file, and back. Pure: bytes in, bytes out.

The file is built column by column, never row by row, and not compressed unless its payloads are megabytes: every
acknowledgement waits for it. Three checksums guard it: one per page (any Parquet reader can verify it), one per row
(column ``crc``, which goes with the row into ``messages``), and one over the whole file, in the log entry. Invariant:
bytes that were altered after they were written are reported, never returned as rows.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from delta_store.entries.parquet_file import Field, Layout, checksum_of
from delta_store.values.records import RowColumns
from delta_store.values.schemas import JOURNAL_COLUMNS, JOURNAL_SCHEMA

_LAYOUT: Final = Layout(
    [Field(column.name, column.delta_type, column.nullable) for column in JOURNAL_COLUMNS], created_by="silt"
)
_LARGE_BYTES: Final = 256 * 1024
"""Size from which on a file is written in parts, and its columns are read side by side.

Threads double the processor time of a small file (0.7 ms, not 0.35, for 500 rows), and wait for their turns.
"""
_ROWS_AT_ONCE: Final = 8192
"""Rows whose payloads are Python's objects at a time."""
STATISTICS: Final = ("stream", "stream_id", "seq", "event_no", "ts_ns")
"""Columns with file statistics, all of them complete.

The table names them (``delta.dataSkippingStatsColumns``), because delta-rs takes a column that could have bounds and
has none in a file for one without values there, and gives pyarrow and DuckDB an expression that drops the file.
"""
_NO_NULLS: Final = dict.fromkeys(STATISTICS, 0)


class DamagedFile(ValueError):
    """The bytes are not those of a journal file as it was written; the text gives the reason."""


class Span(NamedTuple):
    """The positions of a file's first and last row of one stream."""

    stream: str
    stream_id: int
    first_seq: int
    first_event: int
    last_seq: int
    last_event: int


class EncodedFile(NamedTuple):
    """A journal file with the fields of its ``add`` action."""

    parts: tuple[bytes, ...]
    """The file's bytes: one part, except for large payloads, which are not copied."""
    size: int
    """Bytes of all parts."""
    rows: int
    checksum: int
    """CRC-32 of all parts."""
    spans: tuple[Span, ...]
    stats: str
    """Delta's per-file statistics, as JSON."""

    @property
    def body(self) -> bytes:
        """The file in one piece."""
        return b"".join(self.parts)


def encode(rows: RowColumns) -> EncodedFile:
    """Encode the rows of a group as a Parquet file; there is at least one row, and each stream's rows are in order."""
    parts = _LAYOUT.encode([*(getattr(rows, name) for name in RowColumns.__slots__), checksums(rows)])
    size = sum(map(len, parts))
    if size < _LARGE_BYTES:
        parts = [b"".join(parts)]
    spans = spans_of(rows)
    return EncodedFile(tuple(parts), size, len(rows), checksum_of(parts), spans, _stats(spans, rows))


def decode(body: pa.Buffer | bytes, *, size: int, checksum: int) -> RowColumns:
    """Decode a journal file; raise :class:`DamagedFile` unless it is what was written, down to each row."""
    table = decode_table(body, size=size, checksum=checksum)
    rows = columns_of(table)
    if checksums(rows) != _list(table["crc"]):
        raise DamagedFile("a row's checksum does not match its content")
    return rows


def decode_table(body: pa.Buffer | bytes, *, size: int, checksum: int) -> pa.Table:
    """Decode a file to an Arrow table, its bytes verified as a whole; raise :class:`DamagedFile`."""
    if len(body) != size:
        raise DamagedFile(f"{len(body)} bytes, its log entry says {size}")
    if crc32(body) != checksum:
        raise DamagedFile("its content does not match the checksum in its log entry")
    try:
        with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
            table = file.read(use_threads=size >= _LARGE_BYTES)
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"not a readable Parquet file: {error}") from error
    if table.column_names != JOURNAL_SCHEMA.names:
        raise DamagedFile(f"unexpected columns {table.column_names}")
    return table


def columns_of(table: pa.Table) -> RowColumns:
    """Return the rows of a table with the journal's columns."""
    return RowColumns(**{name: _list(table[name]) for name in RowColumns.__slots__})


def whole_rows(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Return which rows of a table with the journal's columns match their checksums."""
    found = np.zeros(table.num_rows, dtype=np.bool_)
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        part = table.slice(start, _ROWS_AT_ONCE)
        subjects, headers, data = (part[name].to_numpy().tolist() for name in ("subject", "headers", "data"))
        sums = np.array(_checksums(subjects, headers, data), dtype=np.int64)
        found[start : start + len(sums)] = sums == part["crc"].to_numpy()
    return found


def checksums(rows: RowColumns) -> list[int]:
    """Return :func:`delta_store.values.records.checksum` of each row, without a Python frame per row."""
    return _checksums(rows.subject, rows.headers, rows.data)


def _checksums(subjects: list[str], headers: list[bytes | None], data: list[bytes]) -> list[int]:
    of_subject = {subject: crc32(subject.encode()) for subject in set(subjects)}
    running: Iterable[int] = map(of_subject.__getitem__, subjects)
    without = headers.count(None)
    if without < len(headers):
        blocks = [block or b"" for block in headers] if without else headers
        running = map(crc32, blocks, running)  # None has been counted out
    return list(map(crc32, data, running))


def spans_of(rows: RowColumns) -> tuple[Span, ...]:
    """Return the span of each stream among the rows, in order of first appearance."""
    names, ids, total = rows.stream, rows.stream_id, len(rows)
    if ids.count(ids[0]) == total and names.count(names[0]) == total:
        ends = [(0, total - 1)]
    else:
        last = dict(zip(zip(names, ids, strict=True), range(total), strict=True))
        backwards = range(total - 1, -1, -1)
        first = dict(zip(zip(reversed(names), reversed(ids), strict=True), backwards, strict=True))
        ends = [(first[stream], last[stream]) for stream in last]
    return tuple(
        Span(names[low], ids[low], rows.seq[low], rows.event_no[low], rows.seq[high], rows.event_no[high])
        for low, high in ends
    )


def _stats(spans: Sequence[Span], rows: RowColumns) -> str:
    low: dict[str, Any] = {
        "stream": min(span.stream for span in spans),
        "stream_id": min(span.stream_id for span in spans),
        "seq": min(span.first_seq for span in spans),
        "event_no": min(span.first_event for span in spans),
        "ts_ns": min(rows.ts_ns),
    }
    high: dict[str, Any] = {
        "stream": max(span.stream for span in spans),
        "stream_id": max(span.stream_id for span in spans),
        "seq": max(span.last_seq for span in spans),
        "event_no": max(span.last_event for span in spans),
        "ts_ns": max(rows.ts_ns),
    }
    return _compact({"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": _NO_NULLS})


_compact = json.JSONEncoder(separators=(",", ":")).encode


def _list(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_integer(column.type):
        values: list[Any] = np.asarray(column).tolist()
    else:
        values = column.to_pylist()
    return values
