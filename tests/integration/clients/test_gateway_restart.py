"""Who waits for messages when the gateway ends and starts again, while the hub stays: told as nats-server tells."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.servers import Child, Gateway, answers_api, nats_server, silt_server, wait_until
from tests.wire import Delivered, Wire

SECOND = 1_000_000_000
_REPLIES = ("plain", "part", "beating")


async def _ask(wire: Wire, verb: str, body: dict[str, Any]) -> None:
    reply = await wire.ask(f"$JS.API.{verb}", json.dumps(body).encode())
    assert reply is not None
    assert b'"error"' not in reply.payload, reply.payload


async def _wait_for_messages(wire: Wire) -> list[tuple[str, bytes]]:
    """Three requests that wait, one of them partly served; the list that their receivers write into."""
    came: list[tuple[str, bytes]] = []

    def listener(message: Delivered) -> None:
        came.append((message.subject, message.header or message.payload))

    for reply in _REPLIES:
        wire.listen(reply, listener)
    wire.listen("s.>", listener)
    await _ask(wire, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
    await _ask(wire, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C", "ack_policy": "explicit"}})
    for reply, body in zip(
        _REPLIES,
        (
            {"batch": 5, "expires": 60 * SECOND},
            {"batch": 7, "expires": 60 * SECOND, "max_bytes": 5000},
            {"batch": 1, "expires": 60 * SECOND, "idle_heartbeat": 30 * SECOND},
        ),
        strict=True,
    ):
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", json.dumps(body).encode(), reply=reply)
        await asyncio.sleep(0.05)
    for _ in range(2):
        await wire.ask("s.1", b"x")
    await asyncio.sleep(0.3)
    return came


async def _sent_off(url: str, child: Child) -> list[tuple[str, bytes]]:
    """What the receivers get when the server is told to end."""
    async with Wire.open(url) as wire:
        came = await _wait_for_messages(wire)
        came.clear()
        await asyncio.to_thread(child.stop)
        await asyncio.sleep(0.3)
        return sorted(came)


def test_waiting_requests_are_sent_off_and_called_back(tmp_path: Path) -> None:
    """The end is told as nats-server tells it; the next gateway lets clients ask anew, whom the hub kept connected."""
    with nats_server(tmp_path / "reference", jetstream=True) as reference:
        wait_until(lambda: answers_api(reference.url), what="nats-server's JetStream answers")
        expected = asyncio.run(_sent_off(reference.url, reference.child))
    assert [subject for subject, _ in expected] == sorted(_REPLIES)
    with silt_server(tmp_path / "silt") as silt:
        pushed: list[int] = []

        async def restart(times: int) -> list[list[tuple[str, bytes]]]:
            """What the receivers get while the gateway is down, and at each start; a consumer in memory goes on."""
            async with Wire.open(silt.hub.url) as wire:
                came = await _wait_for_messages(wire)
                wire.listen("m", lambda one: pushed.append(int(one.reply.split(".")[6])))
                config = {"name": "M", "mem_storage": True, "ack_policy": "none", "deliver_subject": "m"}
                await _ask(wire, "CONSUMER.CREATE.S.M", {"stream_name": "S", "config": config})
                seen = []
                for _ in range(times):
                    came.clear()
                    await asyncio.to_thread(silt.child.stop)
                    await asyncio.sleep(0.2)
                    seen.append(sorted(came))
                    came.clear()
                    await asyncio.to_thread(silt.start)
                    await asyncio.sleep(0.2)
                    seen.append(sorted(came))
                    await wire.ask("s.1", b"y")
                    await asyncio.sleep(0.2)
                return seen

        told, called, *again = asyncio.run(restart(2))
    assert told == expected
    ended = b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 0\r\nNats-Pending-Bytes: 0\r\n\r\n"
    assert called == sorted(
        (reply, one) for reply in _REPLIES for one in (b"NATS/1.0 409 Leadership Change\r\n\r\n", ended)
    )
    assert again == [[], []]
    assert pushed == [1, 2, 3, 4]


def test_what_was_delivered_survives_a_kill(tmp_path: Path) -> None:
    """A lone delivery is recorded at once, with who waits for more: kill -9 does not make it the first one again."""

    async def main(silt: Gateway) -> None:
        async with Wire.open(silt.hub.url) as wire:
            await _ask(wire, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
            config = {"name": "C", "ack_policy": "explicit", "ack_wait": 60 * SECOND}
            await _ask(wire, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
            came: asyncio.Queue[Delivered] = asyncio.Queue(maxsize=100)
            wire.listen("r", came.put_nowait)
            for number in range(3):
                body = {"batch": 9, "expires": 60 * SECOND}
                wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", json.dumps(body).encode(), reply="r")
                await asyncio.sleep(0.6)
                await wire.ask("s.1", b"x")
                async with asyncio.timeout(20):
                    assert (await came.get()).payload == b"x"
                    await asyncio.sleep(0.1)
                    await asyncio.to_thread(silt.child.kill)
                    await asyncio.to_thread(silt.start)
                    assert [(await came.get()).status[:3] for _ in range(2)] == ["409", "408"]
                reply = await wire.ask("$JS.API.CONSUMER.INFO.S.C")
                assert reply is not None
                assert json.loads(reply.payload)["delivered"]["stream_seq"] == number + 1

    with silt_server(tmp_path) as silt:
        asyncio.run(main(silt))
