"""A watch goes on over a crash of the gateway, without a gap and without a repetition."""

import asyncio
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.errors import TimeoutError as NothingYet

from tests.servers import Gateway, silt_server

WAIT_SECONDS = 60
NUMBER = 20


async def _collect(watcher: Any, number: int) -> list[bytes | None]:
    """The next values that a watcher gives, however long it is silent between them."""
    found: list[bytes | None] = []
    async with asyncio.timeout(WAIT_SECONDS):
        while len(found) < number:
            try:
                update = await watcher.updates(timeout=2)
            except NothingYet:
                continue
            if update is not None:
                found.append(update.value)
    return found


async def _watch_over_a_crash(silt: Gateway) -> list[bytes | None]:
    client = await nats.connect(silt.hub.url)
    try:
        bucket = await client.jetstream().create_key_value(bucket="W", history=1, direct=True)
        watcher: Any = await bucket.watchall()
        for number in range(NUMBER):
            await bucket.put(f"k{number}", b"before")
        found = await _collect(watcher, NUMBER)
        silt.child.kill()
        await asyncio.to_thread(silt.start)
        for number in range(NUMBER):
            await bucket.put(f"new{number}", b"%d" % number)
        found += await _collect(watcher, NUMBER)
        assert (await bucket.get("k0")).value == b"before"
        await watcher.stop()
        return found
    finally:
        await client.close()


@pytest.mark.slow
def test_watch_goes_on(tmp_path: Path) -> None:
    """nats-py's watch notices by missing heartbeats, begins anew where it was, and gives each later value once."""
    with silt_server(tmp_path) as silt:
        found = asyncio.run(_watch_over_a_crash(silt))
    assert found == [b"before"] * NUMBER + [b"%d" % number for number in range(NUMBER)]
