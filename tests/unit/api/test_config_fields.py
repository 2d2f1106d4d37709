"""The fields of configurations: each is decoded, kept, shown in its place and recorded, and none is missing."""

import json
from collections.abc import Callable, Iterator
from inspect import get_annotations
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest

from api.jetstream.consumer_info import config_json
from api.jetstream.request_shapes import CONSUMER_CREATE_REQUEST, STREAM_CONFIG_REQUEST
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import drafted
from delta_store.config.field_tags import tags
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect import json_shapes as shapes

SCHEMAS = Path(__file__).parents[2] / "schemas"


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


def published(value: Any) -> Iterator[set[str]]:
    """The names of the fields of all configurations that a published schema describes."""
    if isinstance(value, dict):
        if {"num_replicas", "metadata"} <= value.keys():
            yield set(value)
        for part in value.values():
            yield from published(part)
    if isinstance(value, list):
        for part in value:
            yield from published(part)


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
    ("schema", "known"),
    [
        ("stream_configuration.json", {*tags(StreamConfig)}),
        ("consumer_list_response.json", {*tags(MachineConfig), "sourcing"}),
    ],
)
def test_no_published_field_is_missing(schema: str, known: set[str]) -> None:
    """The fields are those of nats-server's published schemas; ``sourcing`` is decoded only to be refused."""
    [*described] = published(json.loads((SCHEMAS / schema).read_text()))
    assert described
    assert all(names == known for names in described)
