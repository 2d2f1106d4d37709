"""A JSON Schema as a table's columns: it takes what the standard takes, and what it can't check it refuses."""

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import arrow_type, record_of, schema_string, sql_type
from delta_store.typed.json_schema import JsonDecoder
from delta_store.typed.payload_decoder import Misfit
from delta_store.typed.typing_terms import decoder_of

NINE = datetime(2013, 1, 1, 9, 0, 0, 500_000, UTC)
NAMES = st.sampled_from(["a", "b", "c d", "é", "time"])
INTEGERS = st.integers(-9, 9) | st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: not value.is_integer())
SCALARS = st.none() | st.booleans() | INTEGERS | FLOATS | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


def _bounded(low: str, high: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={low: st.integers(0, 3), high: st.integers(0, 4)})


def _typed(name: str, extra: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    kinds = st.sampled_from([name, [name, "null"]])
    return st.builds(lambda kind, more: {"type": kind, **more}, kinds, extra)


def _records(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda properties, required, closed: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **({"additionalProperties": False} if closed else {}),
        },
        st.dictionaries(NAMES, inner, min_size=1, max_size=4),
        st.sets(NAMES),
        st.booleans(),
    )


SIMPLE = (
    _typed("integer", _bounded("minimum", "maximum"))
    | _typed("integer", _bounded("exclusiveMinimum", "exclusiveMaximum"))
    | _typed("number", _bounded("minimum", "exclusiveMaximum"))
    | _typed("string", _bounded("minLength", "maxLength"))
    | _typed("boolean", st.just({}))
    | st.just({})
    | st.just({"type": ["integer", "string"]})
    | st.just({"enum": ["a", "b", None]})
    | st.just({"type": "object"})
    | st.just({"anyOf": [{"type": "string"}, {"type": "null"}]})
)
LENGTHS = _bounded("minItems", "maxItems")
SCHEMAS = _records(
    st.recursive(
        SIMPLE,
        lambda inner: (
            st.builds(
                lambda item, more: {"type": "array", "items": item, **more}, inner, _bounded("minItems", "maxItems")
            )
            | st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner)
            | _records(inner)
        ),
        max_leaves=6,
    )
)


@given(SCHEMAS, st.data())
def test_it_takes_what_the_standard_takes(schema: dict[str, Any], data: st.DataObject) -> None:
    """Compared with the package ``jsonschema`` on values with the schema's own names; Arrow holds what is taken."""
    decoder = JsonDecoder(schema, taken=("time",))
    payload = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(schema["properties"], VALUES)) | VALUES)
    expected = jsonschema.Draft202012Validator(schema).is_valid(payload)
    try:
        decoded = [decoder.decode(json.dumps(payload).encode())]
    except Misfit:
        assert not expected
        return
    assert expected
    for column, values in zip(decoder.record.columns, decoder.columns(decoded), strict=True):
        pa.array(values, arrow_type(column.type))
    assert record_of(schema_string(decoder.record)) == decoder.record


def _values(schema: dict[str, Any], payload: object) -> dict[str, Any]:
    decoder = JsonDecoder({"type": "object", "properties": schema}, taken=("time",))
    columns = decoder.columns([decoder.decode(json.dumps(payload).encode())])
    arrays = [
        pa.array(values, arrow_type(one.type)) for one, values in zip(decoder.record.columns, columns, strict=True)
    ]
    found: dict[str, Any] = pa.table(arrays, names=[one.name for one in decoder.record.columns]).to_pylist()[0]
    return found


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        ({"type": "integer"}, 7, 7),
        ({"type": ["number", "null"]}, 7, 7.0),
        ({"type": "number", "format": "float"}, 0.5, 0.5),
        ({"type": "string", "format": "date-time"}, "2013-01-01T10:00:00.5+01:00", NINE),
        ({"type": "string", "format": "date"}, "2013-01-31", date(2013, 1, 31)),
        ({"type": "string", "contentEncoding": "base64"}, "AAE=", b"\0\1"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, [("a", 1)]),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, [["a"], []], [["a"], []]),
        ({"$ref": "#/properties/other"}, {"x": 1}, {"x": 1}),
        ({}, {"any": [1, None]}, '{"any": [1, null]}'),
        ({"type": ["integer", "string"]}, "1", '"1"'),
        ({"type": "object"}, {"b": 1, "a": None}, '{"b":1,"a":null}'),
    ],
)  # fmt: skip
def test_values_have_the_type_of_their_schema(part: dict[str, Any], value: object, expected: object) -> None:
    """And what has no type of its own is JSON text."""
    other = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert _values({"v": part, "other": other}, {"v": value})["v"] == expected


