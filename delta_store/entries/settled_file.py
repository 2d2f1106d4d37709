"""Rows of one folder of ``messages`` as a Parquet file, with exact statistics. Pure: an Arrow table in, bytes out.

Compressed, in row groups small enough that a reader of a few messages decodes few others; each page has a checksum.
"""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from delta_store.entries.staged_file import STATISTICS
from delta_store.values.schemas import MESSAGES_COLUMNS, MESSAGES_PARTITION_COLUMNS

FILE_SCHEMA: Final = pa.schema(
    [(column.name, column.arrow_type) for column in MESSAGES_COLUMNS if column.name not in MESSAGES_PARTITION_COLUMNS]
)
"""The columns of a file: partition values are in the log."""
ROW_GROUP_ROWS: Final = 16 * 1024
STATISTICS_CHARS: Final = 32
"""Longest bound of a string, as Delta's; a longer highest value is cut off and rounded up."""
_REPEATING: Final = ["stream_id", "event_no", "kind", "subject", "first_seq", "evicts", "headers"]
"""Columns worth a dictionary."""
_HIGHEST_CHAR: Final = "\U0010ffff"
_ALMOST_MILLISECOND: Final = timedelta(microseconds=999)


class SettledFile(NamedTuple):
    """A file with the fields of its ``add`` action."""

    body: pa.Buffer
    rows: int
    checksum: int
    """CRC-32 of the body."""
    stats: str
    """Delta's statistics of all of :data:`STATISTICS`, as JSON."""


def encode(rows: pa.Table) -> SettledFile:
    """Encode rows, at least one, with the columns of :data:`FILE_SCHEMA` among theirs, in their order."""
    rows = rows.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows,
        sink,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=_REPEATING,
        write_page_checksum=True,
        store_schema=False,
    )
    body = sink.getvalue()
    return SettledFile(body, rows.num_rows, crc32(body), statistics(rows))


def decode(body: bytes, stream: str, subject_partition: str) -> pa.Table:
    """Decode a file of any engine to the columns of ``messages``; raises what Arrow raises for one that is damaged."""
    with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
        rows = file.read(columns=FILE_SCHEMA.names).select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
    for name, value in zip(MESSAGES_PARTITION_COLUMNS, (stream, subject_partition), strict=True):
        rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()), rows.num_rows))
    return rows


def statistics(rows: pa.Table, names: Sequence[str] = STATISTICS) -> str:
    """Return Delta's statistics of columns: complete, as a reader may skip a file where bounds are missing.

    The columns are of strings, whole numbers, dates and times.
    """
    found = []
    for name in names:
        column = rows[name]
        bounds = pc.min_max(column).as_py() if column.null_count < len(column) else None
        found.append(_Bounds(name, column.null_count, (bounds["min"], bounds["max"]) if bounds else None))
    return _said(rows.num_rows, found)


def statistics_of(metadata: pq.FileMetaData) -> str | None:
    """Return the statistics of :data:`STATISTICS` that a file's own metadata gives; None where one is not in it."""
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found = []
    for name in STATISTICS:
        nulls, bounds = 0, []
        for group in groups:
            told = group.column(places[name]).statistics
            if told is None or not told.has_null_count:
                return None
            nulls += told.null_count
            if told.null_count < group.num_rows:
                if not told.has_min_max:
                    return None
                bounds.append((told.min, told.max))
        ends = (min(low for low, _ in bounds), max(high for _, high in bounds)) if bounds else None
        found.append(_Bounds(name, nulls, ends))
    return _said(metadata.num_rows, found)


class _Bounds(NamedTuple):
    """What a file holds of a column."""

    name: str
    nulls: int
    ends: tuple[Any, Any] | None
    """The lowest and the highest value; None without any."""


def _said(rows: int, columns: Sequence[_Bounds]) -> str:
    said = {
        "numRecords": rows,
        "minValues": {one.name: _lowest(one.ends[0]) for one in columns if one.ends},
        "maxValues": {one.name: _highest(one.ends[1]) for one in columns if one.ends},
        "nullCount": {one.name: one.nulls for one in columns},
    }
    return json.dumps(said, separators=(",", ":"))


def _moment(value: date) -> str:
    """Return a date or time as Delta's statistics have it, which cut off microseconds."""
    if not isinstance(value, datetime):
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _lowest(value: Any) -> Any:
    if isinstance(value, date):
        return _moment(value)
    return value[:STATISTICS_CHARS] if isinstance(value, str) else value


def _highest(value: Any) -> Any:
    """Return the value, or a string at most one character longer than the limit that is not below it.

    A time is not below it either: Delta has its milliseconds.
    """
    if isinstance(value, date):
        return _moment(value + _ALMOST_MILLISECOND if isinstance(value, datetime) else value)
    if not isinstance(value, str) or len(value) <= STATISTICS_CHARS:
        return value
    end = STATISTICS_CHARS
    while end < len(value) and value[end] == _HIGHEST_CHAR:
        end += 1
    return value[:end] + _HIGHEST_CHAR if end < len(value) else value
