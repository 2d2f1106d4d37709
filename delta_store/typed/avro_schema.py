"""Avro: a schema's text into a decoder of payloads, each the bytes of one datum without any frame. Pure."""

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import fastavro

from delta_store.typed.bad_schema import BadSchema, PartsLeft
from delta_store.typed.column_types import (
    ColumnType,
    DecimalType,
    ListType,
    MapType,
    Record,
    Scalar,
    TypedColumn,
    column_names,
)
from delta_store.typed.payload_decoder import Misfit

_DEPTH_MAX: Final = 32
_SCALARS: Final = {
    "boolean": Scalar.BOOLEAN,
    "int": Scalar.INTEGER,
    "long": Scalar.LONG,
    "float": Scalar.FLOAT,
    "double": Scalar.DOUBLE,
    "bytes": Scalar.BINARY,
    "string": Scalar.STRING,
    "fixed": Scalar.BINARY,
    "enum": Scalar.STRING,
}
_LOGICAL: Final = {
    "date": Scalar.DATE,
    "timestamp-millis": Scalar.TIMESTAMP,
    "timestamp-micros": Scalar.TIMESTAMP,
    "time-millis": Scalar.STRING,
    "time-micros": Scalar.STRING,
    "uuid": Scalar.STRING,
}
_AS_TEXT: Final = {"time-millis", "time-micros", "uuid"}
Convert = Callable[[Any], Any]
_Shape = tuple[ColumnType, Convert | None]


class AvroDecoder:
    """The decoder of an Avro schema."""

    required: frozenset[str]

    def __init__(self, said: Mapping[str, Any], *, taken: Sequence[str] = ()) -> None:
        """Compile the schema of a record; ``taken`` are names of columns that are no field's. Raises ``BadSchema``."""
        try:
            parsed: Any = fastavro.parse_schema(dict(said))
        except Exception as error:  # noqa: BLE001  # the library raises what it comes across
            raise BadSchema(f"the schema is no Avro schema: {type(error).__name__} {error}") from None
        self._schema, fields = parsed, parsed["fields"]
        names = column_names([field["name"] for field in fields], taken=taken)
        shapes = _Shapes()
        parts = {field["name"]: shapes.shape(field["type"], f"$.{field['name']}", 0) for field in fields}
        self.record = Record(tuple(TypedColumn(names[name], column) for name, (column, _) in parts.items()))
        self.required = frozenset(names[field["name"]] for field in fields if "default" not in field)
        self._converts = {name: convert for name, (_, convert) in parts.items()}

    def decode(self, payload: bytes) -> Any:
        """Return the datum; raise :class:`Misfit`."""
        source = BytesIO(payload)
        try:
            found = fastavro.schemaless_reader(source, self._schema, None)
        except Exception as error:  # noqa: BLE001  # bytes that are no datum make the library fail anyhow
            raise Misfit(f"not of the Avro schema: {type(error).__name__} {error}".rstrip()) from None
        if source.tell() != len(payload):
            raise Misfit(f"{len(payload) - source.tell()} bytes behind the Avro datum")
        return found

    def columns(self, decoded: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the values of each column."""
        return [[_converted(convert, row[name]) for row in decoded] for name, convert in self._converts.items()]


class _Shapes:
    """What the parts of one schema become; named types are known once they were met."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._parts = PartsLeft()

    def shape(self, said: Any, where: str, depth: int) -> _Shape:
        """Return a part's column type, and how its values become what Arrow takes."""
        self._parts.take(where)
        if depth > _DEPTH_MAX:
            raise BadSchema(f"{where}: the schema is nested too deeply, or refers to itself")
        if isinstance(said, list):
            some = [one for one in said if one != "null"]
            if len(some) != 1:
                raise BadSchema(f"{where}: a union of several types has no column; only one of a type and null has")
            return self.shape(some[0], where, depth)
        if isinstance(said, str):
            if said in _SCALARS:
                return _SCALARS[said], None
            if said not in self._named:
                raise BadSchema(f"{where}: {said!r} has no column: it is null, or refers to itself")
            return self.shape(self._named[said], where, depth + 1)
        if said.get("fields", True) == [] or said.get("size", 1) == 0:
            raise BadSchema(f"{where}: a part without any bytes has no column")  # a list of them has no end
        if "name" in said:
            self._named[said["name"]] = said
        return self._complex(said, where, depth)

    def _complex(self, said: Mapping[str, Any], where: str, depth: int) -> _Shape:
        logical = said.get("logicalType")
        if logical == "decimal":
            return DecimalType(said["precision"], said.get("scale", 0)), None
        if logical in _LOGICAL:
            return _LOGICAL[logical], (str if logical in _AS_TEXT else None)
        if logical is not None and logical.startswith("local-timestamp"):
            raise BadSchema(f"{where}: a local timestamp has no column; use timestamp-micros")
        match said["type"]:
            case "array":
                item, convert = self.shape(said["items"], f"{where}[]", depth + 1)
                return ListType(item), lambda values: [_converted(convert, value) for value in values]
            case "map":
                value, convert = self.shape(said["values"], f"{where}.*", depth + 1)
                return MapType(value), lambda found: [(key, _converted(convert, one)) for key, one in found.items()]
            case "record" | "error":
                return self._record(said, where, depth)
            case simple:
                return self.shape(simple, where, depth + 1)

    def _record(self, said: Mapping[str, Any], where: str, depth: int) -> _Shape:
        names = column_names([field["name"] for field in said["fields"]], where=where)
        parts = {
            field["name"]: self.shape(field["type"], f"{where}.{field['name']}", depth + 1) for field in said["fields"]
        }
        columns = tuple(TypedColumn(names[name], column) for name, (column, _) in parts.items())
        return Record(columns), lambda found: {
            names[name]: _converted(convert, found[name]) for name, (_, convert) in parts.items()
        }


def _converted(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)
