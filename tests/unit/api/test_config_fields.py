"""The fields of configurations: each is decoded, kept, shown in its place and recorded, and none is missing."""

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import get_annotations
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import pytest

from api.jetstream.consumer_info import config_json
from api.jetstream.request_shapes import CONSUMER_CONFIG, CONSUMER_CREATE_REQUEST, STREAM_CONFIG_REQUEST
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import drafted
from delta_store.config.api_errors import ApiRefusal, stream_invalid_config
from delta_store.config.field_tags import (
    RefusedChange,
    Tag,
    check_changes,
    level_needed,
    raised_to_least,
    read_fields,
    show_fields,
    tags,
)
from delta_store.config.field_tags import shapes as shapes_of
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect import json_shapes as shapes

ROOT = Path(__file__).parents[3]
ROOMS = ("api", "conf", "consumers", "delta_store", "ingest")
SCHEMAS = ROOT / "tests" / "schemas"
FIELDS = {*tags(StreamConfig), *tags(MachineConfig)} - {"name", "description", "metadata"}
REPLICAS_MAX = 5
KEPT = (RefusedChange(1, stream_invalid_config("size is fixed")),)
TYPES: dict[type, str] = {
    shapes.Text: "string",
    shapes.Flag: "boolean",
    shapes.Whole: "integer",
    shapes.Time: "string",
    shapes.Choice: "string",
    shapes.Word: "string",
    shapes.ListOf: "array",
    shapes.MapOf: "object",
    shapes.Struct: "object",
}

EXAMPLES: dict[type, Callable[[Any], Any]] = {
    shapes.Text: lambda _: "x",
    shapes.Flag: lambda _: True,
    shapes.Whole: lambda _: 7,
    shapes.Time: lambda _: "2036-01-02T03:04:05.000000006Z",
    shapes.Choice: lambda shape: [word for word, meaning in shape.words.items() if word == meaning][-1],
    shapes.Word: lambda shape: shape.words[-1],
    shapes.ListOf: lambda shape: [example(shape.item)],
    shapes.MapOf: lambda shape: {"k": example(shape.item)},
    shapes.Struct: lambda shape: {name: example(one) for name, one in shape.fields.items()},
}


def example(shape: shapes.Shape) -> Any:
    """A value of this form, which no field has by default."""
    return EXAMPLES[type(shape)](shape)


def examples(kind: type) -> dict[str, Any]:
    """A request with all fields of a configuration."""
    return {name: example(tag.shape) for name, tag in tags(kind).items()}


def check_values(config: object, default: object) -> None:
    """Check that each value was kept, and is of the type that its field declares."""
    for name, hint in get_annotations(type(config)).items():
        value, declared = getattr(config, name), get_args(hint)[0]
        assert value != getattr(default, name), name
        assert isinstance(value, declared if isinstance(declared, UnionType) else get_origin(declared) or declared), (
            name
        )


def published(schema: str) -> Iterator[dict[str, Any]]:
    """The fields, with their descriptions, of all configurations in one of nats-server's schemas."""
    values = [json.loads((SCHEMAS / schema).read_text())]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            if {"num_replicas", "metadata"} <= value.keys():
                yield value
            values += value.values()
        elif isinstance(value, list):
            values += value


def disagreements(described: Mapping[str, Any], shape: shapes.Shape, at: str) -> Iterator[str]:
    """Where a schema's description of a value and its shape differ: in type, words, bounds or fields."""
    types = described["type"] if isinstance(described["type"], list) else [described["type"]]
    if TYPES[type(shape)] not in types:
        yield f"{at}: {types}"
    if isinstance(shape, shapes.Choice | shapes.Word) and not {*described["enum"]} <= {*shape.words}:
        yield f"{at}: {described['enum']}"
    if isinstance(shape, shapes.Whole) and not shape.low <= described["minimum"] <= shape.high:
        yield f"{at}: from {described['minimum']}"
    if isinstance(shape, shapes.Whole) and described.get("maximum", shape.high) not in (shape.high, REPLICAS_MAX):
        yield f"{at}: to {described['maximum']}"
    if isinstance(shape, shapes.ListOf):
        yield from disagreements(described["items"], shape.item, f"{at}[]")
    if isinstance(shape, shapes.MapOf):
        yield from disagreements(described["additionalProperties"], shape.item, f"{at}{{}}")
    if isinstance(shape, shapes.Struct):
        fields = described["properties"]
        if fields.keys() != shape.fields.keys():
            yield f"{at}: {fields.keys() ^ shape.fields.keys()}"
        for name in fields.keys() & shape.fields.keys():
            yield from disagreements(fields[name], shape.fields[name], f"{at}.{name}")


