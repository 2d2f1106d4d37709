"""Imports, mirrors through the relay and cutovers, while each of the three processes is killed."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from api.moving.origin import Origin
from api.moving.stream_comparison import ComparedSpan, StreamComparison
from consumers.client.api_call import Api
from tests.domains import hub_with_jetstream
from tests.moving_load import Movers, connected
from tests.servers import Child, Gateway, NatsServer, answers_api, silt_server, wait_until
from tests.waits import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
STREAMS = ("A", "B", "C")
COUNT = 12_000
LARGE = 200_000
LARGE_BYTES = LARGE * 100
TRIES = 20
CUT_AFTER = (0.0, 0.02, 0.1, 0.3, 0.5)
"""Seconds from the moment that the origin is stopped until the cutover is killed."""


@contextmanager
def apart(folder: Path) -> Iterator[tuple[NatsServer, Gateway]]:
    """A JetStream and a Silt that don't know each other."""
    with hub_with_jetstream(folder / "origin") as origin, silt_server(folder / "silt") as silt:
        wait_until(lambda: answers_api(origin.url), what="JetStream answers", log=origin.child.log)
        yield origin, silt


def command(verb: str, origin: NatsServer, silt: Gateway, *arguments: str) -> list[str]:
    """A command of ``silt`` from one to the other."""
    there = ("--from", origin.url, "--server", silt.hub.url, "--output", "ndjson")
    return [sys.executable, "-m", "api.cli.main", verb, *arguments, *there]


async def until_done(line: list[str], log: Path) -> None:
    """Run a command until it succeeds."""
    for _ in range(TRIES):
        child = Child(line, log)
        child.start()
        assert child.process is not None
        if await asyncio.to_thread(child.process.wait, 300) == 0:
            return
        await asyncio.sleep(1)
    raise AssertionError(f"{line} does not succeed: see {log}")


async def fill(url: str, name: str, count: int) -> None:
    """A stream with so many messages, and two gaps."""
    connection = await nats.connect(url)
    js = connection.jetstream(timeout=30)
    await js.add_stream(name=name, subjects=[f"{name}.>"])
    for number in range(count):
        await connection.publish(f"{name}.{number % 9}", b"%d" % number * 20)
    await connection.flush(60)

    async def is_stored() -> bool:
        return (await js.stream_info(name)).state.messages == count

    await until(is_stored)
    for seq in (2, count - 1):
        await js.delete_msg(name, seq)
    await connection.close()


async def compare(origin: NatsServer, silt: Gateway, *names: str) -> None:
    """What the origin has, Silt has, and nothing else."""
    connections = await connected((origin.url, silt.hub.url))
    there, here = [await Origin.at(Api(one, timeout=30), "") for one in connections]
    for name in names:
        state = (await there.info(name))["state"]
        span = ComparedSpan(name, state["last_seq"], state["messages"], mirrored=True)
        comparison = StreamComparison(there, here, lambda _name, _total: nullcontext(lambda _done: None))
        ranges, difference = await comparison.of(span)
        assert ranges
        assert difference == ((), (), ()), f"{name}: {difference}"
    for connection in connections:
        await connection.close()


def revive(victim: Child | Gateway) -> None:
    """Kill, and start again."""
    (victim.child if isinstance(victim, Gateway) else victim).kill()
    victim.start()


@pytest.mark.parametrize("victim", ["import", "silt", "origin"])
def test_an_import_is_begun_again(tmp_path: Path, victim: str) -> None:
    """Killed in the middle of the second stream: that one is not shown, and the same command goes on."""

    async def script(origin: NatsServer, silt: Gateway) -> None:
        for name in STREAMS:
            await fill(origin.url, name, COUNT)
        line = command("import", origin, silt, *STREAMS)
        begun = Child(line, tmp_path / "import.log")
        begun.start()
        await asyncio.to_thread(begun.wait_log, re.compile("B copied"))
        {"import": begun.kill, "silt": lambda: revive(silt), "origin": lambda: revive(origin.child)}[victim]()
        assert begun.process is not None
        if victim != "import":
            assert await asyncio.to_thread(begun.process.wait, 300) in (1, 4)
        await until_done(line, tmp_path / "again.log")
        told = [json.loads(one) for one in (tmp_path / "again.log").read_text().splitlines() if one.startswith("{")]
        assert {one["stream"]: one["outcome"] for one in told}["A"] == "there"
        await compare(origin, silt, *STREAMS)

    with apart(tmp_path) as (origin, silt):
        asyncio.run(script(origin, silt))


