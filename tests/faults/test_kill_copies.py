"""A gateway that is killed while it copies goes on where it stopped: nothing twice, nothing left out."""

import asyncio
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from tests.servers import Gateway, silt_server
from tests.wire import Wire

MESSAGES = 60_000
KILLS = 3
WAIT = 60.0


async def api(wire: Wire, verb: str, body: Any = None) -> dict[str, Any]:
    """One answer of the JetStream API."""
    payload = json.dumps(body).encode() if body is not None else b""
    reply = await wire.receive(wire.send(f"$JS.API.{verb}", payload))
    assert reply is not None, verb
    return dict(json.loads(reply.payload))


async def begin(url: str) -> None:
    """Fill a stream, then have it mirrored and gathered."""
    async with Wire.open(url) as wire:
        await api(wire, "STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"]})
        for number in range(1, MESSAGES + 1):
            last = number % 500 == 0
            inbox = wire.send(f"o.{number % 7}", b"%d" % number, expect_reply=last)
            if last:
                assert await wire.receive(inbox) is not None
        await api(wire, "STREAM.CREATE.M", {"name": "M", "mirror": {"name": "O"}})
        await api(wire, "STREAM.CREATE.S", {"name": "S", "sources": [{"name": "O", "filter_subject": "o.*"}]})


async def whole(url: str) -> None:
    """Wait until both copies have arrived, and compare them with the origin."""
    async with Wire.open(url) as wire:
        async with asyncio.timeout(WAIT):
            while True:
                states = [(await api(wire, f"STREAM.INFO.{name}"))["state"] for name in "OMS"]
                if all(state["messages"] >= MESSAGES for state in states):
                    break
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        states = [(await api(wire, f"STREAM.INFO.{name}"))["state"] for name in "OMS"]
        assert [state["last_seq"] for state in states] == [MESSAGES] * 3
        for seq in range(1, MESSAGES + 1, MESSAGES // 97):
            origin, mirror, source = [
                (await api(wire, f"STREAM.MSG.GET.{name}", {"seq": seq}))["message"] for name in "OMS"
            ]
            assert mirror == origin
            assert source["data"] == origin["data"]
            assert f" {seq} o.* >" in b64decode(source["hdrs"]).decode()


def test_a_killed_gateway_goes_on_copying(tmp_path: Path) -> None:
    """Killed several times in the midst of it, the copies are whole in the end."""
    with silt_server(tmp_path) as silt:
        asyncio.run(begin(silt.hub.url))
        for _ in range(KILLS):
            _kill(silt)
        asyncio.run(whole(silt.hub.url))


def _kill(silt: Gateway) -> None:
    silt.child.kill()
    silt.start()
