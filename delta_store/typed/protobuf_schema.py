"""Protobuf: a message of a FileDescriptorSet into a decoder of payloads, each the bytes of one message. Pure."""

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from delta_store.typed.bad_schema import BadSchema, PartsLeft
from delta_store.typed.column_types import ColumnType, ListType, MapType, Record, Scalar, TypedColumn, column_names
from delta_store.typed.payload_decoder import Misfit

_DEPTH_MAX: Final = 32
_WELL_KNOWN: Final = "google.protobuf."
_BOOL, _BYTES, _STRING, _ENUM, _MESSAGE, _GROUP = 8, 12, 9, 14, 11, 10
_SCALARS: Final = {
    1: Scalar.DOUBLE,
    2: Scalar.FLOAT,
    3: Scalar.LONG,
    4: Scalar.LONG,
    5: Scalar.INTEGER,
    6: Scalar.LONG,
    7: Scalar.LONG,
    _BOOL: Scalar.BOOLEAN,
    _STRING: Scalar.STRING,
    _BYTES: Scalar.BINARY,
    13: Scalar.LONG,
    _ENUM: Scalar.STRING,
    15: Scalar.INTEGER,
    16: Scalar.LONG,
    17: Scalar.INTEGER,
    18: Scalar.LONG,
}
"""By the numbers of ``FieldDescriptor.type``; what is unsigned and has 64 bits is a misfit beyond 63."""
_WRAPPERS: Final = {"DoubleValue", "FloatValue", "Int64Value", "UInt64Value", "Int32Value", "UInt32Value"} | {
    "BoolValue",
    "StringValue",
    "BytesValue",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Convert = Callable[[Any], Any]
_Shape = tuple[ColumnType, Convert | None]


class ProtobufDecoder:
    """The decoder of a message."""

    required: frozenset[str]

    def __init__(self, descriptors: str, message: str, *, taken: Sequence[str] = ()) -> None:
        """Compile a base64 FileDescriptorSet with all imports; ``taken`` as elsewhere. Raises ``BadSchema``."""
        pool = DescriptorPool()
        try:
            for file in FileDescriptorSet.FromString(b64decode(descriptors, validate=True)).file:
                pool.Add(file)
            found = pool.FindMessageTypeByName(message)
        except (NotBase64, DecodeError, TypeError) as error:
            raise BadSchema(f"the schema is no base64 FileDescriptorSet with its imports: {error}") from None
        except KeyError:
            raise BadSchema(f"the FileDescriptorSet has no message {message!r}") from None
        self._parse = GetMessageClass(found).FromString
        self._fields = list(found.fields)
        names = column_names([field.name for field in self._fields], taken=taken)
        parts = PartsLeft()
        shapes = [_field_shape(field, f"$.{field.name}", parts) for field in self._fields]
        self.record = Record(
            tuple(TypedColumn(names[field.name], shape[0]) for field, shape in zip(self._fields, shapes, strict=True))
        )
        self.required = frozenset(names[field.name] for field in self._fields if field.is_required)
        self._converts = [convert for _, convert in shapes]

    def decode(self, payload: bytes) -> Any:
        """Return the message; raise :class:`Misfit`."""
        try:
            found = self._parse(payload)
        except (DecodeError, UnicodeDecodeError) as error:
            raise Misfit(f"not of the Protobuf message: {error}") from None
        if not found.IsInitialized():
            raise Misfit(f"missing required fields: {', '.join(found.FindInitializationErrors())}")
        return found

    def columns(self, decoded: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the values of each column."""
        return [
            [_value(field, convert, message) for message in decoded]
            for field, convert in zip(self._fields, self._converts, strict=True)
        ]


def _value(field: Any, convert: Convert | None, message: Any) -> Any:
    """Return the value of a field; None for one that is not set, where that can be told."""
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    return value if convert is None else convert(value)


def _field_shape(field: Any, where: str, parts: PartsLeft) -> _Shape:
    parts.take(where)
    if where.count(".") > _DEPTH_MAX:
        raise BadSchema(f"{where}: the message is nested too deeply, or has itself in it")
    if not field.is_repeated:
        return _one(field, where, parts)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        of, convert = _one(value, f"{where}.*", parts)
        as_text: Convert = str if key.type != _STRING else _same
        change = convert or _same
        return MapType(of), lambda found: [(as_text(name), change(one)) for name, one in found.items()]
    of, convert = _one(field, f"{where}[]", parts)
    change = convert or _same
    return ListType(of), lambda values: [change(value) for value in values]


def _one(field: Any, where: str, parts: PartsLeft) -> _Shape:
    """Return the shape of a single value of a field."""
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Scalar.STRING, lambda number: names.get(number, str(number))
    if field.type not in (_MESSAGE, _GROUP):
        return _SCALARS[field.type], None
    message = field.message_type
    if message.full_name.startswith(_WELL_KNOWN):
        return _well_known(message, where, parts)
    return _message(message, where, parts)


def _well_known(message: Any, where: str, parts: PartsLeft) -> _Shape:
    match message.name:
        case "Timestamp":
            return Scalar.TIMESTAMP, lambda at: _EPOCH + timedelta(seconds=at.seconds, microseconds=at.nanos // 1000)
        case "Struct" | "Value" | "ListValue":
            return Scalar.STRING, lambda found: json_format.MessageToJson(found, indent=None)
        case name if name in _WRAPPERS:
            return _one(message.fields_by_name["value"], where, parts)[0], lambda found: found.value
        case _:
            return _message(message, where, parts)


def _message(message: Any, where: str, parts: PartsLeft) -> _Shape:
    names = column_names([field.name for field in message.fields], where=where)
    fields = [(field, *_field_shape(field, f"{where}.{field.name}", parts)) for field in message.fields]
    if not fields:
        raise BadSchema(f"{where}: a message without fields has no column")
    columns = tuple(TypedColumn(names[field.name], of) for field, of, _ in fields)
    return Record(columns), lambda found: {
        names[field.name]: _value(field, convert, found) for field, _, convert in fields
    }


def _same(value: Any) -> Any:
    return value
