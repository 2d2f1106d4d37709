"""A wall clock that jumps by hours, both ways, while messages come in and go out."""

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.faults.kill_gateway import create_stream
from tests.faults.publishers import STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_direct_get
from tests.faults.reckoning import everything_wrong
from tests.faults.shifted_clock import NoCompiler, ShiftedClock
from tests.servers import Gateway, gateway, nats_server
from tests.waits import until
from tests.wire import Delivered, Wire, header_block

HOUR = 3600
JUMPS = (6 * HOUR, 0, -12 * HOUR, 3 * HOUR, -1 * HOUR)
PULL_SECONDS = 1
LATE_SECONDS = 8.0


@pytest.fixture
def clock(tmp_path: Path) -> ShiftedClock:
    """The gateway's clock."""
    try:
        return ShiftedClock(tmp_path)
    except NoCompiler as reason:
        pytest.skip(str(reason))


@pytest.fixture
def server(tmp_path: Path, clock: ShiftedClock) -> Iterator[Gateway]:
    """A gateway with that clock; nats-server keeps the true one."""
    with (
        nats_server(tmp_path / "hub", leaf=True) as hub,
        gateway(hub, tmp_path / "data", env=clock.env) as running,
    ):
        yield running


async def ask(wire: Wire, verb: str, **body: Any) -> dict[str, Any]:
    """The answer of the API, which must come."""
    reply = await wire.ask(f"$JS.API.{verb}", json.dumps(body).encode() if body else b"", seconds=10)
    assert reply is not None, verb
    answer: dict[str, Any] = json.loads(reply.payload)
    return answer


async def made(wire: Wire, name: str, **config: Any) -> None:
    """A stream of one subject."""
    answer = await ask(wire, f"STREAM.CREATE.{name}", name=name, subjects=[name.lower()], allow_direct=True, **config)
    assert "error" not in answer, answer


async def published(wire: Wire, subject: str, *, msg_id: str = "") -> dict[str, Any]:
    """The acknowledgement of one message."""
    header = header_block([("Nats-Msg-Id", msg_id)]) if msg_id else b""
    reply = await wire.ask(subject, b"x", header=header, seconds=10)
    assert reply is not None
    answer: dict[str, Any] = json.loads(reply.payload)
    assert "error" not in answer, answer
    return answer


async def until_left(wire: Wire, stream: str, wanted: int) -> None:
    """Wait until a stream has so many messages."""

    async def left() -> bool:
        return bool((await ask(wire, f"STREAM.INFO.{stream}"))["state"]["messages"] == wanted)

    await until(left)


async def times_of(wire: Wire, last: int) -> list[str]:
    """The time of each message of the stream, by sequence."""
    found = []
    for seq in range(1, last + 1):
        reply = await wire.ask(f"$JS.API.DIRECT.GET.{STREAM}", json.dumps({"seq": seq}).encode(), seconds=10)
        assert reply is not None
        found.append(reply.get("Nats-Time-Stamp") or "")
    return found


def nanoseconds(text: str) -> tuple[datetime, str]:
    """A time as something that can be compared, to the nanosecond."""
    whole, _, rest = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(whole), rest.ljust(9, "0")


async def check_times(wire: Wire) -> None:
    """Times grow with sequences, and each leads to its own message."""
    last = (await ask(wire, f"STREAM.INFO.{STREAM}"))["state"]["last_seq"]
    times = await times_of(wire, last)
    assert all(nanoseconds(one) < nanoseconds(two) for one, two in pairwise(times))
    for seq in random.Random(last).sample(range(1, last + 1), 30):
        body = json.dumps({"start_time": times[seq - 1], "next_by_subj": ">"}).encode()
        reply = await wire.ask(f"$JS.API.DIRECT.GET.{STREAM}", body, seconds=10)
        assert reply is not None
        assert int(reply.get("Nats-Sequence") or 0) == seq, (seq, times[seq - 1], reply.header)


def test_what_is_acknowledged_while_the_clock_jumps_is_there_in_order(server: Gateway, clock: ShiftedClock) -> None:
    """Nothing is lost or twice, times grow, and a start 11 hours before what is there already changes none of it."""

    async def scene() -> None:
        async with Wire.open(server.hub.url) as wire:
            await create_stream(wire)
            publishers = Publishers(wire, workers=4, rng=random.Random(15), pause_seconds=0.02)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(publishers.run())
                for jump in JUMPS:
                    await asyncio.sleep(1)
                    clock.shift(jump)
                await asyncio.sleep(1)
                clock.shift(-11 * HOUR)
                await asyncio.to_thread(server.child.kill)
                await asyncio.to_thread(server.start)
                await asyncio.sleep(1)
                publishers.stop()
            history = publishers.history
            assert len(history.acked) > 200
            assert everything_wrong(history, await by_direct_get(wire, STREAM)) == []
            assert unexpected_refusals(history.refused) == []
            await check_times(wire)

    asyncio.run(scene())


def test_age_and_duplicates_follow_the_clock(server: Gateway, clock: ShiftedClock) -> None:
    """A jump ahead ages what is there; one back brings nothing back, and what is new stays. No id is taken twice."""

    async def scene() -> None:
        async with Wire.open(server.hub.url) as wire:
            minute = 60 * 1_000_000_000
            await made(wire, "AGED", max_age=minute, duplicate_window=minute)
            for number in range(5):
                await published(wire, "aged", msg_id=f"id-{number}")
            clock.shift(-6 * HOUR)
            assert (await published(wire, "aged", msg_id="id-3"))["duplicate"]
            await until_left(wire, "AGED", 5)
            clock.shift(HOUR)
            await until_left(wire, "AGED", 0)
            clock.shift(0)
            assert (await published(wire, "aged", msg_id="id-new"))["seq"] == 6
            await asyncio.sleep(2)
            await until_left(wire, "AGED", 1)
            assert (await published(wire, "aged", msg_id="id-new"))["duplicate"]

    asyncio.run(scene())


@pytest.mark.parametrize("jump", [-6 * HOUR, 6 * HOUR])
def test_consumers_go_on(jump: int, server: Gateway, clock: ShiftedClock) -> None:
    """A pull ends when it should, messages are delivered, and again after ack_wait, whichever way the clock jumped."""

    async def scene() -> None:
        async with Wire.open(server.hub.url) as wire:
            await made(wire, "WORK")
            config = {"durable_name": "D", "ack_policy": "explicit", "ack_wait": 2_000_000_000}
            assert "error" not in await ask(
                wire, "CONSUMER.CREATE.WORK.D", stream_name="WORK", config=config, action="create"
            )
            pull = json.dumps({"batch": 1, "expires": PULL_SECONDS * 1_000_000_000}).encode()
            long = json.dumps({"batch": 1, "expires": 20 * 1_000_000_000}).encode()
            waiting = wire.send("$JS.API.CONSUMER.MSG.NEXT.WORK.D", pull)
            await asyncio.sleep(0.3)
            clock.shift(jump)
            ended = await wire.receive(waiting, seconds=LATE_SECONDS)
            assert ended is not None, "the pull never ended"
            assert ended.status.startswith("408")
            await published(wire, "work")
            delivered: asyncio.Queue[Delivered] = asyncio.Queue()
            wire.listen("got", delivered.put_nowait)
            async with asyncio.timeout(LATE_SECONDS):
                for times in ("first", "again: it was not acknowledged within ack_wait"):
                    wire.publish("$JS.API.CONSUMER.MSG.NEXT.WORK.D", long, reply="got")
                    assert (await delivered.get()).payload == b"x", times

    asyncio.run(scene())
