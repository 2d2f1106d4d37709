"""Consumers' clients that keep on through every fault, and remember what came and what was acknowledged for good."""

import asyncio
import json
from collections import Counter
from typing import Any

from tests.wire import Delivered, Wire

BATCH = 100
_EXPIRES_NS = 1_000_000_000
_REQUEST_SECONDS = 1.5
_MORE_SECONDS = 0.05
_ACK_SECONDS = 1.0


class Progress:
    """What the clients of one consumer saw, in the order in which the server sent it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handled: Counter[int] = Counter()
        """How often each stream sequence came."""
        self.finished: set[int] = set()
        """Sequences whose double ack was answered."""
        self.again: list[int] = []
        """Sequences that came after their double ack was answered: there must be none."""

    def came(self, seq: int) -> None:
        """A message was read from the connection."""
        self.handled[seq] += 1
        if seq in self.finished:
            self.again.append(seq)

    def floor_at_least(self) -> int:
        """The ack floor that the answered double acks alone make."""
        floor = 0
        while floor + 1 in self.finished:
            floor += 1
        return floor


class Worker:
    """Acknowledges what comes: three of four messages by a double ack whose answer is waited for."""

    def __init__(self, wire: Wire, progress: Progress) -> None:
        self.progress = progress
        self.stopped = False
        self._wire = wire
        self._inbox: asyncio.Queue[Delivered] = asyncio.Queue(maxsize=100_000)
        self._answers: dict[str, int] = {}
        self._answered = asyncio.Event()

    def listen(self, subject: str, *, queue: str = "") -> None:
        """Take messages from a subject."""
        self._wire.listen(subject, self._came, queue=queue)
        self._wire.listen(f"{_acks(self)}.*", self._ack_answered)

    async def pull(self, stream: str) -> None:
        """Ask for messages again and again until stopped."""
        inbox = f"_INBOX.work.{id(self)}"
        self.listen(inbox)
        body = json.dumps({"batch": BATCH, "expires": _EXPIRES_NS}).encode()
        while not self.stopped:
            self._wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{self.progress.name}", body, reply=inbox)
            await self._work(BATCH)

    async def pushed(self) -> None:
        """Acknowledge what is pushed until stopped."""
        while not self.stopped:
            await self._work(BATCH)

    async def _work(self, limit: int) -> None:
        """Acknowledge up to ``limit`` messages, all at once; a status or silence ends the waiting for more."""
        taken: list[Delivered] = []
        while len(taken) < limit:
            try:
                async with asyncio.timeout(_REQUEST_SECONDS if not taken else _MORE_SECONDS):
                    message = await self._inbox.get()
            except TimeoutError:
                break
            if message.status:
                break
            taken.append(message)
        await self._acknowledge(taken)

    async def _acknowledge(self, messages: list[Delivered]) -> None:
        asked = []
        for message in messages:
            seq = sequence(message)
            reply = "" if seq % 4 == 0 else f"{_acks(self)}.{seq}"
            if reply:
                self._answers[reply] = seq
                asked.append(reply)
            self._wire.publish(message.reply, b"+ACK", reply=reply)
        try:
            async with asyncio.timeout(_ACK_SECONDS):
                while any(reply in self._answers for reply in asked):
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            for reply in asked:
                self._answers.pop(reply, None)

    def _came(self, message: Delivered) -> None:
        if not message.status:
            self.progress.came(sequence(message))
        self._inbox.put_nowait(message)

    def _ack_answered(self, message: Delivered) -> None:
        if message.status:
            return
        seq = self._answers.pop(message.subject, None)
        if seq is not None:
            self.progress.finished.add(seq)
            self._answered.set()


def sequence(message: Delivered) -> int:
    """The stream sequence that a delivered message's ack subject names."""
    return int(message.reply.split(".")[5])


async def consumer_info(wire: Wire, stream: str, name: str) -> dict[str, Any]:
    """A consumer's info; asked until it is answered."""
    for _ in range(60):
        reply = await wire.ask(f"$JS.API.CONSUMER.INFO.{stream}.{name}", seconds=1.0)
        if reply is not None and not reply.status:
            shown: dict[str, Any] = json.loads(reply.payload)
            assert "error" not in shown, shown
            return shown
        await asyncio.sleep(0.1)
    raise TimeoutError(f"CONSUMER.INFO of {name} is not answered")


def _acks(worker: Worker) -> str:
    return f"_INBOX.acks.{id(worker)}"
