"""kill -9 of the gateway in the middle of fast batches: all that was acknowledged of them is there, once."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.faults.readings import by_direct_get
from tests.faults.reckoning import digest
from tests.servers import gateway, nats_server
from tests.wire import Delivered, Wire

STREAM = "FASTKILL"
ROUNDS = 3
BATCHES = 4
_FLOW = 50
_WINDOW = 400
_PAYLOAD = b"x" * 500


class Batch:
    """One fast batch: published as long as not too much of it is unacknowledged, until it is told to stop."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.name = name
        self.sent = 0
        self.acked = 0
        """Messages up to this batch sequence were acknowledged."""
        self.answers: list[dict[str, object]] = []
        self.stopped = False
        self._wire = wire
        self._news = asyncio.Event()
        wire.listen(f"ANSWER.{name}.>", self._hear)

    def payload(self, seq: int) -> bytes:
        """What the message with this batch sequence holds."""
        return f"{self.name} {seq} ".encode() + _PAYLOAD

    async def run(self) -> None:
        """Publish until :attr:`stopped`."""
        while not self.stopped:
            while self.sent < max(1, self.acked + _WINDOW):
                self.publish()
            self._news.clear()
            try:
                async with asyncio.timeout(0.1):
                    await self._news.wait()
            except TimeoutError:
                continue

    def publish(self) -> None:
        """Publish the next message."""
        self.sent += 1
        reply = f"ANSWER.{self.name}.{_FLOW}.fail.{self.sent}.{int(self.sent > 1)}.$FI"
        self._wire.publish("fastkill.x", self.payload(self.sent), reply=reply)

    def _hear(self, message: Delivered) -> None:
        if not message.payload:  # no responders: the gateway is away
            return
        answer = json.loads(message.payload)
        self.answers.append(answer)
        if answer.get("type") == "ack":
            self.acked = max(self.acked, answer["seq"])
        self._news.set()


async def _round(wire: Wire, number: int, rng: random.Random, kill: Callable[[], None]) -> list[Batch]:
    """Publish batches for a while and kill the gateway under them."""
    batches = [Batch(wire, f"round{number}batch{place}") for place in range(BATCHES)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for batch in batches:
            group.create_task(batch.run())
        while True:
            await asyncio.sleep(0.01)
            if min(batch.acked for batch in batches) > _FLOW:
                break
        await asyncio.sleep(rng.uniform(0, 0.2))
        kill()
        for batch in batches:
            batch.stopped = True
    return batches


async def _after(wire: Wire, batches: list[Batch]) -> None:
    """What goes on after the restart is refused, so that no publisher takes its batch for whole."""
    for batch in batches:
        batch.answers.clear()
        batch.publish()
    async with asyncio.timeout(20):
        while True:
            await asyncio.sleep(0.01)
            if all(batch.answers for batch in batches):
                break
    for batch in batches:
        error = batch.answers[0]["error"]
        assert isinstance(error, dict)
        assert error["err_code"] == 10208


def test_killed_within_fast_batches(tmp_path: Path) -> None:
    """Each acknowledged message is stored once and unchanged, and no batch goes on after a kill."""

    async def scenario() -> None:
        rng = random.Random(11)
        with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, tmp_path / "data") as running:
            async with Wire.open(hub.url, inbox="_INBOX.kill") as wire:
                config = {"name": STREAM, "subjects": ["fastkill.x"], "allow_batched": True, "allow_direct": True}
                await wire.ask(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
                batches: list[Batch] = []
                for number in range(ROUNDS):
                    fresh = await _round(wire, number, rng, running.child.kill)
                    await asyncio.to_thread(running.start)
                    await _after(wire, fresh)
                    batches += fresh
                stored = await by_direct_get(wire, STREAM)
        found = Counter(message.digest for message in stored.values())
        for batch in batches:
            counts = [found[digest(batch.payload(seq))] for seq in range(1, batch.sent + 1)]
            assert counts[: batch.acked] == [1] * batch.acked, batch.name
            assert max(counts) == 1, batch.name
        assert sum(found.values()) == sum(found[digest(b.payload(s))] for b in batches for s in range(1, b.sent + 1))

    asyncio.run(scenario())
