"""Arrow's IPC stream and Parquet: the formats that keep every type."""

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from api.formats.byte_sink import ByteSink
from api.formats.encoding import Encoder
from api.formats.table_format import TableFormat

_GROUP_ROWS: Final = 65_536
_GROUP_BYTES: Final = 16 * 1024 * 1024
"""Rows, or bytes in memory, at which a row group of Parquet is written: the most that is held."""


class ArrowStream:
    """An encoder of Arrow's IPC stream."""

    def __init__(self, schema: Any) -> None:
        self._schema, self._sink = schema, ByteSink()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def add(self, batch: Any) -> bytes:
        """Return the batch as a message of the stream."""
        self._writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        return self._sink.take()

    def end(self) -> bytes:
        """Return the end of the stream, and the schema if nothing was added."""
        self._writer.close()
        return self._sink.take()


class ParquetFile:
    """An encoder of a Parquet file; it holds the rows of one row group."""

    def __init__(self, schema: Any) -> None:
        self._schema, self._sink = schema, ByteSink()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd")
        self._gathered: list[Any] = []
        self._rows = self._bytes = 0

    def add(self, batch: Any) -> bytes:
        """Return a row group once there are enough rows for one."""
        self._gathered.append(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
        self._rows, self._bytes = self._rows + len(batch), self._bytes + batch.nbytes
        if self._rows >= _GROUP_ROWS or self._bytes >= _GROUP_BYTES:
            self._write()
        return self._sink.take()

    def end(self) -> bytes:
        """Return the last row group and the footer."""
        self._write()
        self._writer.close()
        return self._sink.take()

    def _write(self) -> None:
        if self._gathered:
            self._writer.write_table(pa.Table.from_batches(self._gathered))
        self._gathered, self._rows, self._bytes = [], 0, 0


ENCODERS: Final[dict[TableFormat, Callable[[Any], Encoder]]] = {
    TableFormat.ARROW: ArrowStream,
    TableFormat.PARQUET: ParquetFile,
}
