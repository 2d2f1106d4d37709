"""The types of a typed table's columns, in Delta and in Arrow. Pure.

Every column is nullable to Delta, as all of Silt's are: what a schema requires is checked before a row is written.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from delta_store.typed.bad_schema import BadSchema

_NOT_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=.`]")
"""What Delta refuses in a column's name without a table feature, and what needs quotes in every query."""


class Scalar(StrEnum):
    """A type without parts; the values are Delta's names."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"


_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class ListType:
    """A list."""

    item: "ColumnType"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map with strings as keys."""

    value: "ColumnType"


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal number."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A named part of a record."""

    name: str
    type: "ColumnType"


@dataclass(frozen=True, slots=True)
class Record:
    """Columns, of a payload or of a part of one."""

    columns: tuple[TypedColumn, ...]


ColumnType = Scalar | DecimalType | ListType | MapType | Record

_ARROW: Final[Mapping[Scalar, pa.DataType]] = {
    Scalar.BOOLEAN: pa.bool_(),
    Scalar.INTEGER: pa.int32(),
    Scalar.LONG: pa.int64(),
    Scalar.FLOAT: pa.float32(),
    Scalar.DOUBLE: pa.float64(),
    Scalar.STRING: pa.string(),
    Scalar.BINARY: pa.binary(),
    Scalar.DATE: pa.date32(),
    Scalar.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


def arrow_type(of: ColumnType) -> pa.DataType:
    """Return the type in Arrow."""
    match of:
        case Scalar():
            return _ARROW[of]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ListType(item):
            return pa.list_(arrow_type(item))
        case MapType(value):
            return pa.map_(pa.string(), arrow_type(value))
        case Record(columns):
            return pa.struct([(column.name, arrow_type(column.type)) for column in columns])


def delta_type(of: ColumnType) -> Any:
    """Return the type as Delta's schema has it: a name, or an object."""
    match of:
        case Scalar():
            return of.value
        case DecimalType(precision, scale):
            return f"decimal({precision},{scale})"
        case ListType(item):
            return {"type": "array", "elementType": delta_type(item), "containsNull": True}
        case MapType(value):
            return {"type": "map", "keyType": "string", "valueType": delta_type(value), "valueContainsNull": True}
        case Record(columns):
            fields = [
                {"name": column.name, "type": delta_type(column.type), "nullable": True, "metadata": {}}
                for column in columns
            ]
            return {"type": "struct", "fields": fields}


def type_of(said: Any) -> ColumnType:
    """Return the type that :func:`delta_type` wrote; raise ``ValueError`` or ``KeyError`` for any other."""
    if isinstance(said, str):
        decimal = _DECIMAL.fullmatch(said)
        return Scalar(said) if decimal is None else DecimalType(int(decimal[1]), int(decimal[2]))
    match said["type"]:
        case "array":
            return ListType(type_of(said["elementType"]))
        case "map":
            return MapType(type_of(said["valueType"]))
        case _:
            return Record(tuple(TypedColumn(one["name"], type_of(one["type"])) for one in said["fields"]))


def schema_string(record: Record) -> str:
    """Return the ``schemaString`` of a Delta table with these columns."""
    return json.dumps(delta_type(record), separators=(",", ":"))


def record_of(schema_text: str) -> Record:
    """Return the columns of a table by its ``schemaString``, as :func:`type_of`."""
    found = type_of(json.loads(schema_text))
    assert isinstance(found, Record)
    return found


def sql_type(of: ColumnType) -> str:
    """Return the type as SQL writes it, to be read by people."""
    match of:
        case Scalar():
            return {"integer": "int", "long": "bigint"}.get(of.value, of.value)
        case DecimalType(precision, scale):
            return f"decimal({precision}, {scale})"
        case ListType(item):
            return f"array<{sql_type(item)}>"
        case MapType(value):
            return f"map<string, {sql_type(value)}>"
        case Record(columns):
            return f"struct<{', '.join(f'{column.name}: {sql_type(column.type)}' for column in columns)}>"


def column_names(names: Iterable[str], *, taken: Iterable[str] = (), where: str = "$") -> dict[str, str]:
    """Return the column of each field of a payload; raise :class:`BadSchema` for two that would share one.

    Engines don't tell upper from lower case in names. A field whose column would be in ``taken`` gets an underscore
    behind it.
    """
    reserved = {name.lower() for name in taken}
    columns: dict[str, str] = {}
    for name in names:
        column = _NOT_IN_NAMES.sub("_", name) or "_"
        columns[name] = column + "_" if column.lower() in reserved else column
    of_column = {column.lower(): name for name, column in columns.items()}
    for name, column in columns.items():
        if (other := of_column[column.lower()]) != name:
            raise BadSchema(f"{where}: the fields {name!r} and {other!r} would be one column of a table; rename one")
    return columns
