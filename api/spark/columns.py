"""The columns of a message in Spark, and how they are made of the tables' columns. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from api.spark.read_options import OptionError
from delta_store.values.header_fields import header_fields

HEADERS: Final = "headers"
_HEADERS: Final = pa.map_(pa.string(), pa.list_(pa.string()))
_TIME: Final = pa.timestamp("us", tz="UTC")


class _Column(NamedTuple):
    kind: DataType
    source: str | None
    """The column of the tables that it is made of; None for the stream's name."""
    make: Callable[[Any], Any]


def _plain(column: Any) -> Any:
    return column


def _subject(column: Any) -> Any:
    return column.cast(pa.string())


def _time(column: Any) -> Any:
    return pc.divide(column, 1000).cast(_TIME)


def _headers(column: Any) -> Any:
    rows = [None if block is None else list(header_fields(block).items()) for block in column.to_pylist()]
    return pa.array(rows, _HEADERS)


_COLUMNS: Final[Mapping[str, _Column]] = {
    "stream": _Column(StringType(), None, _plain),
    "subject": _Column(StringType(), "subject", _subject),
    "seq": _Column(LongType(), "seq", _plain),
    "time": _Column(TimestampType(), "ts_ns", _time),
    "data": _Column(BinaryType(), "data", _plain),
    HEADERS: _Column(MapType(StringType(), ArrayType(StringType())), "headers", _headers),
    "stream_id": _Column(LongType(), "stream_id", _plain),
    "ts_ns": _Column(LongType(), "ts_ns", _plain),
    "msg_id": _Column(StringType(), "msg_id", _plain),
}
_USUAL: Final = ("stream", "subject", "seq", "time", "data")


def schema_of(*, headers: bool) -> StructType:
    """Return the schema of a read without one of its own."""
    names = (*_USUAL, HEADERS) if headers else _USUAL
    return StructType([StructField(name, _COLUMNS[name].kind) for name in names])


def names_in(schema: StructType) -> tuple[str, ...]:
    """Return the columns that a schema names; raise :class:`OptionError` for one that there is not."""
    for field in schema.fields:
        known = _COLUMNS.get(field.name)
        if known is None or field.dataType.simpleString() != known.kind.simpleString():
            offered = ", ".join(f"{name} {column.kind.simpleString()}" for name, column in _COLUMNS.items())
            raise OptionError(f"the schema asks for {field.name} {field.dataType.simpleString()}; there are {offered}")
    return tuple(schema.fieldNames())


def sources_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the tables that these columns are made of; ``seq`` if none."""
    sources = (_COLUMNS[name].source for name in names)
    return tuple(dict.fromkeys(source for source in sources if source is not None)) or ("seq",)


def batches_of(stream: str, names: Sequence[str], table: Any) -> list[Any]:
    """Return messages of one stream, as :func:`sources_of` has them, as Arrow record batches with these columns."""
    made = [
        pa.array([stream]).take(pa.array([0] * len(table), pa.int32()))
        if _COLUMNS[name].source is None
        else _COLUMNS[name].make(table[_COLUMNS[name].source])
        for name in names
    ]
    batches: list[Any] = pa.table(made, names=list(names)).to_batches()
    return batches
