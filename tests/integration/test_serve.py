"""``silt serve``: readers that need no gateway."""

import asyncio
import json
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from typer.testing import CliRunner

from api.cli.app import app
from tests.servers import Child, NatsServer, gateway, nats_server, silt_serve, wait_until


def _publish(url: str) -> None:
    async def scene() -> None:
        client = await nats.connect(url)
        jetstream = client.jetstream(timeout=20)
        await jetstream.add_stream(name="ORDERS", subjects=["orders.*"], allow_direct=True)
        for number in range(3):
            await jetstream.publish(f"orders.{number}", f"order {number}".encode())
        await client.close()

    asyncio.run(scene())


def _direct(url: str, body: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    async def scene() -> tuple[dict[str, str], bytes]:
        client = await nats.connect(url)
        try:
            reply = await client.request("$JS.API.DIRECT.GET.ORDERS", json.dumps(body).encode(), timeout=20)
            return reply.headers or {}, reply.data
        finally:
            await client.close()

    return asyncio.run(scene())


def _sql(*arguments: str) -> str:
    ran = CliRunner().invoke(app, ["sql", *arguments, "-o", "csv"])
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def _get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=20) as reply:
        return json.load(reply)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[NatsServer]:
    """A server with a leafnode listener."""
    with nats_server(tmp_path / "hub", leaf=True) as server:
        yield server


@pytest.mark.parametrize("over", ["client", "leaf"])
def test_direct_get_is_answered_when_no_gateway_runs(over: str, hub: NatsServer, tmp_path: Path) -> None:
    """What was acknowledged is in the tables, and a reader is enough to get it back, by NATS and by HTTP."""
    data = tmp_path / "data"
    with gateway(hub, data):
        _publish(hub.url)
    assert hub.leaf_url is not None
    options = ["--nats", hub.url, "--leaf", hub.leaf_url, "--api-over", over]
    with silt_serve(data, *options) as (_, url):
        headers, payload = _direct(hub.url, {"seq": 2})
        assert (headers["Nats-Subject"], payload) == ("orders.1", b"order 1")
        assert _direct(hub.url, {"last_by_subj": "orders.none"})[0]["Status"] == "404"
        assert _get(f"{url}/v1/streams/ORDERS/messages/2")["text"] == "order 1"
        if over == "client":
            statement = "SELECT seq, subject, time, text FROM ORDERS ORDER BY seq"
            answers = [_sql(statement, *where) for where in (("--http", url), ("--data", str(data)))]
            assert answers[0] == answers[1]
            assert len(answers[0].splitlines()) == 4


def test_a_reader_follows_what_is_written(hub: NatsServer, tmp_path: Path) -> None:
    """Started on an empty folder, it shows a stream and messages that come later."""
    data = tmp_path / "data"
    data.mkdir()
    with silt_serve(data) as (_, url):
        assert _get(f"{url}/v1/streams")["streams"] == []
        with gateway(hub, data):
            _publish(hub.url)
            wait_until(
                lambda: _get(f"{url}/v1/streams/ORDERS")["state"]["last_seq"] == 3,
                what="the reader has caught up",
            )


def test_it_ends_when_told_and_tells_when_its_port_is_taken(tmp_path: Path) -> None:
    """Status 0 on SIGTERM; status 1 and a sentence when another process listens there."""
    data = tmp_path / "data"
    data.mkdir()
    with silt_serve(data) as (child, url):
        port = url.rpartition(":")[2]
        second = Child([*child.command[:-1], port], tmp_path / "second.log")
        second.start()
        assert second.process is not None
        assert second.process.wait(timeout=60) == 1
        assert f"can't listen on 127.0.0.1:{port}" in second.log.read_text()
        assert child.process is not None
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(timeout=60) == 0
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", int(port)))
