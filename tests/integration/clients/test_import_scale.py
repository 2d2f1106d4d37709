"""Twenty streams of a JetStream, with buckets, publishers and workers that go on, followed and cut over.

``SILT_IMPORT_MESSAGES`` sets how many messages there are before; the figures are printed.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from api.moving.origin import Origin
from api.moving.stream_comparison import ComparedSpan, StreamComparison
from consumers.client.api_call import Api
from delta_store.values.stream_message import StreamMessage
from tests.moving_load import Ledger, Movers, connected, make_buckets
from tests.servers import Child
from tests.waits import until

MESSAGES = int(os.environ.get("SILT_IMPORT_MESSAGES", "40000"))
PLAIN = [f"S{number:02}" for number in range(17)]
BUCKETS = ["KV_PLAIN", "KV_HISTORY", "OBJ_FILES"]
BUSY = {name: f"{name}.now" for name in PLAIN[:6]} | {"KV_PLAIN": "$KV.PLAIN.now", "KV_HISTORY": "$KV.HISTORY.now"}
WORKED = PLAIN[:6]
BATCH = 2000


async def fill(connection: Client) -> None:
    """Fill the origin: messages with headers, gaps, consumers that have done a part of their work, buckets."""
    js = connection.jetstream(timeout=30)
    for name in PLAIN:
        await js.add_stream(name=name, subjects=[f"{name}.>"], max_msgs_per_subject=-1)
        for start in range(0, MESSAGES // len(PLAIN), BATCH):
            for number in range(start, min(start + BATCH, MESSAGES // len(PLAIN))):
                headers = {"Of": str(number)} if number % 10 == 0 else None
                await connection.publish(
                    f"{name}.{number % 50}", b"%s-%08d" % (name.encode(), number) + b"." * 80, headers=headers
                )
            await connection.flush(30)

        async def is_stored(stream: str = name) -> bool:
            return (await js.stream_info(stream)).state.messages == MESSAGES // len(PLAIN)

        await until(is_stored, seconds=120)
        await js.delete_msg(name, 3)
        await js.add_consumer(name, durable_name="w", ack_policy="explicit", filter_subject=f"{name}.now")
        await js.add_consumer(name, durable_name="idle", ack_policy="explicit")
        reader = await js.pull_subscribe_bind("idle", name)
        for place, message in enumerate(await reader.fetch(20)):
            if place != 7:
                await message.ack_sync()
    plain, _, files = await make_buckets(js, puts=300, keys=(40, 20))
    await plain.purge("k1")
    for number in range(5):
        await files.put(f"file{number}", bytes([number]) * 700_000)
    await files.delete("file2")


async def messages(place: Origin, stream: str) -> list[StreamMessage]:
    """All messages of a stream."""
    async with place.read(stream, consumers=False) as reading:
        return [message async for run in reading.runs for message in run]


async def check(movers: Movers, origin: Origin, silt: Origin) -> None:
    """Nothing is lost, nothing twice: each message of the origin, and each that was acknowledged, at its sequence."""
    for name in (*PLAIN, *BUCKETS):
        info = await origin.info(name)
        span = ComparedSpan(name, info["state"]["last_seq"], info["state"]["messages"], mirrored=True)
        if name not in BUSY or name in WORKED:
            _, difference = await StreamComparison(
                origin, silt, lambda _name, _total: nullcontext(lambda _done: None)
            ).of(span)
            assert not difference, f"{name}: {difference}"
        ledger = movers.ledgers.get(name, Ledger())
        stored = {one.data.decode(errors="replace"): one.seq for one in await messages(silt, name)}
        if name in WORKED:
            assert {key: stored.get(key) for key in ledger.published} == ledger.published, name
            assert set(ledger.done) == set(ledger.published), name
            assert set(ledger.done.values()) == {1}, name
        elif name in BUSY:
            newest = max(ledger.published.values())
            assert newest in stored.values(), name


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_twenty_streams_are_cut_over_under_load(new_pair: tuple[str, str], tmp_path: Path) -> None:
    """One command follows all, one cuts them over; clients wait less than two seconds."""
    asyncio.run(_test(new_pair, tmp_path))


async def _test(pair: tuple[str, str], folder: Path) -> None:
    connections = await connected(pair)
    movers = Movers(connections)
    figures: dict[str, Any] = {"messages": MESSAGES}
    follow = ["import", "--all", "--follow", "--from", pair[0], "--server", pair[1], "--output", "ndjson"]
    follower = Child([sys.executable, "-m", "api.cli.main", *follow], folder / "follower.log")
    said = folder / "follower.log"
    try:
        await fill(connections[0])
        begun = time.perf_counter()
        follower.start()
        async with asyncio.TaskGroup() as tasks:
            for name, subject in BUSY.items():
                tasks.create_task(movers.publisher(name, subject, pause=0.02))
            for name in WORKED:
                tasks.create_task(movers.worker(name, "w"))
            await until(lambda: said.read_text().count("up to date") == len(PLAIN + BUCKETS), seconds=2000)
            figures["followed after s"] = round(time.perf_counter() - begun, 1)
            cut = ["cutover", *PLAIN, *BUCKETS, "--from", pair[0], "--server", pair[1], "--output", "ndjson"]
            begun = time.perf_counter()
            done = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "api.cli.main",
                *cut,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await done.communicate()
            assert done.returncode == 0, err.decode()[-3000:]
            figures["cut over in s"] = round(time.perf_counter() - begun, 1)
            rows = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
            await until(lambda: all("w" in movers.ledgers[name].moved for name in WORKED), seconds=120)
            movers.stopping.set()
        figures["pauses ms"] = sorted(row["pause_ms"] for row in rows)
        figures["publishers' longest ms"] = sorted(round(movers.ledgers[name].longest_ms) for name in BUSY)
        figures["published meanwhile"] = sum(len(movers.ledgers[name].published) for name in BUSY)
        print(json.dumps(figures))  # noqa: T201  # the figures
        origin, silt = [await Origin.at(Api(one, timeout=30), "") for one in connections]
        await check(movers, origin, silt)
    finally:
        follower.stop()
        for connection in connections:
            await connection.close()