def test_names_of_the_tables_own_columns_are_not_taken() -> None:
    """A field of that name gets an underscore; one that no engine takes unquoted is changed."""
    assert list(_values({"Time": {}, "a b": {}, "x.y": {}}, {})) == ["Time_", "a_b", "x_y"]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b'{"n":1} {"n":2}', "trailing"),
        (b'{"n":9223372036854775808}', "<= 9223372036854775807"),
        (b'{"n":1.5}', "Expected `int`, got `float` - at `$.n`"),
        (b'{"t":"2013-02-30T00:00:00Z"}', "RFC3339"),
        (b'{"t":"2013-01-01T00:00:00"}', "timezone"),
        (b'{"n":null}', "got `null`"),
        (b'{"l":[{"x":1},{"x":"y"}]}', "at `$.l[1].x`"),
        (b'{"s":"\xff"}', "utf-8"),
        (b'{"a":' + b"[" * 100_000, "recursion"),
    ],
)
def test_a_misfit_is_told_with_its_place(payload: bytes, reason: str) -> None:
    """By name and position."""
    item = {"type": "object", "properties": {"x": {"type": "integer"}}}
    properties = {
        "n": {"type": "integer"},
        "t": {"type": "string", "format": "date-time"},
        "l": {"type": "array", "items": item},
        "s": {"type": "string"},
        "a": {},
    }
    decoder = JsonDecoder({"type": "object", "properties": properties})
    with pytest.raises(Misfit) as caught:
        decoder.decode(payload)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"type": "text"}, "'text' is no type of JSON"),
        ({"not": {}}, "'not' is not checked by Silt"),
        ({"type": "null"}, "a column of nulls has no type"),
        ({"$ref": "#/nowhere"}, "there is no #/nowhere"),
        ({"$ref": "https://example.com/x"}, "only references inside the schema"),
        ({"$ref": "#/properties/v"}, "refers to itself"),
        ({"type": "object", "properties": {"w": {"$ref": "#/properties/v"}}}, "refers to itself"),
        ({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}, "alternatives have no column"),
        ({"allOf": [{"type": "integer"}, {"minimum": 1}]}, "'allOf' of several"),
        ({"enum": [1, "a"]}, "all strings or all whole numbers"),
        ({"type": "string", "pattern": "("}, "no regular expression"),
        ({"type": "string", "pattern": "(?=a)"}, "no regular expression of RE2"),
        ({"type": "integer", "minimum": "1"}, "'minimum' is no number"),
        ({"type": "string", "maxLength": 1.5}, "'maxLength' is no whole number"),
        ({"type": "object", "properties": {"a": {}, "A": {}}}, "rename one"),
        (5, "no schema, but 5"),
    ],
)
def test_a_schema_that_is_not_kept_whole_is_refused(part: object, reason: str) -> None:
    """With the place and the keyword."""
    with pytest.raises(BadSchema) as caught:
        JsonDecoder({"type": "object", "properties": {"v": part}})
    assert reason in str(caught.value)
    assert str(caught.value).startswith("$.v")


def test_a_pattern_takes_bounded_time() -> None:
    """Also where Python's own regular expressions would not end; with lengths, and inside lists."""
    part = {"type": "string", "pattern": "^(a+)+$", "minLength": 2, "maxLength": 4_000}
    schema = {
        "type": "object",
        "properties": {"v": {"type": "array", "items": part}, "w": {**part, "type": ["string", "null"]}},
    }
    decoder = JsonDecoder(schema)
    assert decoder.columns([decoder.decode(b'{"v":["aa"],"w":null}')]) == [(["aa"],), (None,)]
    for value in ("a" * 3_000 + "!", "a", 5, None):
        with pytest.raises(Misfit, match=r"at `\$\.v\[0\]`"):
            decoder.decode(json.dumps({"v": [value]}).encode())


def test_a_short_schema_of_many_parts_is_refused() -> None:
    """References are not followed without end."""
    parts = {
        f"p{n}": {"type": "object", "properties": {k: {"$ref": f"#/$defs/p{n + 1}"} for k in "ab"}} for n in range(25)
    }
    schema = {"type": "object", "properties": {"v": {"$ref": "#/$defs/p0"}}, "$defs": {**parts, "p25": {}}}
    with pytest.raises(BadSchema, match="more than 5000 parts"):
        JsonDecoder(schema)


@pytest.mark.parametrize("text", ["{", "[]", "5", "{}", '{"type":"string"}', '{"type":"object"}'])
def test_only_an_objects_schema_makes_a_table(text: str) -> None:
    """With its properties."""
    with pytest.raises(BadSchema, match="schema"):
        decoder_of(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_their_bits(value: float) -> None:
    """As Python reads them."""
    found = _values({"v": {"type": "number"}}, {"v": value})["v"]
    assert math.copysign(1, found) == math.copysign(1, value)
    assert found == value


def test_types_are_told_as_sql_has_them() -> None:
    """For people."""
    schema = {
        "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "i": {"type": "integer", "format": "int32"},
    }
    decoder = JsonDecoder({"type": "object", "properties": schema})
    assert sql_type(decoder.record) == "struct<l: array<bigint>, m: map<string, string>, i: int>"
