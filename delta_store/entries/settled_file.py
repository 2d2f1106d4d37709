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
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in names:
        column = rows[name]
        nulls[name] = column.null_count
        if column.null_count < len(column):
            found = pc.min_max(column).as_py()
            low[name], high[name] = _lowest(found["min"]), _highest(found["max"])
    said = {"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
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
