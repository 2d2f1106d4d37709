"""Kill the gateway with SIGKILL while consumers work, and hold what their clients saw against what was published.

Run alone: ``python -m tests.faults.kill_consumers --rounds 50 [--seed N]``. Publishers publish; three pull consumers, a
push consumer with a queue group of two and an ordered consumer of nats-py take everything. In the end everything that
is stored was handled by each consumer, nothing came again after its double ack was answered, and the ack floors stand
where the acks put them.
"""

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats

from tests.faults.kill_gateway import create_stream
from tests.faults.publishers import PREFIX, STREAM, Publishers
from tests.faults.workers import Progress, Worker, consumer_info
from tests.servers import Gateway, gateway, nats_server
from tests.wire import Wire

PULL = ("pull-0", "pull-1", "pull-2")
PUSH = "push"
_DELIVER = "deliver.push"
_GROUP = "workers"
_ACK_WAIT_NS = 2_000_000_000
_ALIVE_SECONDS_MAX = 1.2
_FINISH_SECONDS = 90.0
# Nothing settles here: fewer commits keep the journal, which every restart reads whole, small.
_PACED = {"SILT_JOURNAL__COMMIT_INTERVAL_MS": "10"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all invariants held."""

    seed: int
    rounds: int
    stored: int
    handled: dict[str, int]
    finished: dict[str, int]
    problems: list[str]


async def kill_rounds(folder: Path, *, rounds: int, seed: int) -> Outcome:
    """Run ``rounds`` rounds in ``folder``; the same seed gives the same kill times and messages."""
    rng = random.Random(seed)
    progress = {name: Progress(name) for name in (*PULL, PUSH)}
    problems: list[str] = []
    with nats_server(folder / "hub", leaf=True) as hub, gateway(hub, folder / "data", env=_PACED) as running:
        async with Wire.open(hub.url, inbox="_INBOX.kill") as wire, Wire.open(hub.url, inbox="_INBOX.work") as clients:
            await create_stream(wire)
            await _create_consumers(wire)
            ordered: list[int] = []
            async with _ordered(hub.url, ordered), _working(clients, progress):
                publishers = Publishers(wire, workers=8, rng=rng)
                async with _publishing(publishers):
                    for _ in range(rounds):
                        await _round(running, rng)
                        problems += await _floors(wire, progress)
                last = await _finish(wire, progress, ordered)
                problems += await _floors(wire, progress)
    problems += _reckon(progress, ordered, last)
    return Outcome(
        seed=seed,
        rounds=rounds,
        stored=last,
        handled={name: sum(one.handled.values()) for name, one in progress.items()},
        finished={name: len(one.finished) for name, one in progress.items()},
        problems=problems,
    )


async def _create_consumers(wire: Wire) -> None:
    common: dict[str, Any] = {"ack_policy": "explicit", "ack_wait": _ACK_WAIT_NS, "max_ack_pending": 500}
    configs = [{"durable_name": name, **common} for name in PULL]
    configs.append({"durable_name": PUSH, "deliver_subject": _DELIVER, "deliver_group": _GROUP, **common})
    for config in configs:
        body = json.dumps({"stream_name": STREAM, "config": config}).encode()
        reply = await wire.ask(f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{config['durable_name']}", body)
        assert reply is not None, "CONSUMER.CREATE is not answered"
        assert b'"error"' not in reply.payload, reply.payload


@contextlib.asynccontextmanager
async def _working(wire: Wire, progress: dict[str, Progress]) -> AsyncIterator[None]:
    pulling = [Worker(wire, progress[name]) for name in PULL]
    pushed = [Worker(wire, progress[PUSH]) for _ in range(2)]
    async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
        for worker in pushed:
            worker.listen(_DELIVER, queue=_GROUP)
            group.create_task(worker.pushed())
        for worker in pulling:
            group.create_task(worker.pull(STREAM))
        try:
            yield
        finally:
            for worker in (*pulling, *pushed):
                worker.stopped = True


@contextlib.asynccontextmanager
async def _publishing(publishers: Publishers) -> AsyncIterator[None]:
    async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
        group.create_task(publishers.run())
        try:
            yield
        finally:
            publishers.stop()


@contextlib.asynccontextmanager
async def _ordered(url: str, seen: list[int]) -> AsyncIterator[None]:
    """An ordered consumer of nats-py that notes the sequences it is given."""
    client = await nats.connect(url)

    async def note(message: Any) -> None:
        seen.append(message.metadata.sequence.stream)

    await client.jetstream().subscribe(
        f"{PREFIX}.>", cb=note, ordered_consumer=True, idle_heartbeat=1.0, pending_msgs_limit=1_000_000
    )
    try:
        yield
    finally:
        await client.close()


async def _round(running: Gateway, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0.05, _ALIVE_SECONDS_MAX))
    running.child.kill()
    await asyncio.to_thread(running.start)


async def _floors(wire: Wire, progress: dict[str, Progress]) -> list[str]:
    """Consumers whose ack floor is below what answered double acks alone make."""
    problems = []
    for name, one in progress.items():
        least = one.floor_at_least()
        floor = (await consumer_info(wire, STREAM, name))["ack_floor"]["stream_seq"]
        if floor < least:
            problems.append(f"{name}: the ack floor is {floor}, answered double acks make it {least}")
    return problems


async def _finish(wire: Wire, progress: dict[str, Progress], ordered: list[int]) -> int:
    """Wait until the consumers have nothing left; gives the stream's last sequence."""
    reply = await wire.ask(f"$JS.API.STREAM.INFO.{STREAM}")
    assert reply is not None
    last: int = json.loads(reply.payload)["state"]["last_seq"]
    try:
        async with asyncio.timeout(_FINISH_SECONDS):
            for name in progress:
                while True:
                    info = await consumer_info(wire, STREAM, name)
                    if not info["num_pending"] and not info["num_ack_pending"]:
                        break
                    await asyncio.sleep(0.2)
            for _ in range(int(_FINISH_SECONDS / 0.2)):
                if ordered and ordered[-1] >= last:
                    break
                await asyncio.sleep(0.2)
    except TimeoutError:
        return last
    return last


def _reckon(progress: dict[str, Progress], ordered: list[int], last: int) -> list[str]:
    problems = []
    for name, one in progress.items():
        missed = [seq for seq in range(1, last + 1) if not one.handled[seq]]
        if missed:
            problems.append(f"{name} was never given {len(missed)} messages, the first is {missed[0]}")
        if one.again:
            problems.append(f"{name} was given {len(one.again)} messages again after their acks: {one.again[:5]}")
        unacked = last - one.floor_at_least() if not one.finished else 0
        if unacked:
            problems.append(f"{name} finished nothing")
    if ordered != list(range(1, last + 1)):
        wrong = next((place for place, seq in enumerate(ordered) if seq != place + 1), len(ordered))
        problems.append(f"ordered: {len(ordered)} of {last}, wrong from place {wrong}: {ordered[wrong : wrong + 3]}")
    return problems


def main() -> int:
    """Run from the command line; status 1 when an invariant did not hold."""
    parser = argparse.ArgumentParser(description="Kill the gateway while consumers work.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="silt-kill-consumers-"))
    outcome = asyncio.run(kill_rounds(folder, rounds=options.rounds, seed=options.seed))
    sys.stdout.write(f"{outcome}\n")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
