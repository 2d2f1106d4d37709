"""Stream configurations: Silt's rules against a real nats-server, request by request.

Only the rules are under test: Silt's side is its own dispatch on a catalog in this process.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from api.jetstream.api_call import ApiRequest
from api.jetstream.dispatch import dispatch
from api.jetstream.responses import ApiAccount
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns
from tests.integration.api.config_cases import CASES, Step
from tests.servers import nats_server
from tests.wire import STORE_FAILED, STORE_TRIES

Reply = dict[str, Any]


def subject_of(step: Step) -> str:
    """The request's subject."""
    return f"$JS.API.STREAM.{step.op}.{step.stream}"


async def _answer(client: Client, subject: str, body: bytes) -> bytes:
    """One answer; asked for again while nats-server still clears away the folder of the stream before."""
    for _ in range(STORE_TRIES):
        answer = (await client.request(subject, body, timeout=5)).data
        if STORE_FAILED not in answer:
            break
        await asyncio.sleep(0.1)
    return answer


async def server_replies(url: str) -> dict[str, list[Reply]]:
    """What nats-server answers to each case, each on a server without streams."""
    replies: dict[str, list[Reply]] = {}
    client = await nats.connect(url)
    try:
        for name, steps in CASES.items():
            replies[name] = [json.loads(await _answer(client, subject_of(step), step.body)) for step in steps]
            for step in steps:
                await client.request(f"$JS.API.STREAM.DELETE.{step.stream}", b"", timeout=5)
    finally:
        await client.close()
    return replies


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[Reply]]]:
    """nats-server's answers."""
    folder: Path = tmp_path_factory.mktemp("nats")
    with nats_server(folder, jetstream=True) as server:
        yield asyncio.run(server_replies(server.url))


def silt_replies(steps: list[Step]) -> list[Reply]:
    """What Silt answers, on a catalog without streams."""
    catalog, account, rows = Catalog(), ApiAccount(), RowColumns()
    replies = []
    for place, step in enumerate(steps):
        request = ApiRequest(subject_of(step).encode(), b"_INBOX.x", b"", step.body)
        reply = dispatch(catalog, request, now_ns=10**18 + place, rows=rows, account=account)
        assert isinstance(reply, bytes)
        replies.append(json.loads(reply))
    return replies


def comparable(reply: Reply) -> Reply:
    """A reply without its times, and without what happens to a stream: it may take nats-server's own advisories."""
    return {key: value for key, value in reply.items() if key not in ("created", "ts", "state", "mirror", "sources")}


@pytest.mark.parametrize("name", CASES)
def test_same_as_nats_server(name: str, expected: dict[str, list[Reply]]) -> None:
    """Each step gives the same normalised configuration, or the same error code and text."""
    ours = silt_replies(CASES[name])
    assert [comparable(reply) for reply in ours] == [comparable(reply) for reply in expected[name]]
    orders = [[list(comparable(reply)) for reply in side] for side in (ours, expected[name])]
    assert orders[0] == orders[1], "field order"
