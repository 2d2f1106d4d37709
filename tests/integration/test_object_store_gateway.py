"""Gateways and readers on an object store, as processes: what a folder promises, a bucket promises too."""

import asyncio
import json
import re
import signal
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nats
import pytest
from deltalake import DeltaTable
from nats.aio.client import Client
from typer.testing import CliRunner

from api.cli.app import app
from conf.clock import SystemClock
from conf.data_location import data_location
from conf.settings import load_settings
from delta_store.journal.journal import Journal
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.lease import GATEWAY_LEASE, exclusive
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob
from delta_store.values.schemas import LOG_FOLDER
from tests.faults.s3_proxy import Fate, S3Proxy, s3_proxy
from tests.groups import SHARD, SteppedClock, group
from tests.s3 import BUCKET, KIND, SECRET_KEY, S3Server, s3_server, storage_options, store_variables
from tests.servers import Child, Gateway, NatsServer, gateway_command, nats_server, wait_until
from tests.until_acked import publish

Script = Callable[[Client], Awaitable[None]]
_numbers = iter(range(1 << 30))
_SERVE_READY = re.compile(r'"ready": true, "url": "([^"]+)"')
TAKEN_OVER_SECONDS = 5.0


class World(NamedTuple):
    """An S3 server, a proxy before it, and a hub."""

    server: S3Server
    proxy: S3Proxy
    hub: NatsServer
    folder: Path

    def gateway(self, url: str, *, proxied: bool = False, name: str = "gateway") -> Gateway:
        """A gateway on the store at ``url``, not started yet."""
        number = next(_numbers)
        endpoint = self.proxy.url if proxied else self.server.url
        log = self.folder / f"{name}-{number}.log"
        return Gateway(self.hub, url, Child(gateway_command(self.hub, url), log, store_variables(endpoint)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """All servers that the gateways need."""
    folder = tmp_path_factory.mktemp("world")
    with (
        s3_server() as server,
        s3_proxy(server.host, server.port) as proxy,
        nats_server(folder / "hub", leaf=True) as hub,
    ):
        yield World(server, proxy, hub, folder)


@pytest.fixture
def url() -> str:
    """An empty place in the bucket."""
    return f"s3://{BUCKET}/store-{next(_numbers)}"


@contextmanager
def running(*gateways: Gateway) -> Iterator[None]:
    """The gateways until the block ends; the first is started."""
    try:
        gateways[0].start()
        yield
    finally:
        for one in gateways:
            one.child.stop()


def use(hub: NatsServer, script: Script) -> None:
    """Run a client's steps."""

    async def main() -> None:
        connection = await nats.connect(hub.url, allow_reconnect=False)
        try:
            await script(connection)
        finally:
            await connection.close()

    asyncio.run(main())


async def publish_through(connection: Client, second: Gateway, trouble: Callable[[], None]) -> list[float]:
    """Publish 40 messages, in the midst of which trouble comes while ``second`` stands by; return their seconds."""
    await connection.jetstream().add_stream(name="S", subjects=["s"])
    second.child.start()
    await asyncio.to_thread(second.child.wait_log, re.compile(r"this one stands by"))
    pauses: list[float] = []
    for number in range(1, 41):
        if number == 20:
            trouble()
        began = time.monotonic()
        assert await publish(connection, "s", number) == number
        pauses.append(time.monotonic() - began)
    return pauses


def test_a_gateway_that_is_cut_off_from_its_store_alone_is_taken_over_from(world: World, url: str) -> None:
    """It leaves the hub before its successor comes, so that no two answer; back at the store, it ends."""
    first, second = world.gateway(url, proxied=True, name="first"), world.gateway(url, name="second")
    pauses: list[float] = []

    def cut_off() -> None:
        world.proxy.choose = lambda _head: Fate.REQUEST_LOST

    async def script(connection: Client) -> None:
        pauses.extend(await publish_through(connection, second, cut_off))
        await asyncio.to_thread(first.child.wait_log, re.compile(r"leaf link lost|the link is held back"))

    try:
        with running(first, second):
            use(world.hub, script)
            assert max(pauses) < TAKEN_OVER_SECONDS
            world.proxy.choose = lambda _head: Fate.WORKS
            assert first.child.process is not None
            assert first.child.process.wait(40) == 3
            assert second.child.alive()
    finally:
        world.proxy.choose = lambda _head: Fate.WORKS


def test_a_store_in_a_bucket_is_published_to_read_and_opened_again(world: World, url: str) -> None:
    """By NATS, HTTP and delta-rs, now and in the past; and its keys stand in no argument and no log."""

    async def fill(connection: Client) -> None:
        js = connection.jetstream()
        await js.add_stream(name="S", subjects=["s.>"], allow_direct=True, max_msgs_per_subject=2)
        for number in range(1, 31):
            assert await publish(connection, f"s.{number % 3}", number) == number

    async def read(connection: Client) -> None:
        last = await connection.request("$JS.API.DIRECT.GET.S.s.1", b"", timeout=5)
        assert (last.data, last.headers["Nats-Sequence"]) == (b"28", "28")  # type: ignore[index]
        assert await publish(connection, "s.0", 30) == 30, "the window of message ids was read back"
        assert await publish(connection, "s.1", 31) == 31

    gateway = world.gateway(url)
    with running(gateway):
        use(world.hub, fill)
        cmdline = Path(f"/proc/{gateway.child.pid}/cmdline").read_text()
        assert gateway.child.stop() == 0
        gateway.start()
        use(world.hub, read)
        serve = Child(
            [sys.executable, "-m", "api.rest.serve_main", "--data", url, "--http-port", "0", "--http-only"],
            world.folder / "serve.log",
            store_variables(world.server.url),
        )
        serve.start()
        try:
            address = serve.wait_log(_SERVE_READY)[1]
            wait_until(lambda: _get(f"{address}/v1/streams/S/messages/31"), what="the reader has followed")
            past = _get(f"{address}/v1/streams/S/multi-last?subject=s.>&up_to_seq=7")
            assert past is not None
            assert [message["seq"] for message in past["messages"]] == [5, 6, 7]
        finally:
            assert serve.stop() == 0
    table = DeltaTable(f"{url}/journal", storage_options=storage_options(world.server.url))
    assert table.to_pyarrow_table().num_rows == 32
    assert SECRET_KEY not in cmdline + gateway.child.log.read_text() + serve.log.read_text()


def _get(url: str) -> dict[str, list[dict[str, int]]] | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            found: dict[str, list[dict[str, int]]] = json.load(reply)
            return found
    except OSError:
        return None


@pytest.mark.parametrize(
    "end", [signal.SIGSTOP, *(pytest.param(end, marks=pytest.mark.slow) for end in (signal.SIGTERM, signal.SIGKILL))]
)
def test_a_second_gateway_stands_by_and_takes_over(world: World, url: str, end: signal.Signals) -> None:
    """Whether the first ends, dies or sleeps: a pause of less than five seconds, no loss; woken, the first ends."""
    first, second = world.gateway(url, name="first"), world.gateway(url, name="second")
    pauses: list[float] = []

    def end_first() -> None:
        assert first.child.process is not None
        first.child.process.send_signal(end)

    async def script(connection: Client) -> None:
        pauses.extend(await publish_through(connection, second, end_first))

    with running(first, second):
        use(world.hub, script)
        assert max(pauses) < TAKEN_OVER_SECONDS
        assert first.child.process is not None
        if end is signal.SIGSTOP:
            first.child.process.send_signal(signal.SIGCONT)
        assert (
            first.child.process.wait(10) == {signal.SIGTERM: 0, signal.SIGKILL: -signal.SIGKILL, signal.SIGSTOP: 3}[end]
        )
        assert second.child.alive()


@pytest.mark.skipif(KIND != "moto", reason="a condition is part of what is signed")
def test_a_store_that_ignores_conditions_is_refused(world: World, url: str) -> None:
    """Two gateways could both acknowledge there: one sentence, and status 1."""
    gateway = world.gateway(url, proxied=True)
    world.proxy.ignores_conditions = True
    try:
        gateway.child.start()
        assert gateway.child.process is not None
        assert gateway.child.process.wait(30) == 1
    finally:
        world.proxy.ignores_conditions = False
        gateway.child.stop()
    [line] = [line for line in gateway.child.log.read_text().splitlines() if line.startswith("silt gateway:")]
    assert "conditional puts" in line


def test_a_bucket_is_verified_and_repaired(world: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each damage by its file, a checkpoint made anew from the log; not while a gateway has the store."""
    for name, value in store_variables(world.server.url).items():
        monkeypatch.setenv(name, value)
    data = data_location(url).with_settings(load_settings().storage)
    storage = open_storage(data.table("journal"), data.options)
    journal = Journal.open(storage, shard=SHARD, clock=SteppedClock())
    journal.claim()
    for seq in range(1, 6):
        journal.commit(group(seq))
    journal.checkpoint()
    messages = open_storage(data.table("messages"), data.options)
    SettledOwner.open(messages, clock=SteppedClock(), horizon_seconds=60).claim()

    def silt(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--data", url], env={"COLUMNS": "300"})
        return done.exit_code, done.output

    status, said = silt("verify")
    assert (status, "nothing is damaged" in said) == (0, True), said
    [checkpoint] = [name for name in storage.sizes(LOG_FOLDER) if name.endswith(".parquet")]
    whole = storage.read(f"{LOG_FOLDER}/{checkpoint}")
    storage.write(Blob(f"{LOG_FOLDER}/{checkpoint}", whole[:-9]))
    assert f"journal/{LOG_FOLDER}/{checkpoint}" in silt("verify")[1]
    with exclusive(data, GATEWAY_LEASE, SystemClock()):
        status, said = silt("repair", "--yes")
        assert (status, "in use by process" in said) == (3, True), said
    assert silt("repair", "--yes")[0] == 0
    harmed = journal.reader.live_files()[2].name
    storage.write(Blob(harmed, storage.read(harmed)[:-9]))
    status, said = silt("verify")
    assert (status, f"journal/{harmed}" in said) == (1, True), said
    assert "conditional puts hold" in silt("doctor")[1]


@pytest.mark.parametrize(
    "place",
    [
        "s3://silt/x",
        pytest.param(
            "s3://no-such-bucket/silt",
            marks=pytest.mark.skipif(KIND != "moto", reason="SeaweedFS makes a bucket for who may"),
        ),
    ],
)
def test_a_store_that_does_not_answer_is_named(world: World, place: str) -> None:
    """By one line and status 1, without its keys."""
    gateway = world.gateway(place)
    if place == "s3://silt/x":
        gateway.child.env["SILT_STORAGE__ENDPOINT"] = "http://127.0.0.1:1"
    gateway.child.start()
    assert gateway.child.process is not None
    assert gateway.child.process.wait(60) == 1
    said = gateway.child.log.read_text()
    assert f"silt gateway: {place}" in said
    assert SECRET_KEY not in said
    assert "Traceback" not in said
