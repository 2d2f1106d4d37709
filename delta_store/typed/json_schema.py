"""JSON Schema: a schema's text into a decoder that checks payloads as it decodes them. Pure.

Every keyword either holds for what is stored or is refused here, so that no one relies on a rule that is not checked;
keywords that only describe are passed over. What has no type of its own in a table, as a value of several types, is a
column of JSON text.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Raw

from delta_store.typed.bad_schema import BadSchema, PartsLeft
from delta_store.typed.column_types import ColumnType, ListType, MapType, Record, Scalar, TypedColumn, column_names
from delta_store.typed.payload_decoder import Misfit

_LONG: Final = (-(1 << 63), (1 << 63) - 1)
_DEPTH_MAX: Final = 32
_REFUSED: Final = frozenset(
    {"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"}
    | {"patternProperties", "propertyNames", "unevaluatedProperties", "minProperties", "maxProperties"}
    | {"unevaluatedItems", "uniqueItems", "contains", "minContains", "maxContains", "prefixItems", "additionalItems"}
    | {"$dynamicRef", "$recursiveRef"}
)
"""Keywords that restrict a payload and are not checked."""
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_TYPES: Final = ("object", "array", "string", "integer", "number", "boolean", "null")
_JSON_TYPES: Final = {
    "object": dict[str, Any],
    "array": list[Any],
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
}

Node = Mapping[str, Any]
Convert = Callable[[Any], Any]


class _Shape(NamedTuple):
    """What a part of a schema becomes."""

    column: ColumnType
    python: Any
    """The type that msgspec decodes it to."""
    convert: Convert | None = None
    """From that to what Arrow takes; None where it is the same. Not called for None."""
    nullable: bool = False

    @property
    def decoded(self) -> Any:
        """The type with null, where that is allowed."""
        return self.python | None if self.nullable else self.python


class JsonDecoder:
    """The decoder of a JSON Schema."""

    def __init__(self, schema: Node, *, taken: Sequence[str] = ()) -> None:
        """Compile the schema of an object; ``taken`` are names of columns that are no field's. Raises ``BadSchema``."""
        shape, self.required = _Compiler(schema).root(taken)
        assert isinstance(shape.column, Record)
        self.record = shape.column
        self._decode = msgspec.json.Decoder(shape.python, dec_hook=_matching).decode
        self._converts: list[Convert | None] = [part.convert for part in _parts(shape)]

    def decode(self, payload: bytes) -> Any:
        """Return the payload as a struct; raise :class:`Misfit`."""
        try:
            return self._decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Misfit(str(error)) from None

    def columns(self, decoded: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the values of each column."""
        if not decoded:
            return [() for _ in self._converts]
        columns = zip(*map(msgspec.structs.astuple, decoded), strict=True)
        return [
            values if convert is None else [None if value is None else convert(value) for value in values]
            for convert, values in zip(self._converts, columns, strict=True)
        ]


class _Compiler:
    """The compiler of one schema."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._parts = PartsLeft()

    def root(self, taken: Sequence[str]) -> tuple[_Shape, frozenset[str]]:
        """Return the shape of a payload, and the columns that must be there."""
        node = self._resolved(self._root, "$")
        if node.get("type") != "object" or not (node.get("properties") or node.get("required")):
            raise BadSchema('the schema must be of an object: {"type": "object", "properties": {…}}')
        columns = _columns_of(node, "$", taken)
        return self._struct(node, "$", columns), frozenset(columns[name] for name in node.get("required", ()))

    def shape(self, node: Any, where: str) -> _Shape:
        """Return the shape of a part."""
        self._parts.take(where)
        if where.count(".") + where.count("[") > _DEPTH_MAX:
            raise BadSchema(f"{where}: the schema is nested too deeply, or refers to itself")
        node = self._resolved(node, where)
        types, nullable = _types_of(node, where)
        if "enum" in node or "const" in node:
            return _enumerated(node, types, where, nullable=nullable)
        if types == {"integer", "number"}:
            types = {"number"}
        if not types:
            return _Shape(Scalar.STRING, Raw, _raw_text, nullable=False)
        if len(types) > 1:
            either = reduce(or_, [_JSON_TYPES[one] for one in sorted(types)])
            return _Shape(Scalar.STRING, either, _json_text, nullable)
        return self._single(next(iter(types)), node, where)._replace(nullable=nullable)

    def _single(self, name: str, node: Node, where: str) -> _Shape:
        match name:
            case "object":
                return self._object(node, where)
            case "array":
                item = self.shape(node.get("items", {}), f"{where}[]")
                lengths = _meta(node, where, min_length="minItems", max_length="maxItems")
                return _Shape(ListType(item.column), Annotated[list[item.decoded], lengths], _each(item))  # type: ignore[name-defined]
            case "string":
                return _string(node, where)
            case "integer":
                small = node.get("format") == "int32"
                return _Shape(Scalar.INTEGER if small else Scalar.LONG, _limited(int, _integer_bounds(node, where)))
            case "number":
                small = node.get("format") == "float"
                return _Shape(Scalar.FLOAT if small else Scalar.DOUBLE, _limited(float, _bounds(node, where)))
            case _:
                return _Shape(Scalar.BOOLEAN, bool)

    def _object(self, node: Node, where: str) -> _Shape:
        others = node.get("additionalProperties", True)
        if node.get("properties") or node.get("required"):
            return self._struct(node, where, _columns_of(node, where))
        if isinstance(others, dict) and others:
            value = self.shape(others, f"{where}.*")
            return _Shape(MapType(value.column), dict[str, value.decoded], _pairs(value))  # type: ignore[name-defined]
        return _Shape(Scalar.STRING, dict[str, Raw], _object_text)

    def _struct(self, node: Node, where: str, columns: Mapping[str, str]) -> _Shape:
        others = node.get("additionalProperties", True)
        if not isinstance(others, bool):
            raise BadSchema(f"{where}: properties and a schema of additionalProperties can't both be columns")
        fields, properties = [], {name: {} for name in node.get("required", ())} | dict(node.get("properties", {}))
        shapes = {name: self.shape(properties[name], f"{where}.{name}") for name in columns}
        for number, (name, shape) in enumerate(shapes.items()):
            field = f"f{number}"
            fields.append((field, shape.decoded) if name in node.get("required", ()) else (field, shape.decoded, None))
        names = {f"f{number}": name for number, name in enumerate(columns)}
        struct = msgspec.defstruct(
            "Payload", fields, rename=names, kw_only=True, forbid_unknown_fields=not others, gc=False
        )
        record = Record(tuple(TypedColumn(columns[name], shape.column) for name, shape in shapes.items()))
        return _Shape(record, struct, _Struct([*columns.values()], list(shapes.values())))

    def _resolved(self, node: Any, where: str) -> Node:
        """Return a part with its reference, or the one alternative beside null, in its place."""
        if node is True:
            return {}
        if not isinstance(node, dict):
            raise BadSchema(f"{where}: no schema, but {json.dumps(node)}")
        for _ in range(_DEPTH_MAX):
            if refused := sorted(_REFUSED & node.keys()):
                raise BadSchema(f"{where}: {refused[0]!r} is not checked by Silt; leave it out")
            rest = {key: value for key, value in node.items() if key not in ("$ref", "allOf", *_ALTERNATIVES)}
            if "$ref" in node:
                node = {**self._referred(node["$ref"], where), **rest}
            elif "allOf" in node:
                if len(node["allOf"]) != 1:
                    raise BadSchema(f"{where}: 'allOf' of several schemas is not checked by Silt; write them as one")
                node = {**node["allOf"][0], **rest}
            elif any(key in node for key in _ALTERNATIVES):
                node = {**self._alternative(node, where), **rest}
            else:
                return dict(node)
        raise BadSchema(f"{where}: the schema refers to itself")

    def _referred(self, ref: Any, where: str) -> Node:
        found: Any = self._root
        if not isinstance(ref, str) or not ref.startswith("#/"):
            raise BadSchema(f"{where}: only references inside the schema (#/…) are followed, not {json.dumps(ref)}")
        for part in (part.replace("~1", "/").replace("~0", "~") for part in ref[2:].split("/")):
            if not isinstance(found, dict) or part not in found:
                raise BadSchema(f"{where}: there is no {ref}")
            found = found[part]
        if not isinstance(found, dict):
            raise BadSchema(f"{where}: {ref} is no schema")
        return found

    def _alternative(self, node: Node, where: str) -> Node:
        """Return the one schema beside null, or the list of types if that is all that the alternatives say."""
        options = [self._resolved(one, where) for key in _ALTERNATIVES for one in node.get(key, ())]
        values = [one for one in options if one.get("type") != "null"]
        null = ["null"] if len(values) < len(options) else []
        if len(values) == 1:
            types, nullable = _types_of(values[0], where)
            return {**values[0], "type": [*sorted(types), *(null or ["null"] * nullable)]} if types else values[0]
        if values and all(one.keys() == {"type"} for one in values):
            return {"type": sorted({name for one in values for name in _types_of(one, where)[0]}) + null}
        raise BadSchema(
            f"{where}: alternatives have no column of their own; give the types alone, or none, to keep it as JSON text"
        )


class _Struct:
    """Converts a struct to a mapping of its columns."""

    def __init__(self, names: list[str], parts: list[_Shape]) -> None:
        self.names, self.parts = names, parts

    def __call__(self, value: Any) -> dict[str, Any]:
        fields = zip(self.names, self.parts, msgspec.structs.astuple(value), strict=True)
        return {name: _converted(part, one) for name, part, one in fields}


def _parts(shape: _Shape) -> list[_Shape]:
    assert isinstance(shape.convert, _Struct)
    return shape.convert.parts


def _converted(shape: _Shape, value: Any) -> Any:
    return value if shape.convert is None or value is None else shape.convert(value)


def _each(item: _Shape) -> Convert | None:
    return None if item.convert is None else lambda values: [_converted(item, value) for value in values]


def _pairs(value: _Shape) -> Convert:
    return lambda found: [(key, _converted(value, one)) for key, one in found.items()]


def _raw_text(value: Raw) -> str | None:
    text = bytes(value).decode()
    return None if text == "null" else text


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _object_text(value: Mapping[str, Raw]) -> str:
    return "{" + ",".join(f"{_json_text(key)}:{bytes(one).decode()}" for key, one in value.items()) + "}"


def _columns_of(node: Node, where: str, taken: Sequence[str] = ()) -> dict[str, str]:
    properties, required = node.get("properties", {}), node.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise BadSchema(f"{where}: 'properties' is an object, 'required' a list of names")
    return column_names({**properties, **dict.fromkeys(required)}, taken=taken, where=where)


def _types_of(node: Node, where: str) -> tuple[set[str], bool]:
    """Return the types of a part but null, and whether that is one."""
    said = node.get("type", [])
    types = {said} if isinstance(said, str) else set(said)
    if unknown := types - set(_TYPES):
        raise BadSchema(f"{where}: {min(unknown)!r} is no type of JSON")
    if types == {"null"}:
        raise BadSchema(f"{where}: a column of nulls has no type")
    return types - {"null"}, "null" in types


def _enumerated(node: Node, types: set[str], where: str, *, nullable: bool) -> _Shape:
    values = [node["const"]] if "const" in node else node["enum"]
    some = [value for value in values if value is not None]
    nullable = None in values and (nullable or not types)
    for python, name, column in ((str, "string", Scalar.STRING), (int, "integer", Scalar.LONG)):
        if some and all(type(value) is python for value in some) and (not types or types & {name, "number"}):
            return _Shape(column, Literal[tuple(some)], None, nullable)
    raise BadSchema(f"{where}: the values of an enum must be all strings or all whole numbers, of the part's type")


def _string(node: Node, where: str) -> _Shape:
    form = node.get("format")
    if form == "date-time":
        return _Shape(Scalar.TIMESTAMP, Annotated[datetime, Meta(tz=True)])
    if form == "date":
        return _Shape(Scalar.DATE, date)
    if node.get("contentEncoding") == "base64":
        return _Shape(Scalar.BINARY, bytes)
    lengths = _meta(node, where, min_length="minLength", max_length="maxLength")
    if "pattern" not in node:
        return _Shape(Scalar.STRING, Annotated[str, lengths])
    try:
        pc.match_substring_regex(pa.scalar(""), node["pattern"])
    except (pa.ArrowInvalid, TypeError) as error:
        raise BadSchema(f"{where}: the pattern is no regular expression of RE2: {error}") from None
    bounds = (lengths.min_length or 0, lengths.max_length)
    return _Shape(Scalar.STRING, type("Matching", (_Matching,), {"pattern": node["pattern"], "lengths": bounds}))


class _Matching(str):
    """A string that has a pattern, found by RE2, whose time is bounded whatever pattern and text are."""

    __slots__ = ()
    pattern: str
    lengths: tuple[int, int | None]


def _matching(of: type, value: Any) -> Any:
    """Return a value as a subclass of :class:`_Matching`; msgspec makes an error with the place out of a ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"Expected `str`, got `{type(value).__name__}`")  # noqa: TRY004  # what msgspec takes
    low, high = of.lengths  # type: ignore[attr-defined]
    if len(value) < low or (high is not None and len(value) > high):
        raise ValueError(f"Expected `str` of length {low} to {high}")
    if not pc.match_substring_regex(pa.scalar(value), of.pattern).as_py():  # type: ignore[attr-defined]
        raise ValueError(f"Expected `str` matching regex {of.pattern!r}")  # type: ignore[attr-defined]
    return of(value)


def _meta(node: Node, where: str, *, min_length: str, max_length: str) -> Meta:
    for key in (min_length, max_length):
        if not isinstance(node.get(key, 0), int):
            raise BadSchema(f"{where}: {key!r} is no whole number")
    return Meta(min_length=node.get(min_length), max_length=node.get(max_length))


def _limited(python: type, limits: Mapping[str, Any]) -> Any:
    meta: Any = Meta
    return Annotated[python, meta(**limits)]


def _bounds(node: Node, where: str) -> dict[str, float]:
    """Return the bounds of a number, by msgspec's names: of two on one side, the narrower."""
    found = {}
    for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"):
        if key in node and (isinstance(node[key], bool) or not isinstance(node[key], int | float)):
            raise BadSchema(f"{where}: {key!r} is no number")
    low, above = node.get("minimum", -math.inf), node.get("exclusiveMinimum", -math.inf)
    high, below = node.get("maximum", math.inf), node.get("exclusiveMaximum", math.inf)
    if max(low, above) > -math.inf:
        found["gt" if above >= low else "ge"] = max(low, above)
    if min(high, below) < math.inf:
        found["lt" if below <= high else "le"] = min(high, below)
    if "multipleOf" in node:
        found["multiple_of"] = node["multipleOf"]
    return found


def _integer_bounds(node: Node, where: str) -> dict[str, int]:
    """Return the bounds of a whole number, which are no wider than its column."""
    lowest, highest = (-(1 << 31), (1 << 31) - 1) if node.get("format") == "int32" else _LONG
    said = _bounds(node, where)
    low = math.ceil(said["ge"]) if "ge" in said else math.floor(said["gt"]) + 1 if "gt" in said else lowest
    high = math.floor(said["le"]) if "le" in said else math.ceil(said["lt"]) - 1 if "lt" in said else highest
    found = {"ge": max(low, lowest), "le": min(high, highest)}
    if "multiple_of" not in said:
        return found
    if not float(said["multiple_of"]).is_integer():
        raise BadSchema(f"{where}: 'multipleOf' of a whole number is no whole number")
    return found | {"multiple_of": int(said["multiple_of"])}
