"""Publishers and workers that go on while their streams are cut over from one server to another, and their ledger."""

import asyncio
import json
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import nats
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig
from nats.js.errors import Error as JetStreamError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore

ACK_SECONDS = 2.0
FETCH_SECONDS = 0.25


@dataclass
class Ledger:
    """What one stream's clients know."""

    published: dict[str, int] = field(default_factory=dict)
    """Sequences by message id, as acknowledged."""
    done: Counter[str] = field(default_factory=Counter)
    """How often a message was worked off with its ack confirmed."""
    longest_ms: float = 0.0
    """The longest time between two acknowledged publishes."""
    moved: list[str] = field(default_factory=list)
    """Which clients have gone over."""
    over: bool = False
    """Whether nothing more is published."""


class Movers:
    """Clients of both servers; those of a stream go over when its origin does not answer them any more."""

    def __init__(self, connections: tuple[Client, Client]) -> None:
        self._connections = connections
        self.stopping = asyncio.Event()
        self.ledgers: dict[str, Ledger] = {}

    async def publisher(self, stream: str, subject: str, *, pause: float) -> None:
        """Publish one message after the other, each until it is acknowledged, at whichever server takes it."""
        ledger = self.ledgers.setdefault(stream, Ledger())
        at, number, last = 0, 0, time.perf_counter()
        while not self.stopping.is_set():
            number += 1
            name = f"{stream}-{number}"
            while True:
                with suppress(NatsError):
                    reply = await self._connections[at].request(
                        subject, name.encode(), timeout=ACK_SECONDS, headers={"Nats-Msg-Id": name}
                    )
                    told = json.loads(reply.data)
                    if "seq" in told:
                        ledger.published[name] = told["seq"]
                        break
                at = 1 - at
                await asyncio.sleep(0.005)
            now = time.perf_counter()
            ledger.longest_ms, last = max(ledger.longest_ms, (now - last) * 1000), now
            await asyncio.sleep(pause)
        ledger.over = True
        if at:
            ledger.moved.append("publisher")

    async def worker(self, stream: str, durable: str) -> None:
        """Work messages off at the origin until the stream stands for itself elsewhere, then there."""
        ledger = self.ledgers.setdefault(stream, Ledger())
        at, at_end = 0, False
        reader = await self._connections[0].jetstream().pull_subscribe_bind(durable, stream)
        while not at_end:
            is_over = ledger.over
            try:
                messages = await reader.fetch(10, timeout=FETCH_SECONDS)
            except (NatsError, JetStreamError, TimeoutError):
                at_end = is_over
                if not at and await self._stands_there(stream):
                    at, at_end = 1, False
                    reader = await self._connections[1].jetstream().pull_subscribe_bind(durable, stream)
                    ledger.moved.append(durable)
                continue
            for message in messages:
                with suppress(NatsError, TimeoutError):
                    await message.ack_sync(timeout=ACK_SECONDS)
                    ledger.done[message.data.decode()] += 1

    async def _stands_there(self, stream: str) -> bool:
        with suppress(NatsError):
            reply = await self._connections[1].request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=ACK_SECONDS)
            told = json.loads(reply.data)
            return "config" in told and not told["config"].get("mirror")
        return False


async def make_buckets(
    js: JetStreamContext, *, puts: int, keys: tuple[int, int]
) -> tuple[KeyValue, KeyValue, ObjectStore]:
    """Make three kinds of buckets: ``PLAIN`` and ``HISTORY``, each with so many puts to so many keys, and ``FILES``."""
    plain = await js.create_key_value(KeyValueConfig("PLAIN"))
    history = await js.create_key_value(KeyValueConfig("HISTORY", history=5, ttl=3600))
    for number in range(puts):
        for bucket, count in zip((plain, history), keys, strict=True):
            await bucket.put(f"k{number % count}", b"v%d" % number)
    return plain, history, await js.create_object_store("FILES", ObjectStoreConfig(description="files"))


async def connected(urls: tuple[str, str]) -> tuple[Client, Client]:
    """Connect to both."""

    async def quiet(_: Exception) -> None:
        pass

    one, other = [await nats.connect(url, error_cb=quiet, max_reconnect_attempts=-1) for url in urls]
    return one, other
