"""A commit's rows as one Parquet file, and back. Pure: bytes in, bytes out.

The file is uncompressed and built column by column, never row by row: it is on the way of every acknowledgement.
Three checksums guard it: one per page (any Parquet reader can verify it), one per row (column ``crc``, travels with
the row into ``messages``), and one over the whole file, which the log entry carries. Invariant: bytes that were
altered after they were written are reported, never returned as rows.
"""

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delta_store.records import RowColumns
from delta_store.schemas import JOURNAL_SCHEMA

_DICTIONARY_ROWS_MIN: Final = 64
"""Below it dictionaries cost more than they save."""
_DICTIONARY_COLUMNS: Final = ("stream", "kind", "subject")
_NO_NULLS: Final = {field.name: 0 for field in JOURNAL_SCHEMA}


class DamagedFile(ValueError):
    """The bytes are not those of a journal file as it was written; the text says why."""


class Span(NamedTuple):
    """Which part of a stream a file holds: the positions of its first and last row of that stream."""

    stream: str
    stream_id: int
    first_seq: int
    first_event: int
    last_seq: int
    last_event: int


class EncodedFile(NamedTuple):
    """A journal file and what its log entry says of it."""

    body: pa.Buffer
    rows: int
    checksum: int
    """CRC-32 of ``body``."""
    spans: tuple[Span, ...]
    stats: str
    """Delta's per-file statistics, as JSON."""


def encode(rows: RowColumns) -> EncodedFile:
    """Build the Parquet file of a group; ``rows`` must not be empty and each stream's rows must be in order."""
    times = _integers(rows.ts_ns)
    msg_ids, headers = pa.array(rows.msg_id, pa.string()), pa.array(rows.headers, pa.binary())
    columns = [
        _strings(rows.stream),
        _integers(rows.stream_id),
        _integers(rows.seq),
        _integers(rows.event_no),
        _strings(rows.kind),
        pa.array(rows.subject, pa.string()),
        times,
        msg_ids,
        _integers(rows.first_seq),
        _integers(rows.evicts),
        headers,
        pa.array(rows.data, pa.binary()),
        _integers(checksums(rows)),
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.Table.from_arrays(columns, schema=JOURNAL_SCHEMA),
        sink,
        row_group_size=len(rows),
        compression="none",
        use_dictionary=list(_DICTIONARY_COLUMNS) if len(rows) >= _DICTIONARY_ROWS_MIN else False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    body = sink.getvalue()
    spans = spans_of(rows)
    nulls = {"msg_id": msg_ids.null_count, "headers": headers.null_count}
    return EncodedFile(body, len(rows), crc32(body), spans, _stats(spans, times, _NO_NULLS | nulls))


def decode(body: pa.Buffer | bytes, *, size: int, checksum: int) -> RowColumns:
    """Read a journal file back; raises :class:`DamagedFile` unless it is what was written, down to each row."""
    table = decode_table(body, size=size, checksum=checksum)
    rows = columns_of(table)
    if checksums(rows) != _list(table["crc"]):
        raise DamagedFile("a row's checksum does not match its content")
    return rows


def decode_table(body: pa.Buffer | bytes, *, size: int, checksum: int) -> pa.Table:
    """The file as an Arrow table, its bytes verified as a whole; raises :class:`DamagedFile`."""
    if len(body) != size:
        raise DamagedFile(f"{len(body)} bytes, its log entry says {size}")
    if crc32(body) != checksum:
        raise DamagedFile("its content does not match the checksum in its log entry")
    try:
        with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        raise DamagedFile(f"not a readable Parquet file: {error}") from error
    if table.column_names != JOURNAL_SCHEMA.names:
        raise DamagedFile(f"unexpected columns {table.column_names}")
    return table


def columns_of(table: pa.Table) -> RowColumns:
    """The rows of a table with the journal's columns."""
    return RowColumns(**{name: _list(table[name]) for name in RowColumns.__slots__})


def checksums(rows: RowColumns) -> list[int]:
    """:func:`delta_store.records.checksum` of each row, without a Python frame per row."""
    of_subject = {subject: crc32(subject.encode()) for subject in set(rows.subject)}
    running: Iterable[int] = map(of_subject.__getitem__, rows.subject)
    without = rows.headers.count(None)
    if without < len(rows):
        headers = [block or b"" for block in rows.headers] if without else rows.headers
        running = map(crc32, headers, running)  # type: ignore[arg-type]  # None has been counted out
    return list(map(crc32, rows.data, running))


def spans_of(rows: RowColumns) -> tuple[Span, ...]:
    """The part of each stream that the rows hold, in order of first appearance."""
    ids, total = rows.stream_id, len(rows)
    if ids.count(ids[0]) == total:
        ends = {ids[0]: (0, total - 1)}
    else:
        last = dict(zip(ids, range(total), strict=True))
        first = dict(zip(reversed(ids), range(total - 1, -1, -1), strict=True))
        ends = {stream_id: (first[stream_id], last[stream_id]) for stream_id in last}
    return tuple(
        Span(rows.stream[low], stream_id, rows.seq[low], rows.event_no[low], rows.seq[high], rows.event_no[high])
        for stream_id, (low, high) in ends.items()
    )


def _integers(values: Sequence[int]) -> pa.Array:
    total = len(values)
    repeats = total > 1 and values.count(values[0]) == total
    buffer = array("q", values[:1]) * total if repeats else array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(buffer)])


def _strings(values: Sequence[str]) -> pa.Array:
    """For columns that mostly repeat one value."""
    if len(values) > 1 and values.count(values[0]) == len(values):
        return pa.repeat(values[0], len(values))
    return pa.array(values, pa.string())


def _stats(spans: Sequence[Span], times: pa.Array, nulls: Mapping[str, int]) -> str:
    ts_ns = np.asarray(times)
    low: dict[str, Any] = {
        "stream": min(span.stream for span in spans),
        "stream_id": min(span.stream_id for span in spans),
        "seq": min(span.first_seq for span in spans),
        "event_no": min(span.first_event for span in spans),
        "ts_ns": int(ts_ns.min()),
    }
    high: dict[str, Any] = {
        "stream": max(span.stream for span in spans),
        "stream_id": max(span.stream_id for span in spans),
        "seq": max(span.last_seq for span in spans),
        "event_no": max(span.last_event for span in spans),
        "ts_ns": int(ts_ns.max()),
    }
    return json.dumps(
        {"numRecords": len(times), "minValues": low, "maxValues": high, "nullCount": nulls}, separators=(",", ":")
    )


def _list(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_integer(column.type):
        values: list[Any] = np.asarray(column).tolist()
    else:
        values = column.to_pylist()
    return values
