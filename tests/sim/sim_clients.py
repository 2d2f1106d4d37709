"""Clients of the simulated hub: they publish, consume, ack, ask about the past, and write into the book what came."""

import asyncio
import json
import random
from typing import Any

from ingest.protocol.wire_protocol import WireMessage
from tests.sim.sim_book import Book, Broken, ConsumerBook, Held, Sent
from tests.sim.sim_hub import SimHub

_API = b"$JS.API."
_FULL = {10047, 10077}
"""What a full disk is told by."""
STREAMS: dict[str, dict[str, Any]] = {
    "S": {"subjects": ["s.>"], "allow_direct": True, "duplicate_window": 120_000_000_000},
    "T": {"subjects": ["t.>"], "allow_direct": True, "max_msgs_per_subject": 2},
    "W": {"subjects": ["w.>"], "retention": "workqueue"},
    "M": {"mirror": {"name": "S"}, "allow_direct": True},
}
CONSUMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "PULL": ("S", {"ack_policy": "explicit", "ack_wait": 500_000_000}),
    "PUSH": ("S", {"ack_policy": "explicit", "ack_wait": 400_000_000, "deliver_subject": "push.in"}),
    "WORK": ("W", {"ack_policy": "explicit", "ack_wait": 600_000_000}),
}


class Clients:
    """All of them; they stay while gateways come and go."""

    def __init__(self, hub: SimHub, book: Book, dice: random.Random) -> None:
        self._hub = hub
        self._book = book
        self._dice = dice
        self._number = 0
        self.ready = asyncio.Event()
        for name, (stream, _) in CONSUMERS.items():
            book.consumers[name] = ConsumerBook(stream, name)
        hub.listen(b"push.in", lambda message: self._delivered(book.consumers["PUSH"], message))

    async def set_up(self) -> None:
        """Make the streams and consumers, until the gateway says that they are there."""
        for name, config in STREAMS.items():
            body = {"name": name, "storage": "file", **config}
            await self._create(name, _API + b"STREAM.CREATE.%b" % name.encode(), body)
        for name, (stream, config) in CONSUMERS.items():
            body = {"stream_name": stream, "config": {"durable_name": name, "name": name, **config}}
            subject = _API + b"CONSUMER.DURABLE.CREATE.%b.%b" % (stream.encode(), name.encode())
            await self._create(name, subject, body)
        self.ready.set()

    async def _create(self, name: str, subject: bytes, body: dict[str, Any]) -> None:
        while name not in self._book.created:
            answer = await self._hub.ask(subject, json.dumps(body).encode())
            if answer is not None:
                told = json.loads(answer.payload)
                if "error" not in told:
                    self._book.created.add(name)
                elif told["error"].get("err_code") not in _FULL:
                    raise Broken(f"{name}: {told['error']}")

    # --- publishing ---

    async def publish(self, stream: str) -> None:
        """Publish until cancelled; what got no answer and has an id is published again."""
        await self.ready.wait()
        while True:
            await asyncio.sleep(self._dice.choice((0.001, 0.05, 0.1, 0.3)))
            for _ in range(self._dice.choice((1, 1, 2, 6))):
                if self._dice.random() < 0.3:
                    self._doubt(stream)
                self._number += 1
                name = b"%b-%d" % (stream.encode(), self._number)
                subject = f"{stream.lower()}.{self._dice.randrange(4)}"
                sent = Sent(stream, subject, name, self._dice.random() < 0.7)
                self._book.sent[name] = sent
                if self._dice.random() < 0.5:
                    await self._publish_until_sure(sent)
                else:
                    self._publish_once(sent)

    async def _publish_until_sure(self, sent: Sent) -> None:
        for _ in range(20 if sent.has_id else 1):
            answer = await self._hub.ask(
                sent.subject.encode(), sent.name, header=self._header(sent), seconds=self._dice.choice((0.1, 0.5))
            )
            if answer is not None and self._book.published(sent, answer) and self._dice.random() < 0.8:
                return
            await asyncio.sleep(0.05)

    def _doubt(self, stream: str) -> None:
        """Publish something again, acknowledged or not."""
        doubtful = [sent for sent in self._book.sent.values() if sent.stream == stream and sent.has_id]
        if doubtful:
            self._publish_once(self._dice.choice(doubtful[-20:]))

    def _publish_once(self, sent: Sent) -> None:
        inbox = self._hub.inbox()
        self._hub.listen(inbox, lambda answer: self._book.published(sent, answer) and None)
        self._hub.publish(sent.subject.encode(), sent.name, reply=inbox, header=self._header(sent))

    def _header(self, sent: Sent) -> bytes:
        lines = f"Nats-Msg-Id: {sent.name.decode()}\r\n" if sent.has_id else ""
        last = max((seq for (stream, seq) in self._book.by_seq if stream == sent.stream), default=0)
        if self._dice.random() < 0.1:
            lines += f"Nats-Expected-Last-Sequence: {last}\r\n"
        return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""

    # --- consuming ---

    async def pull(self, name: str) -> None:
        """Ask for messages, again and again."""
        await self.ready.wait()
        book = self._book.consumers[name]
        stream = book.stream.encode()
        while True:
            inbox, over = self._hub.inbox(), asyncio.Event()

            def take(message: WireMessage, over: asyncio.Event = over) -> None:
                if message.header.startswith(b"NATS/1.0 ") and not message.reply:
                    over.set()
                else:
                    self._delivered(book, message)

            self._hub.listen(inbox, take)
            body = {"batch": self._dice.choice((1, 5, 20)), "expires": 300_000_000}
            subject = _API + b"CONSUMER.MSG.NEXT.%b.%b" % (stream, name.encode())
            self._hub.publish(subject, json.dumps(body).encode(), reply=inbox)
            try:
                async with asyncio.timeout(0.4):
                    await over.wait()
            except TimeoutError:
                pass
            self._hub.unlisten(inbox)
            await self._look(book)
            await asyncio.sleep(self._dice.choice((0.0, 0.2)))

    def _delivered(self, book: ConsumerBook, message: WireMessage) -> None:
        reply = message.reply.partition(b"@")[0]
        if not reply.startswith(b"$JS.ACK."):
            return
        seq = int(reply.split(b".")[5])
        book.take(seq, message.payload)
        self._book.count(f"delivered by {book.name}")
        choice = self._dice.random()
        if choice < 0.15:
            return
        if choice < 0.25:
            self._hub.publish(reply, b"-NAK")
            return
        book.acked.add(seq)
        if choice < 0.5:
            self._hub.publish(reply, b"+ACK")
            return
        inbox = self._hub.inbox()
        self._hub.listen(inbox, lambda _: book.confirmed.add(seq))
        self._hub.publish(reply, b"", reply=inbox)

    async def _look(self, book: ConsumerBook) -> None:
        if self._dice.random() < 0.3 and book.stream == "S":
            answer = await self._hub.ask(_API + b"CONSUMER.INFO.%b.%b" % (book.stream.encode(), book.name.encode()))
            if answer is not None:
                told = json.loads(answer.payload)
                if "error" not in told:
                    book.look(told)
                elif told["error"].get("err_code") not in _FULL:
                    raise Broken(f"{book.name}: {told['error']}")

    # --- reading ---

    async def read_past(self) -> None:
        """Ask for the last messages at points that are known to be durable, old and new ones."""
        await self.ready.wait()
        while True:
            await asyncio.sleep(self._dice.choice((0.05, 0.2, 0.5)))
            stream = self._dice.choice(("S", "T"))
            if self._book.past and self._dice.random() < 0.5:
                await self.read_again(self._dice.choice(sorted(self._book.past)))
                continue
            known = sorted(seq for (of, seq) in self._book.by_seq if of == stream)
            if known:
                filter_ = self._dice.choice((f"{stream.lower()}.>", f"{stream.lower()}.1"))
                await self.read_again((stream, filter_, self._dice.choice(known)))

    async def read_again(self, reading: tuple[str, str, int]) -> bool:
        """Ask one question; whether it was answered."""
        stream, filter_, point = reading
        rows = await self._batch(stream, {"multi_last": [filter_], "up_to_seq": point})
        if rows is not None:
            self._book.read_past(stream, filter_, point, rows)
        return rows is not None

    async def read_all(self, stream: str) -> bool:
        """Read a stream from its beginning; whether that came to an end."""
        info = await self._hub.ask(_API + b"STREAM.INFO.%b" % stream.encode())
        if info is None:
            return False
        if stream in self._book.created and b'"error"' in info.payload:
            raise Broken(f"{stream} is gone: {info.payload!r}")
        last = json.loads(info.payload)["state"]["last_seq"]
        rows = await self._batch(stream, {"seq": 1, "next_by_subj": ">", "batch": 10_000}) if last else []
        if rows is None:
            return False
        self._book.read_all(stream, rows, last)
        return True

    async def _batch(self, stream: str, body: dict[str, Any]) -> list[Held] | None:
        status, rows = await self._hub.batch(stream, json.dumps(body).encode(), seconds=1.0)
        if status.startswith(b"404"):
            return []
        return rows if status.startswith(b"204") else None
