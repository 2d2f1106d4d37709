"""A gateway whose object store answers badly, or that dies between two answers: nothing acknowledged is lost."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from tests.faults.s3_proxy import Fate, S3Proxy, is_entry_put, s3_proxy
from tests.s3 import BUCKET, s3_server, store_variables
from tests.servers import Child, Gateway, NatsServer, gateway_command, nats_server, wait_until

_BAD = tuple(fate for fate in Fate if fate is not Fate.WORKS)
PATIENCE = {"SILT_STORAGE__TIMEOUT_SECONDS": "1.5"}
"""Half-open connections are given up early."""
PUBLISH_SECONDS = 60.0
Chooser = Callable[[bytes], Fate]


@dataclass(slots=True)
class World:
    """A gateway whose every request passes the proxy, and what was acknowledged by it."""

    gateway: Gateway
    proxy: S3Proxy
    hub: NatsServer
    acked: list[str] = field(default_factory=list)
    """What was acknowledged, in the order of its sequences."""

    def use(self, script: Callable[[Client], Awaitable[None]]) -> None:
        """Run a client's steps."""

        async def main() -> None:
            connection = await nats.connect(self.hub.url, allow_reconnect=False)
            try:
                async with asyncio.timeout(PUBLISH_SECONDS):
                    await script(connection)
            finally:
                await connection.close()

        asyncio.run(main())

    def publish(self, *names: str) -> None:
        """Publish one after the other, each until it is acknowledged."""

        async def script(connection: Client) -> None:
            for name in names:
                assert await self._acked(connection, name) == len(self.acked) + 1
                self.acked.append(name)

        self.use(script)

    async def _acked(self, connection: Client, name: str) -> int:
        while True:
            try:
                answer = await connection.request("s", name.encode(), timeout=1, headers={"Nats-Msg-Id": name})
            except (NoRespondersError, NatsTimeout):
                await asyncio.sleep(0.05)
                continue
            said = json.loads(answer.data)
            if "error" not in said:
                return int(said["seq"])

    def reckon(self) -> None:
        """Read everything back: what was acknowledged is there, in its place, and nothing else."""

        async def script(connection: Client) -> None:
            info = json.loads((await connection.request("$JS.API.STREAM.INFO.S", b"", timeout=5)).data)
            assert info["state"]["messages"] == len(self.acked)
            for seq, name in enumerate(self.acked, 1):
                asked = json.dumps({"seq": seq}).encode()
                found = await connection.request("$JS.API.DIRECT.GET.S", asked, timeout=5)
                assert found.data == name.encode()

        self.use(script)

    def restart(self) -> None:
        """Start the gateway again behind a store that works."""
        self.proxy.choose = lambda _head: Fate.WORKS
        self.gateway.child.kill()
        self.gateway.start()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A gateway with one stream, on a bucket behind a proxy."""
    folder = tmp_path_factory.mktemp("faults")

    async def make_stream(connection: Client) -> None:
        await connection.jetstream().add_stream(name="S", subjects=["s"], allow_direct=True)

    with (
        s3_server() as server,
        s3_proxy(server.host, server.port) as proxy,
        nats_server(folder / "hub", leaf=True) as hub,
    ):
        url = f"s3://{BUCKET}/store"
        child = Child(gateway_command(hub, url), folder / "gateway.log", store_variables(proxy.url) | PATIENCE)
        made = World(Gateway(hub, url, child), proxy, hub)
        made.gateway.start()
        made.use(make_stream)
        try:
            yield made
        finally:
            child.stop()


def is_data_put(head: bytes) -> bool:
    """Whether a request puts a file of rows."""
    line = head.split(b"\r\n", 1)[0]
    return line.startswith(b"PUT ") and b"/journal/" in line and b".parquet" in line and b"_delta_log" not in line


def once(fate: Fate, chosen: Chooser | Callable[[bytes], bool], act: Callable[[], object] = lambda: None) -> Chooser:
    """This fate for the first request that is chosen, and ``act`` when it comes."""
    left = [fate]

    def choose(head: bytes) -> Fate:
        if left and chosen(head):
            act()
            return left.pop()
        return Fate.WORKS

    return choose


def test_each_bad_answer_is_outlived(world: World) -> None:
    """To the put of an entry or of its rows: all is acknowledged in the end, by the same gateway, and there once."""
    before = world.gateway.child.pid
    for fate in _BAD:
        for number, step in enumerate((is_entry_put, is_data_put)):
            world.proxy.choose = once(fate, step)
            world.publish(f"{fate} {number}", f"{fate} {number} after")
            world.proxy.choose = lambda _head: Fate.WORKS
    assert world.gateway.child.alive()
    assert world.gateway.child.pid == before
    world.reckon()


@pytest.mark.parametrize(
    ("step", "fate"),
    [
        (is_entry_put, Fate.REPLY_LOST),
        *(
            pytest.param(step, fate, marks=pytest.mark.slow)
            for step, fate in [
                (is_data_put, Fate.REQUEST_LOST),
                (is_data_put, Fate.REPLY_LOST),
                (is_entry_put, Fate.REQUEST_LOST),
            ]
        ),
    ],
)
def test_a_gateway_that_dies_at_any_step_loses_nothing(world: World, step: Callable[[bytes], bool], fate: Fate) -> None:
    """Killed when a request is on its way, or answered: what its client sends again is stored once."""
    process = world.gateway.child.process
    assert process is not None

    async def lose(connection: Client) -> None:
        world.proxy.choose = once(fate, step, process.kill)
        name = f"killed {step.__name__} {fate}"
        await connection.publish("s", name.encode(), headers={"Nats-Msg-Id": name})
        await connection.flush()
        await asyncio.to_thread(wait_until, lambda: not world.gateway.child.alive() or None, what="it is killed")

    world.use(lose)
    world.restart()
    world.publish(f"killed {step.__name__} {fate}")
    world.reckon()


def test_a_store_that_is_away_is_waited_for(world: World) -> None:
    """Nobody is answered while another gateway may have taken over; then all is as before, by the same process."""
    before = world.gateway.child.pid
    world.proxy.choose = lambda _head: Fate.REQUEST_LOST

    async def ask(connection: Client) -> None:
        with pytest.raises((NatsTimeout, NoRespondersError)):
            await connection.request("s", b"away", timeout=1, headers={"Nats-Msg-Id": "away"})
        async with asyncio.timeout(20):
            with suppress(NoRespondersError):
                while True:
                    with suppress(NatsTimeout):
                        await connection.request("$JS.API.DIRECT.GET.S", b'{"seq":1}', timeout=0.5)
                    await asyncio.sleep(0.1)

    world.use(ask)
    world.proxy.choose = lambda _head: Fate.WORKS
    world.publish("away")
    assert world.gateway.child.pid == before
    assert world.gateway.child.alive()
    world.reckon()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_bad_day(world: World, seed: int) -> None:
    """A third of all requests go wrong, and now and then the gateway is killed: what was acknowledged is there once."""
    rng = random.Random(seed)

    def choose(head: bytes) -> Fate:
        if rng.random() > 1 / 3:
            return Fate.WORKS
        fate = rng.choice([fate for fate in _BAD if fate is not Fate.HALF_OPEN])
        return fate if head.startswith(b"PUT ") or "error in its body" not in fate else Fate.UNAVAILABLE

    for round_ in range(10):
        world.proxy.choose = choose
        for number in range(10):
            if not world.gateway.child.alive():
                world.restart()
                world.proxy.choose = choose
            world.publish(f"day {seed} {round_} {number}")
        world.restart()
        world.reckon()
