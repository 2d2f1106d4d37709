"""Advisories about streams, batches and the API, against the published JSON schemas of their types."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from api.core import consumer_frames
from api.jetstream import stream_advisories
from consumers.machine.effects import Advisory
from delta_store.streams.open_batches import Abandoned
from ingest.publishing.group import Group

SCHEMAS = Path(__file__).parents[2] / "schemas"
TOLD = (
    stream_advisories.api_audit(b"STREAM.INFO.S", b'{"a":1}', b'{"type":"x"}', server="silt"),
    stream_advisories.api_audit(b"STREAM.INFO.S", b"", b"{}", server="silt"),
    *stream_advisories.abandoned_batches(Group(abandoned=[("S", Abandoned("b", "timeout"))])),
)


def told(advisory: Advisory, domain: str) -> dict[str, Any]:
    """The event as its frame holds it."""
    payload = consumer_frames.advisory(advisory, id_="i" * 22, now_ns=1_764_000_000_000_000_000, domain=domain)
    shown: dict[str, Any] = json.loads(payload)
    return shown


@pytest.mark.parametrize("advisory", TOLD)
@pytest.mark.parametrize("domain", ["", "d1"])
def test_valid_by_their_schema(advisory: Advisory, domain: str) -> None:
    """A domain is told where there is one, which nats-server does even where the schema of the type has no place."""
    event = told(advisory, domain)
    schema = json.loads((SCHEMAS / f"{advisory.kind}.json").read_text())
    schema["properties"].setdefault("domain", {"type": "string"})
    assert [error.message for error in Draft7Validator(schema).iter_errors(event)] == []
    assert event.get("domain", "") == domain


def test_audit_says_what_was_asked_and_answered() -> None:
    """Subject without the domain, request and response as they were; no request is no field."""
    first, second = (told(advisory, "") for advisory in TOLD[:2])
    assert (first["subject"], first["request"], first["response"]) == (
        "$JS.API.STREAM.INFO.S",
        '{"a":1}',
        '{"type":"x"}',
    )
    assert "request" not in second


def test_only_streams_that_changed_are_told_of() -> None:
    """Requests that make, change or delete a stream have an advisory of their own, others have none."""
    subjects = [
        one.subject if (one := stream_advisories.stream_action(f"STREAM.{verb}.S".encode())) else ""
        for verb in ("CREATE", "UPDATE", "DELETE", "PURGE")
    ]
    assert subjects == [f"$JS.EVENT.ADVISORY.STREAM.{verb}.S" for verb in ("CREATED", "UPDATED", "DELETED")] + [""]