@pytest.mark.parametrize("victim", ["import", "silt"])
def test_an_import_goes_on_within_a_stream(tmp_path: Path, victim: str) -> None:
    """Killed amid a large stream: what was durable is not sent again, and all of it is compared."""

    async def script(origin: NatsServer, silt: Gateway) -> None:
        await fill(origin.url, "A", LARGE)
        line = command("import", origin, silt, "A")
        begun = Child(line, tmp_path / "import.log")
        begun.start()
        await asyncio.to_thread(begun.wait_log, re.compile("A copied"))
        journal = tmp_path / "silt" / "data" / "journal"
        await until(lambda: size_of(journal) > LARGE_BYTES // 4, seconds=60)
        {"import": begun.kill, "silt": lambda: revive(silt)}[victim]()
        assert begun.process is not None
        await asyncio.to_thread(begun.process.wait, 300)
        await until_done(line, tmp_path / "again.log")
        told = [json.loads(one) for one in (tmp_path / "again.log").read_text().splitlines() if one.startswith("{")]
        assert [(one["outcome"], one["messages"]) for one in told] == [("resumed", LARGE - 2)]
        await compare(origin, silt, "A")

    with apart(tmp_path) as (origin, silt):
        asyncio.run(script(origin, silt))


def size_of(folder: Path) -> int:
    """Bytes of the files of a table."""
    return sum(file.stat().st_size for file in folder.glob("*.parquet"))


def test_a_mirror_through_the_relay_outlives_kills(tmp_path: Path) -> None:
    """Each is killed in turn while messages come; at the end the mirror has each at its sequence."""

    async def script(origin: NatsServer, silt: Gateway) -> None:
        await fill(origin.url, "A", COUNT)
        follower = Child(command("import", origin, silt, "A", "--follow"), tmp_path / "follower.log")
        follower.start()
        await asyncio.to_thread(follower.wait_log, re.compile("up to date"))
        for round_, victim in enumerate((follower, silt, origin.child)):
            await _publish(origin, 500)
            revive(victim)
            await until(lambda: answers_api(origin.url), seconds=60)
            await _publish(origin, 500)
            last = COUNT + 1000 * (round_ + 1)
            await until(lambda seq=last: _reached(silt, seq), seconds=200)  # type: ignore[misc]
        await compare(origin, silt, "A")
        follower.stop()

    with apart(tmp_path) as (origin, silt):
        asyncio.run(script(origin, silt))


async def _publish(origin: NatsServer, count: int) -> None:
    connection = await nats.connect(origin.url)
    js = connection.jetstream(timeout=30)
    for number in range(count):
        await js.publish("A.more", b"%d" % number)
    await connection.close()


async def _reached(silt: Gateway, seq: int) -> bool:
    connection = await nats.connect(silt.hub.url)
    try:
        return (await connection.jetstream().stream_info("A")).state.last_seq >= seq
    except nats.errors.Error:
        return False
    finally:
        await connection.close()


async def check_cut_over(connection: Client, movers: Movers) -> None:
    """Each stream stands for itself, with what was acknowledged and the consumers' positions."""
    here, place = connection.jetstream(), await Origin.at(Api(connection, timeout=30), "")
    for name, ledger in movers.ledgers.items():
        async with place.read(name) as reading:
            assert {one.name for one in reading.consumers} == {"w", "owing"}
            stored = {one.data.decode(): one.seq async for run in reading.runs for one in run}
        assert {key: stored.get(key) for key in ledger.published} == ledger.published
        assert set(ledger.done) == set(ledger.published)
        assert set(ledger.done.values()) == {1}
        info = await here.stream_info(name)
        assert info.config.subjects == [f"{name}.>"]
        assert not (info.config.metadata or {}).get("silt.cutover")
        assert (await here.consumer_info(name, "owing")).num_ack_pending == 3


def test_a_cutover_that_was_killed_is_ended_by_another(tmp_path: Path) -> None:
    """Killed at any moment after the origin was stopped: the next one ends it, nothing is lost, nothing twice."""

    async def script(origin: NatsServer, silt: Gateway) -> None:
        names = [f"C{number}" for number in range(len(CUT_AFTER))]
        connections = await connected((origin.url, silt.hub.url))
        js = connections[0].jetstream()
        for name in names:
            await fill(origin.url, name, 100)
            await js.add_consumer(name, durable_name="w", ack_policy="explicit", filter_subject=f"{name}.now")
            await js.add_consumer(name, durable_name="owing", ack_policy="explicit")
            await (await js.pull_subscribe_bind("owing", name)).fetch(3)
        follower = Child(command("import", origin, silt, *names, "--follow"), tmp_path / "follower.log")
        follower.start()
        await until(lambda: follower.log.read_text().count("up to date") == len(names), seconds=120)
        movers = Movers(connections)
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(movers.publisher(name, f"{name}.now", pause=0.01))
                tasks.create_task(movers.worker(name, "w"))
            for name, after in zip(names, CUT_AFTER, strict=True):
                line = command("cutover", origin, silt, name)
                first = Child(line, tmp_path / f"{name}.log")
                first.start()

                async def is_stopped(stream: str = name) -> bool:
                    return (await js.stream_info(stream)).config.subjects == [f"silt.cutover.{stream}"]

                await until(is_stopped, seconds=60)
                await asyncio.sleep(after)
                first.kill()
                await until_done(line, tmp_path / f"{name}-again.log")
            await until(lambda: all("w" in movers.ledgers[name].moved for name in names), seconds=120)
            movers.stopping.set()
        await check_cut_over(connections[1], movers)
        follower.stop()
        for connection in connections:
            await connection.close()

    with apart(tmp_path) as (origin, silt):
        asyncio.run(script(origin, silt))
