"""Message schedules of a gateway that is killed and started again."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.servers import silt_server
from tests.wire import Headers, Wire, header_block


async def ask(wire: Wire, subject: str, body: bytes = b"", headers: Headers = ()) -> dict[str, Any]:
    """One request and its answer."""
    inbox = wire.send(subject, body, header=header_block(headers) if headers else b"")
    reply = await wire.receive(inbox)
    assert reply is not None, subject
    return dict(json.loads(reply.payload))


async def messages(wire: Wire, least: int) -> dict[str, int]:
    """How many messages each subject has, once there are at least so many in the stream."""
    for _ in range(100):
        found = await ask(wire, "$JS.API.STREAM.INFO.S", b'{"subjects_filter": ">"}')
        if found["state"]["messages"] >= least:
            break
        await asyncio.sleep(0.1)
    return dict(found["state"].get("subjects", {}))


def test_schedules_survive_kill(tmp_path: Path) -> None:
    """A one-time schedule that came due while the gateway was dead fires once after that; a repeating one goes on."""
    due = datetime.now(UTC) + timedelta(seconds=2)

    async def before(url: str) -> None:
        async with Wire.open(url) as wire:
            config = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True}
            await ask(wire, "$JS.API.STREAM.CREATE.S", json.dumps(config).encode())
            once = [("Nats-Schedule", f"@at {due:%Y-%m-%dT%H:%M:%SZ}"), ("Nats-Schedule-Target", "s.once")]
            again = [("Nats-Schedule", "@every 1s"), ("Nats-Schedule-Target", "s.again")]
            later = [("Nats-Schedule", "@at 2099-01-01T00:00:00Z"), ("Nats-Schedule-Target", "s.later")]
            for subject, headers in (("s.a", again), ("s.b", once), ("s.c", later), ("s.d", once)):
                assert "error" not in await ask(wire, subject, b"x", headers)
            await ask(wire, "$JS.API.STREAM.PURGE.S", b'{"filter": "s.d"}')

    async def after(url: str) -> dict[str, int]:
        async with Wire.open(url) as wire:
            return await messages(wire, 5)

    with silt_server(tmp_path) as running:
        asyncio.run(before(running.hub.url))
        running.child.kill()
        time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
        running.start()
        found = asyncio.run(after(running.hub.url))
        running.child.kill()
        running.start()
        last = asyncio.run(after(running.hub.url))
    assert found.pop("s.again") >= 2
    assert found == {"s.a": 1, "s.once": 1, "s.c": 1}
    assert last.pop("s.again") >= 2
    assert last == found
