"""Rows of a table beside ``messages`` as a Parquet file, with the fields of its ``add`` action. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from delta_store.entries.beside_entry import BesideFile
from delta_store.entries.settled_file import statistics

_ROW_GROUP_ROWS: Final = 64 * 1024


def encode(
    rows: pa.Table,
    path: str,
    *,
    names: Sequence[str],
    partition: Sequence[tuple[str, str]] = (),
    numbered: Collection[str] = (),
) -> tuple[BesideFile, pa.Buffer]:
    """Return the file, to be written to ``path``, and its bytes; ``names`` are the columns with statistics.

    The rows, at least one, are without the columns of ``partition``. Whole numbers in the columns ``numbered`` are near
    those before them and seldom the same: they are written as differences.
    """
    sink = pa.BufferOutputStream()
    others = [name for name in rows.column_names if name not in numbered]
    pq.write_table(
        rows,
        sink,
        row_group_size=_ROW_GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=others if numbered else True,
        column_encoding=dict.fromkeys(numbered, "DELTA_BINARY_PACKED") or None,
        write_page_checksum=True,
        store_schema=False,
        coerce_timestamps="us",
    )
    body = sink.getvalue()
    said = statistics(rows, names)
    return BesideFile(path, body.size, rows.num_rows, crc32(body), said, tuple(partition)), body


def decode(body: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file with these columns; those that the table got later are null."""
    with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
        rows = file.read(columns=[name for name in schema.names if name in file.schema_arrow.names])
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