def lists_of_fields(module: Path) -> Iterator[str]:
    """Where a module lists three fields or more by name, alone or as the first of each entry."""
    text = module.read_text()
    if sum(f'"{name}"' in text for name in FIELDS) < 3:
        return
    for node in ast.walk(ast.parse(text)):
        entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        firsts = [one.elts[0] if isinstance(one, ast.Tuple) and one.elts else one for one in entries]
        if sum(isinstance(one, ast.Constant) and one.value in FIELDS for one in firsts) >= 3:
            yield f"{module.relative_to(ROOT)}"


def test_each_field_of_a_stream() -> None:
    """A stream's fields are kept as requested, shown in their order, and read back from their record."""
    asked = examples(StreamConfig)
    config = StreamConfig.from_json(shapes.decode(json.dumps(asked).encode(), STREAM_CONFIG_REQUEST))
    check_values(config, StreamConfig(""))
    shown = json.dumps(config.as_json())
    assert shown == json.dumps(asked)
    assert StreamConfig.from_json(json.loads(shown)) == config


def test_each_field_of_a_consumer() -> None:
    """A consumer's fields are kept as requested, shown in their order, and read back from their record."""
    asked = examples(MachineConfig)
    request = shapes.decode(json.dumps({"config": asked}).encode(), CONSUMER_CREATE_REQUEST)
    config = drafted(request["config"])
    check_values(config, MachineConfig(name=""))
    shown = config_json(config, dynamic=False)
    assert json.dumps(shown | {"metadata": asked["metadata"]}) == json.dumps(asked)
    assert MachineConfig.from_record(json.loads(json.dumps(config.to_record()))) == config


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        ("stream_configuration.json", shapes.Struct("", shapes_of(StreamConfig))),
        ("consumer_list_response.json", CONSUMER_CONFIG),
    ],
)
def test_the_table_is_the_published_schema(schema: str, shape: shapes.Struct) -> None:
    """Each field has the type, the words and the bounds of nats-server's published schemas, and none is missing."""
    [*described] = published(schema)
    assert described
    for fields in described:
        assert [*disagreements({"type": "object", "properties": fields}, shape, "")] == []


def test_fields_are_listed_in_one_place() -> None:
    """No other module lists a configuration's fields, but what mirrors leave to origins or others are asked for."""
    modules = [module for room in ROOMS for module in (ROOT / room).rglob("*.py")]
    found = {place for module in modules for place in lists_of_fields(module)}
    assert found == {
        "api/moving/moved_config.py",
        "consumers/client/ordered_state.py",
        "delta_store/streams/source_rules.py",
        "ingest/origins/origin_request.py",
    }


@dataclass(frozen=True, slots=True)
class Planted:
    """A configuration with a field that only this line declares."""

    size: Annotated[int, Tag(shapes.INT, omitempty=True, level=3, least=-1, changes=KEPT)] = 0


def test_one_line_makes_a_field() -> None:
    """A field's line is all that decoding, replies, minimums, API levels and updates go by."""
    request = shapes.decode(b'{"SIZE": -7}', shapes.Struct("Planted", shapes_of(Planted)))
    assert raised_to_least(Planted, request.get, pedantic=False) == {"size": -1}
    with pytest.raises(ApiRefusal, match="size must be set to -1"):
        raised_to_least(Planted, request.get, pedantic=True)
    config = read_fields(Planted, request)
    assert (config, show_fields(config), show_fields(Planted())) == (Planted(-7), {"size": -7}, {})
    assert (level_needed(Planted, request.get), level_needed(Planted, {}.get)) == (3, 0)
    check_changes(config, Planted(-7))
    with pytest.raises(ApiRefusal, match="size is fixed"):
        check_changes(config, Planted(1))
