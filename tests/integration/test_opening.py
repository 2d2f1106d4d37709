"""While a large store opens: NATS and HTTP say so at once, nothing is acknowledged, and then all is there."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError
from typer.testing import CliRunner

from api.cli.app import app
from conf.exit_codes import Exit
from tests.large_store import large_store
from tests.servers import Child, NatsServer, gateway_command, nats_server
from tests.stores import flip
from tests.tools import Missing, nats_cli

ROWS = 500_000
"""Takes some seconds to open, also on a fast machine."""
READ = re.compile(rf"the store is being opened, \d+ of {ROWS + 1} rows read")
TOLD = re.compile(f"JetStream system temporarily unavailable: {READ.pattern}")
UP_READY = re.compile(r"ready (nats://\S+) (http://\S+)")
SECONDS = 120.0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder that each test copies."""
    data = tmp_path_factory.mktemp("large") / "data"
    large_store(data, ROWS)
    return data


@pytest.fixture
def data(large: Path, tmp_path: Path) -> Path:
    """A store of a test's own."""
    return Path(shutil.copytree(large, tmp_path / "data"))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[NatsServer]:
    """A server with a leafnode listener that lets everything cross it."""
    with nats_server(tmp_path / "hub", leaf=True) as server:
        yield server


async def _first_answer(client: Client, subject: str) -> dict[str, Any]:
    """What is answered to a request as soon as anybody answers it."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return dict(json.loads((await client.request(subject, b"", timeout=10)).data))
        except NoRespondersError:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


def _api(domain: str | None) -> str:
    return f"$JS.{domain}.API" if domain else "$JS.API"


async def _opened(client: Client, domain: str | None) -> None:
    """Wait until the streams can be asked for."""
    deadline = time.monotonic() + SECONDS
    while "error" in await _first_answer(client, f"{_api(domain)}.STREAM.NAMES"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def _refused_meanwhile(client: Client, domain: str | None) -> None:
    """What a client is told while the store opens."""
    jetstream = client.jetstream(timeout=10, domain=domain)
    for ask in (
        jetstream.account_info(),
        jetstream.stream_info("S"),
        jetstream.add_stream(name="T", subjects=["t"]),
        jetstream.add_consumer("S", durable_name="c"),
        jetstream.get_msg("S", 1),
    ):
        with pytest.raises(ServiceUnavailableError) as refused:
            await ask
        assert refused.value.err_code == 10008
        assert TOLD.fullmatch(str(refused.value.description)), refused.value
    with pytest.raises(NoStreamResponseError):
        await jetstream.publish("s.1", b"nobody may acknowledge this")
    api = _api(domain)
    for subject in (f"{api}.CONSUMER.MSG.NEXT.S.c", f"{api}.DIRECT.GET.S", "$JS.ACK.S.c.1.1.1.1.0"):
        with pytest.raises(NoRespondersError):
            await client.request(subject, b"", timeout=10)


@pytest.mark.parametrize(("over", "domain"), [("leaf", None), ("client", None), ("leaf", "silt")])
def test_the_api_says_that_the_store_is_being_opened(over: str, domain: str | None, tmp_path: Path, data: Path) -> None:
    """Every request of the API gets 10008 and how far it is; once it is open the answers are right and complete."""

    async def scene(url: str, child: Child) -> None:
        client = await nats.connect(url)
        try:
            child.start()
            names = await _first_answer(client, f"{_api(domain)}.STREAM.NAMES")
            assert names["error"]["err_code"] == 10008
            assert (names["error"]["code"], names["total"], names["streams"]) == (503, 0, [])
            assert TOLD.fullmatch(names["error"]["description"]), names
            await _refused_meanwhile(client, domain)
            await _opened(client, domain)
            jetstream = client.jetstream(timeout=10, domain=domain)
            state = (await jetstream.stream_info("S")).state
            assert (state.messages, state.first_seq, state.last_seq) == (ROWS, 1, ROWS)
            assert (await jetstream.publish("s.1", b"next")).seq == ROWS + 1
            assert (await jetstream.get_msg("S", ROWS, direct=True)).data == b"payload %d" % ROWS
        finally:
            await client.close()

    with nats_server(tmp_path / "hub", leaf=True, api_over_leaf=over == "leaf") as hub:
        options = ["--domain", domain] if domain else []
        child = Child([*gateway_command(hub, data, api_over=over), *options], tmp_path / "gateway.log")
        try:
            asyncio.run(scene(hub.url, child))
            assert child.stop() == 0
        finally:
            child.stop()
    said = child.log.read_text()
    assert f'"rows": {ROWS + 1},' in said
    assert said.index('{"answering": true') < said.index('{"ready": true')


def test_the_cli_says_so_too(tmp_path: Path, data: Path, hub: NatsServer) -> None:
    """``nats`` and ``silt stream`` print the sentence and fail."""
    try:
        cli = str(nats_cli())
    except Missing as missing:
        pytest.skip(str(missing))
    report = ["stream", "report", "--server", hub.url]
    assert CliRunner().invoke(app, report).exit_code == Exit.UNREACHABLE
    child = Child(gateway_command(hub, data), tmp_path / "gateway.log")
    try:
        child.start()
        child.wait_log(re.compile('{"answering": true.*}'))
        ours = CliRunner().invoke(app, report)
        theirs = subprocess.run(
            [cli, "--server", hub.url, "stream", "ls"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (ours.exit_code, theirs.returncode) == (Exit.FAILED, 1)
        assert TOLD.search(ours.stderr)
        assert TOLD.search(theirs.stdout + theirs.stderr)
    finally:
        child.stop()


def test_a_gateway_that_is_told_to_end_while_it_opens_ends_soon(tmp_path: Path, data: Path, hub: NatsServer) -> None:
    """Status 0, without reading the rest of the store, and the next one finds it whole."""
    child = Child(gateway_command(hub, data), tmp_path / "gateway.log")
    try:
        child.start()
        child.wait_log(re.compile('{"answering": true.*}'))
        assert child.stop() == 0
        assert '{"ready": true' not in child.log.read_text()
        child.start()
        child.wait_log(re.compile('{"ready": true, "epoch": 3, "streams": 1, .*}'), seconds=SECONDS)
    finally:
        child.stop()


def _http_status(address: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(address, timeout=20) as reply:
            return reply.status, json.load(reply)
    except HTTPError as error:
        return error.code, json.load(error)


def _up(tmp_path: Path, data: Path) -> Child:
    silt = str(Path(sys.executable).with_name("silt"))
    return Child([silt, "up", "--data", str(data), "--port", "0", "--http-port", "0"], tmp_path / "silt-up.log")


def test_up_is_ready_before_the_store_is_open(tmp_path: Path, data: Path) -> None:
    """Its ready line comes when NATS and HTTP answer; it says then that the store opens, and when it is open."""
    child = _up(tmp_path, data)
    try:
        child.start()
        url, http = child.wait_log(UP_READY, seconds=SECONDS).groups()

        async def scene() -> None:
            client = await nats.connect(url)
            try:
                names = await _first_answer(client, "$JS.API.STREAM.NAMES")
                assert TOLD.fullmatch(names["error"]["description"]), names
                assert _http_status(f"{http}/healthz")[0] == 200
                status, problem = _http_status(f"{http}/readyz")
                assert (status, problem["err_code"]) == (503, 20008)
                assert READ.match(problem["detail"]), problem
                await asyncio.to_thread(
                    child.wait_log, re.compile(f"the store is open: {ROWS + 1} rows in"), seconds=SECONDS
                )
                assert (await client.jetstream(timeout=10).publish("s.1", b"next")).seq == ROWS + 1
            finally:
                await client.close()

        asyncio.run(scene())
        assert child.stop() == 0
    finally:
        child.stop()
    told = child.log.read_text()
    assert told.startswith("ready nats://")
    assert told.index("the store is being opened") < told.index("the store is open:")
    notes = [json.loads(line) for line in (data / "logs" / "silt.log").read_text().splitlines()]
    (opened,) = [note for note in notes if note["event"] == "store open"]
    assert opened["rows"] == ROWS + 1
    assert opened["seconds"] > 0


def test_up_ends_when_opening_meets_damage(tmp_path: Path, data: Path) -> None:
    """Also where the damage is found after the ready line: status 1, and a text that names the file and what to do."""
    files = sorted((data / "journal").glob("*.parquet"))
    harmed = files[len(files) // 2]
    flip(harmed)
    child = _up(tmp_path, data)
    try:
        child.start()
        assert child.process is not None
        assert child.process.wait(SECONDS) == 1
    finally:
        child.stop()
    told = child.log.read_text()
    assert UP_READY.search(told)
    assert "silt up: gateway ended before it was ready" in told
    assert f"{harmed} is damaged" in told
    assert "run: silt verify" in told
