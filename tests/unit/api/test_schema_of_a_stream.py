"""The schema in a stream's metadata, at create and update: what no table can follow is refused in words."""

import json
from typing import Any

import pytest

NUMBERS = {"type": "object", "properties": {"n": {"type": "integer"}}}
WORDS = {"type": "object", "properties": {"n": {"type": "integer"}, "word": {"type": "string"}}}


def _config(schema: object, **more: object) -> dict[str, object]:
    metadata = {"silt.schema": schema if isinstance(schema, str) else json.dumps(schema)}
    keys = {key.replace("_", "."): more.pop(key) for key in list(more) if key.startswith("silt_")}
    return {"name": "T", "subjects": ["t"], "metadata": metadata | keys, **more}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (_config("{"), "the schema is no JSON"),
        (_config({"type": "object", "properties": {"a": {"not": {}}}}), "$.a: 'not' is not checked by Silt"),
        (_config(NUMBERS, silt_table="newest"), "silt.table is append or latest, not 'newest'"),
        (_config(NUMBERS, silt_validate="reject", allow_msg_counter=True), "message counters"),
        ({"name": "T", "metadata": {"silt.validate": "reject"}}, "silt.validate needs silt.schema"),
    ],
)
def test_a_stream_with_a_schema_that_can_not_be_is_refused(api: Any, config: dict[str, object], text: str) -> None:
    """By 10052, as any invalid configuration."""
    error = api.ask("STREAM.CREATE.T", config)["error"]
    assert error["err_code"] == 10052
    assert text in error["description"]
    assert not api.rows.kind


def test_a_schema_may_grow_and_go(api: Any) -> None:
    """Optional columns may come; another type only after the schema was taken away."""
    assert "error" not in api.ask("STREAM.CREATE.T", _config(NUMBERS))
    assert "error" not in api.ask("STREAM.UPDATE.T", _config(WORDS))
    other = _config({"type": "object", "properties": {"n": {"type": "string"}, "word": {"type": "string"}}})
    error = api.ask("STREAM.UPDATE.T", other)["error"]
    assert error["err_code"] == 10052
    assert "column 'n' turns from bigint into string" in error["description"]
    assert "error" not in api.ask("STREAM.UPDATE.T", {"name": "T", "subjects": ["t"]})
    assert "error" not in api.ask("STREAM.UPDATE.T", other)
