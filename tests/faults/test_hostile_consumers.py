"""Clients that misuse consumers: one never reads, one acks garbage, one makes thousands of ephemerals, one vanishes.

Each runs beside a well-behaved client, which must not notice; the gateway's memory stays within a bound.
"""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.servers import Gateway, silt_server
from tests.wire import Delivered, Wire

STREAM = "HOSTILE"
MESSAGES = 20_000
PAYLOAD = b"x" * 1_000
EPHEMERALS = 5_000
# The gateway with its libraries takes about 200 MiB; its caches are bounded by 384 MiB.
MEMORY_BYTES_MAX = 900 << 20
_GARBAGE = (
    b"+NAK",
    b"-NAK {",
    b'-NAK {"delay": "soon"}',
    b"+WPI\x00",
    b"\xff\xfe",
    b"+NXT {]",
    b"-NAK 5 parsecs",
    b"+",
)


@pytest.fixture(scope="module")
def silt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose stream holds 20 MB of messages."""
    with silt_server(tmp_path_factory.mktemp("hostile")) as running:
        asyncio.run(_fill(running.hub.url))
        yield running


async def _fill(url: str) -> None:
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(name=STREAM, subjects=["hostile.>"])
    for start in range(0, MESSAGES, 1_000):
        waiting = [await js.publish_async(f"hostile.{n % 10}", PAYLOAD) for n in range(start, start + 1_000)]
        await asyncio.gather(*waiting)
    await client.close()


def memory(running: Gateway) -> int:
    """Resident bytes of the gateway now."""
    status = Path(f"/proc/{running.child.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


async def well_behaved(url: str, *, messages: int = 3_000) -> None:
    """Create a consumer, take messages with acks, and delete it: what hostile clients must not disturb."""
    client = await nats.connect(url)
    js = client.jetstream()
    sub = await js.pull_subscribe("hostile.>", durable=f"good-{time.monotonic_ns()}", stream=STREAM)
    seen: list[int] = []
    while len(seen) < messages:
        for message in await sub.fetch(500, timeout=10):
            seen.append(message.metadata.sequence.stream)
            await message.ack()
    assert seen == list(range(1, len(seen) + 1))
    await sub.unsubscribe()
    await client.close()


@contextmanager
def deaf(url: str, *lines: bytes) -> Iterator[socket.socket]:
    """A connection that sends these lines and never reads."""
    host, port = url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(b'CONNECT {"verbose":false,"headers":true}\r\n' + b"".join(lines))
        yield peer


def request(subject: str, body: dict[str, Any], *, reply: str) -> bytes:
    """The line that publishes a request."""
    payload = json.dumps(body).encode()
    return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"


def push(name: str, deliver: str, **fields: Any) -> bytes:
    """The line that creates a push consumer which nobody acknowledges."""
    config = {"name": name, "durable_name": name, "deliver_subject": deliver, "ack_policy": "none", **fields}
    body = {"stream_name": STREAM, "config": config}
    return request(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", body, reply="hostile_reply")


async def pulled(wire: Wire, consumer: str, number: int) -> list[Delivered]:
    """So many messages, asked for by one request and never acknowledged."""
    taken: asyncio.Queue[Delivered] = asyncio.Queue(maxsize=number)
    sid = wire.listen("_INBOX.pulled", taken.put_nowait)
    body = json.dumps({"batch": number, "expires": 5_000_000_000}).encode()
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{consumer}", body, reply="_INBOX.pulled")
    async with asyncio.timeout(10):
        messages = [await taken.get() for _ in range(number)]
    wire.unlisten(sid)
    return messages


def test_a_client_that_never_reads(silt: Gateway) -> None:
    """A deaf push subscriber and a deaf puller with a huge request leave everybody else alone."""
    pull = {"batch": 1_000_000, "expires": 60_000_000_000}
    create = {"stream_name": STREAM, "config": {"durable_name": "deaf-pull", "ack_policy": "none"}}
    lines = (
        b"SUB deaf.> 1\r\n",
        push("deaf-push", "deaf.push"),
        request(f"$JS.API.CONSUMER.CREATE.{STREAM}.deaf-pull", create, reply="deaf.created"),
        request(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.deaf-pull", pull, reply="deaf.pull"),
    )
    with deaf(silt.hub.url, *lines):
        asyncio.run(well_behaved(silt.hub.url))
    assert memory(silt) < MEMORY_BYTES_MAX


def test_acks_of_garbage(silt: Gateway) -> None:
    """Acks with broken subjects, numbers and bodies change nothing for anybody."""

    async def run() -> None:
        async with Wire.open(silt.hub.url, inbox="_INBOX.garbage") as wire:
            body = {"stream_name": STREAM, "config": {"durable_name": "garbage", "ack_policy": "explicit"}}
            created = await wire.ask(f"$JS.API.CONSUMER.CREATE.{STREAM}.garbage", json.dumps(body).encode())
            assert created is not None
            assert b'"error"' not in created.payload
            assert len(await pulled(wire, "garbage", 5)) == 5
            for body_ in _GARBAGE:
                for tail in (
                    "1.1.1.1.0",
                    "x.y.z.1.0",
                    "1.99999999999999999999.1.1.0",
                    "-1.-1.-1.-1.-1",
                    "1",
                    "1.1.1.1.0.a.b.c",
                ):
                    wire.publish(f"$JS.ACK.{STREAM}.garbage.{tail}", body_, reply="_INBOX.nobody")
            wire.publish(f"$JS.ACK.{STREAM}.nobody.1.1.1.1.0", b"+ACK")
            wire.publish(f"$JS.FC.{STREAM}.garbage.x.y", b"")
            info = await wire.ask(f"$JS.API.CONSUMER.INFO.{STREAM}.garbage")
            assert info is not None
            shown = json.loads(info.payload)
            assert shown["delivered"]["stream_seq"] >= 5
            assert shown["ack_floor"]["stream_seq"] <= 1

    asyncio.run(run())
    asyncio.run(well_behaved(silt.hub.url))


def test_thousands_of_ephemerals(silt: Gateway) -> None:
    """5,000 ephemeral consumers are made, and disappear when nobody uses them."""

    async def run() -> None:
        async with Wire.open(silt.hub.url, inbox="_INBOX.many") as wire:
            config = {"ack_policy": "none", "inactive_threshold": 3_000_000_000, "mem_storage": True}
            body = json.dumps({"stream_name": STREAM, "config": config}).encode()
            for start in range(0, EPHEMERALS, 500):
                inboxes = [wire.send(f"$JS.API.CONSUMER.CREATE.{STREAM}", body) for _ in range(500)]
                for inbox in inboxes:
                    reply = await wire.receive(inbox, seconds=30)
                    assert reply is not None, start
                    assert b'"error"' not in reply.payload, reply.payload
            await well_behaved(silt.hub.url)
            for _ in range(60):
                info = await wire.ask(f"$JS.API.STREAM.INFO.{STREAM}")
                assert info is not None
                left = json.loads(info.payload)["state"]["consumer_count"]
                if left < EPHEMERALS / 100:
                    return
                await asyncio.sleep(0.5)
            raise AssertionError(f"{left} consumers are left")

    asyncio.run(run())
    assert memory(silt) < MEMORY_BYTES_MAX


def test_a_client_that_vanishes(silt: Gateway) -> None:
    """What a client took and never acknowledged comes to the next one, after its ack wait."""

    async def run() -> list[int]:
        async with Wire.open(silt.hub.url, inbox="_INBOX.next") as wire:
            config = {"durable_name": "vanish", "ack_policy": "explicit", "ack_wait": 1_000_000_000}
            body = json.dumps({"stream_name": STREAM, "config": config}).encode()
            created = await wire.ask(f"$JS.API.CONSUMER.CREATE.{STREAM}.vanish", body)
            assert created is not None
            assert b'"error"' not in created.payload
            async with Wire.open(silt.hub.url, inbox="_INBOX.gone") as other:
                assert len(await pulled(other, "vanish", 10)) == 10
                other.send(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.vanish", b'{"batch":1000,"expires":60000000000}')
            seen: list[int] = []
            wire.listen("_INBOX.mine", lambda message: seen.append(int((message.reply.split(".") + ["0"] * 6)[5])))
            deadline = time.monotonic() + 20
            while not set(range(1, 11)) <= set(seen) and time.monotonic() < deadline:
                wire.publish(
                    f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.vanish",
                    b'{"batch":10,"expires":1000000000}',
                    reply="_INBOX.mine",
                )
                await asyncio.sleep(1.1)
            return seen

    assert set(range(1, 11)) <= set(asyncio.run(run()))
    asyncio.run(well_behaved(silt.hub.url))
