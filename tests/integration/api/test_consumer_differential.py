"""The consumer API against a real nats-server, request by request, on streams without messages.

Only the API is under test: Silt's side is its own dispatch on a catalog and an engine in this process.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from api.jetstream.api_call import ApiRequest
from api.jetstream.dispatch import dispatch
from api.jetstream.responses import ApiAccount
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns
from tests.engines import engine_of
from tests.integration.api.consumer_cases import CASES, STREAMS, Step
from tests.servers import nats_server
from tests.wire import Wire

Reply = dict[str, Any] | None
_GENERATED = re.compile(r"[0-9A-Za-z]{8}")
_NO_TIME = "0001-01-01T00:00:00Z"


async def server_replies(url: str) -> dict[str, list[Reply]]:
    """What nats-server answers to each case, each with streams but without consumers."""
    replies: dict[str, list[Reply]] = {}
    async with Wire.open(url) as wire:

        async def ask(step: Step) -> Reply:
            inbox = wire.send(f"$JS.API.CONSUMER.{step.endpoint}", step.payload, header=step.header)
            reply = await wire.receive(inbox)
            return json.loads(reply.payload) if reply is not None else None

        for name, config in STREAMS.items():
            body = json.dumps({"name": name, **config}).encode()
            assert await wire.receive(wire.send(f"$JS.API.STREAM.CREATE.{name}", body)) is not None
        for case, steps in CASES.items():
            replies[case] = [await ask(step) for step in steps]
            for stream in {stream_of(step) for step in steps} & set(STREAMS):
                listed = await ask(Step(f"NAMES.{stream}"))
                assert listed is not None
                for name in [*listed["consumers"], "c", "c0", "c1", "e"]:
                    await ask(Step(f"DELETE.{stream}.{name}"))
    return replies


def stream_of(step: Step) -> str:
    """The stream that a request is about."""
    return step.endpoint.removeprefix("DURABLE.").split(".")[1]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Reply]]]:
    """nats-server's answers."""
    folder: Path = tmp_path_factory.mktemp("nats")
    with nats_server(folder, jetstream=True) as server:
        yield asyncio.run(server_replies(server.url))


def silt_replies(steps: list[Step]) -> list[Reply]:
    """What Silt answers, with streams but without consumers."""
    catalog, account, rows = Catalog(), ApiAccount(), RowColumns()
    engine = engine_of(catalog, rows)
    now_ns = 1_800_000_000_000_000_000

    def ask(subject: str, payload: bytes, header: bytes = b"") -> Reply:
        nonlocal now_ns
        now_ns += 1_000_000
        request = ApiRequest(subject.encode(), b"_INBOX.x", header, payload)
        reply = dispatch(catalog, request, now_ns=now_ns, rows=rows, account=account, consumers=engine.registry)
        assert reply is None or isinstance(reply, bytes)
        return json.loads(reply) if reply is not None else None

    for name, config in STREAMS.items():
        ask(f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, **config}).encode())
    return [ask(f"$JS.API.CONSUMER.{step.endpoint}", step.payload, step.header) for step in steps]


def comparable(reply: Any) -> Any:
    """A reply with what differs from run to run replaced by whether it looks right."""
    if isinstance(reply, list):
        return [comparable(item) for item in reply]
    if not isinstance(reply, dict):
        return "<generated>" if isinstance(reply, str) and _GENERATED.fullmatch(reply) else reply
    shown = {}
    for key, value in reply.items():
        if key in ("created", "ts"):
            shown[key] = "<time>" if value != _NO_TIME else value
        elif key == "pause_remaining":
            shown[key] = value > 0
        elif key in ("name", "consumers"):
            shown[key] = comparable(value)
        else:
            shown[key] = comparable(value) if isinstance(value, dict | list) else value
    return shown


@pytest.mark.parametrize("name", CASES)
def test_same_as_nats_server(name: str, expected: dict[str, list[Reply]]) -> None:
    """Each request gets the same answer: the same configuration in the same order, or the same error."""
    ours = [comparable(reply) for reply in silt_replies(CASES[name])]
    theirs = [comparable(reply) for reply in expected[name]]
    assert ours == theirs
    assert json.dumps(ours) == json.dumps(theirs), "field order"
