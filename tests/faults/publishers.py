"""Publishers that keep on through every fault and remember what was sent and what was acknowledged."""

import asyncio
import json
import random
import time
from collections import Counter

from tests.faults.reckoning import History, Sent, digest
from tests.wire import Reply, Wire, header_block

STREAM = "FAULTS"
PREFIX = "faults"
ACK_SECONDS = 1.0
LAST_ACK_SECONDS = 60.0
_RETRY_SECONDS = 0.02
_PAYLOAD_BYTES_MAX = 2_000


class Publishers:
    """A number of workers, each with one message in flight; every fourth publishes without an id and never retries."""

    def __init__(
        self, wire: Wire, *, workers: int, rng: random.Random, label: str = "", pause_seconds: float = 0.0
    ) -> None:
        """``label`` begins the key of each message: for runs whose histories are put together.

        ``pause_seconds`` lie between two messages of a worker.
        """
        self._pause_seconds = pause_seconds
        self._label = label
        self.history = History()
        self._wire = wire
        self._workers = workers
        self._seeds = [rng.random() for _ in range(workers)]
        self._stopped_at: float | None = None

    async def run(self) -> None:
        """Publish until :meth:`stop`; then each worker still gets its message acknowledged."""
        async with asyncio.TaskGroup() as group:
            for worker in range(self._workers):
                group.create_task(self._work(worker))

    def stop(self) -> None:
        """Let :meth:`run` come to its end."""
        self._stopped_at = time.monotonic()

    async def _work(self, worker: int) -> None:
        rng = random.Random(self._seeds[worker])
        number = 0
        while self._stopped_at is None:
            number += 1
            await self._publish(f"{self._label}{worker}-{number}", rng, retries=worker % 4 != 0)
            await asyncio.sleep(self._pause_seconds)

    async def _publish(self, key: str, rng: random.Random, *, retries: bool) -> None:
        subject = f"{PREFIX}.{rng.randrange(50)}"
        payload = key.encode() + b" " + rng.randbytes(rng.randrange(_PAYLOAD_BYTES_MAX))
        message_id = f"id-{key}" if retries else None
        headers = [("Nats-Msg-Id", message_id)] if message_id else []
        self.history.sent[key] = Sent(subject, digest(payload), message_id)
        while not self._given_up():
            header = header_block(headers) if headers else b""
            reply = await self._wire.ask(subject, payload, header=header, seconds=ACK_SECONDS)
            if self._acknowledged(key, reply):
                return
            await asyncio.sleep(_RETRY_SECONDS * (1 + rng.random()))
            if not retries:
                return

    def _given_up(self) -> bool:
        """Whether it is so long after :meth:`stop` that no acknowledgement will come any more."""
        return self._stopped_at is not None and time.monotonic() > self._stopped_at + LAST_ACK_SECONDS

    def _acknowledged(self, key: str, reply: Reply | None) -> bool:
        if reply is None or reply.status:
            return False
        answer = json.loads(reply.payload)
        if "error" in answer:
            self.history.refused[answer["error"]["description"]] += 1
            return False
        assert answer["stream"] == STREAM
        self.history.acked.append((key, answer["seq"]))
        return True


def unexpected_refusals(refused: Counter[str]) -> list[str]:
    """Errors other than those of a server under pressure or shutting down."""
    fine = ("Too Many Requests", "too many requests", "insufficient", "temporarily unavailable")
    return [f"{count} times: {text}" for text, count in refused.items() if not any(word in text for word in fine)]
