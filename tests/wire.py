"""A NATS client whose replies have their header block byte for byte.

Client libraries parse header blocks into dictionaries and retry on their own; tests that compare order, case, repeats
and status lines, or count acknowledgements, use this one.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

Headers = Sequence[tuple[str, str]]
REPLY_SECONDS = 5.0
# Silence after which no more replies are expected.
SILENCE_SECONDS = 0.25
STORE_FAILED = b"error creating store for stream"
"""nats-server's error on a busy machine while it removes the folder of a deleted stream of that name."""
STORE_TRIES = 20
_CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"raw","version":"1"}\r\n'
)


class Reply(NamedTuple):
    """One message to an inbox: its raw header block (empty when there is none) and its payload."""

    header: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """The status line behind ``NATS/1.0``, such as ``204 EOB``; empty without one."""
        return self.header.split(b"\r\n", 1)[0].removeprefix(b"NATS/1.0").strip().decode()

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Header fields in wire order."""
        lines = self.header.split(b"\r\n")[1:]
        pairs = [line.decode().partition(":") for line in lines if line]
        return [(key, value.removeprefix(" ")) for key, _, value in pairs]

    def get(self, name: str) -> str | None:
        """Return the first value of a header."""
        return next((value for key, value in self.headers if key == name), None)


class Delivered(NamedTuple):
    """One message of a subscription, as the server sent it."""

    subject: str
    reply: str
    header: bytes
    payload: bytes

    @property
    def status(self) -> str:
        """The status line behind ``NATS/1.0``; empty without one."""
        return Reply(self.header, self.payload).status


Listener = Callable[[Delivered], None]


def header_block(headers: Headers) -> bytes:
    """Return the header block of a message."""
    lines = "".join(f"{key}: {value}\r\n" for key, value in headers)
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class Wire:
    """A connection with one wildcard inbox, made by :meth:`open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inbox: str) -> None:
        self._reader = reader
        self._writer = writer
        self._inbox = inbox
        self._next = 0
        self._waiting: dict[str, asyncio.Queue[Reply]] = {}
        self._listeners: dict[str, Listener] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, *, inbox: str = "_INBOX.diff") -> AsyncIterator["Wire"]:
        """Connect to ``nats://host:port``; replies are read in a task of its own until the block ends."""
        host, port = url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
        wire = cls(reader, writer, inbox)
        await reader.readline()
        writer.write(_CONNECT + f"SUB {inbox}.* 1\r\n".encode())
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(wire._read())
                try:
                    yield wire
                finally:
                    task.cancel()
        finally:
            writer.close()

    async def _read(self) -> None:
        while line := await self._reader.readline():
            verb, _, rest = line.strip().partition(b" ")
            if verb == b"PING":
                self._writer.write(b"PONG\r\n")
            elif verb == b"-ERR":
                raise ConnectionError(line.decode())
            elif verb in (b"MSG", b"HMSG"):
                fields = rest.split()
                total, head = int(fields[-1]), int(fields[-2]) if verb == b"HMSG" else 0
                body = (await self._reader.readexactly(total + 2))[:-2]
                subject = fields[0].decode()
                listener = self._listeners.get(fields[1].decode())
                if listener is not None:
                    reply = fields[2].decode() if len(fields) > (4 if verb == b"HMSG" else 3) else ""
                    listener(Delivered(subject, reply, body[:head], body[head:]))
                    continue
                queue = self._waiting.get(subject)
                if queue is not None:
                    queue.put_nowait(Reply(body[:head], body[head:]))

    def listen(self, subject: str, listener: Listener, *, queue: str = "") -> str:
        """Subscribe; ``listener`` is called for each message as it is read. Returns the id for :meth:`unlisten`."""
        sid = str(len(self._listeners) + 2)
        self._listeners[sid] = listener
        self._writer.write(f"SUB {subject} {queue} {sid}\r\n".encode())
        return sid

    def unlisten(self, sid: str) -> None:
        """End a subscription; messages still on their way are dropped."""
        self._listeners[sid] = lambda _: None
        self._writer.write(f"UNSUB {sid}\r\n".encode())

    def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", header: bytes = b"") -> None:
        """Publish, with or without a reply subject."""
        verb, sizes = ("HPUB", f"{len(header)} {len(header) + len(payload)}") if header else ("PUB", f"{len(payload)}")
        self._writer.write(f"{verb} {subject} {reply} {sizes}\r\n".encode() + header + payload + b"\r\n")

    def send(self, subject: str, payload: bytes = b"", *, header: bytes = b"", expect_reply: bool = True) -> str:
        """Publish; return the inbox of the replies, empty without ``expect_reply``."""
        inbox = ""
        if expect_reply:
            self._next += 1
            inbox = f"{self._inbox}.{self._next}"
            self._waiting[inbox] = asyncio.Queue(maxsize=100_000)
        if header:
            line = f"HPUB {subject} {inbox} {len(header)} {len(header) + len(payload)}\r\n"
        else:
            line = f"PUB {subject} {inbox} {len(payload)}\r\n"
        self._writer.write(line.encode() + header + payload + b"\r\n")
        return inbox

    async def receive(self, inbox: str, *, seconds: float = REPLY_SECONDS) -> Reply | None:
        """Return the next reply to this inbox, None if none arrives in time."""
        queue = self._waiting[inbox]
        if not queue.empty():
            return queue.get_nowait()
        try:
            # Not wait_for: in Python 3.11 it may swallow a cancellation.
            async with asyncio.timeout(seconds):
                return await queue.get()
        except TimeoutError:
            return None

    async def ask(
        self, subject: str, payload: bytes = b"", *, header: bytes = b"", seconds: float = REPLY_SECONDS
    ) -> Reply | None:
        """Publish and return the one reply, or None; a later reply is dropped."""
        inbox = self.send(subject, payload, header=header)
        try:
            return await self.receive(inbox, seconds=seconds)
        finally:
            del self._waiting[inbox]

    def forget(self, inbox: str) -> None:
        """Drop further replies to this inbox."""
        del self._waiting[inbox]

    def leftovers(self) -> int:
        """Return the number of replies that nobody received: a request must not get more replies than expected."""
        return sum(queue.qsize() for queue in self._waiting.values())


async def delete_streams(wire: Wire) -> None:
    """Leave no stream behind."""

    async def names() -> list[str]:
        reply = await wire.ask("$JS.API.STREAM.NAMES")
        assert reply is not None, "STREAM.NAMES is not answered"
        return list(json.loads(reply.payload).get("streams") or [])

    for name in await names():
        await wire.ask(f"$JS.API.STREAM.DELETE.{name}")
    assert await names() == [], "streams left behind"
