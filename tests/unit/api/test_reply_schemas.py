"""Replies against the published JSON schemas of the JetStream API (tests/schemas, from nats-io/jsm.go)."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

SCHEMAS = Path(__file__).parents[2] / "schemas"

ASKED = [
    ("INFO", ""),
    ("STREAM.CREATE.T", {"name": "T", "max_msgs": 5, "metadata": {"k": "v"}, "description": "d", "no_ack": True}),
    ("STREAM.CREATE.T", {"name": "X"}),
    ("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>", "r"], "max_age": 10**18}),
    ("STREAM.UPDATE.NONE", {"name": "NONE"}),
    ("STREAM.INFO.S", ""),
    ("STREAM.INFO.S", {"subjects_filter": ">", "deleted_details": True}),
    ("STREAM.INFO.NONE", ""),
    ("STREAM.NAMES", ""),
    ("STREAM.NAMES", {"subject": "none"}),
    ("STREAM.LIST", ""),
    ("STREAM.MSG.GET.S", {"seq": 2}),
    ("STREAM.MSG.GET.S", {"seq": 99}),
    ("STREAM.MSG.DELETE.S", {"seq": 4}),
    ("STREAM.MSG.DELETE.S", {"seq": 4}),
    ("STREAM.PURGE.S", {"keep": 5}),
    ("STREAM.PURGE.NONE", ""),
    ("STREAM.SNAPSHOT.S", {"deliver_subject": "d"}),
    ("STREAM.RESTORE.R", {"config": {"name": "R"}, "state": {}}),
    ("STREAM.LEADER.STEPDOWN.S", ""),
    ("STREAM.PEER.REMOVE.S", {"peer": "x"}),
    ("CONSUMER.NAMES.S", ""),
    ("CONSUMER.LIST.S", ""),
    ("STREAM.DELETE.S", ""),
    ("STREAM.DELETE.NONE", ""),
]


def problems(reply: dict[str, Any]) -> list[str]:
    """What the schema of the reply's own type says against it."""
    name = reply["type"].removeprefix("io.nats.jetstream.api.v1.")
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    validator = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(reply)]


@pytest.mark.parametrize(("endpoint", "body"), ASKED)
def test_reply_is_valid(filled: Any, endpoint: str, body: Any) -> None:
    """Success and error replies are valid by the schema of their type."""
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 3})
    assert problems(filled.ask(endpoint, body)) == []


def test_schemas_can_refuse(filled: Any) -> None:
    """A reply with a field of the wrong type is not valid: the schemas are really applied."""
    reply = filled.ask("STREAM.INFO.S")
    reply["state"]["messages"] = "many"
    assert problems(reply)
