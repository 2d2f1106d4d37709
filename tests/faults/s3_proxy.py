"""A proxy before an S3 server that answers as object stores and networks do on a bad day.

Each request gets the next fate of a plan, as far as the plan is for such requests; everything else passes. The proxy
runs on an event loop of its own, in a thread, so that blocking clients may use it.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final

_LIMIT: Final = 64 * 1024 * 1024
_WAIT: Final = 30.0
_DELAY: Final = 0.05


class Fate(StrEnum):
    """What becomes of a request."""

    WORKS = "works"
    SLOW = "slow"
    REQUEST_LOST = "request lost"
    """The connection is cut before the server sees anything."""
    REPLY_LOST = "reply lost"
    """The server has done it; the connection is cut instead of the answer."""
    HALF_OPEN = "half open"
    """The server has done it; nothing ever comes back, and the connection stays."""
    CONFLICT = "409"
    TAKEN = "412"
    """Said of a name that is free, as a store does whose client tried twice, or that is confused."""
    TAKEN_BY_ITSELF = "412 after it was done"
    UNAVAILABLE = "503"
    OK_WITH_ERROR = "200 with an error in its body"
    DONE_WITH_ERROR = "200 with an error in its body, but done"


_DONE: Final = {
    Fate.WORKS,
    Fate.SLOW,
    Fate.REPLY_LOST,
    Fate.HALF_OPEN,
    Fate.TAKEN_BY_ITSELF,
    Fate.DONE_WITH_ERROR,
}
_ANSWERS: Final = {
    Fate.CONFLICT: ("409 Conflict", "ConditionalRequestConflict"),
    Fate.TAKEN: ("412 Precondition Failed", "PreconditionFailed"),
    Fate.TAKEN_BY_ITSELF: ("412 Precondition Failed", "PreconditionFailed"),
    Fate.UNAVAILABLE: ("503 Service Unavailable", "SlowDown"),
    Fate.OK_WITH_ERROR: ("200 OK", "InternalError"),
    Fate.DONE_WITH_ERROR: ("200 OK", "InternalError"),
}
Chooser = Callable[[bytes], Fate]
"""Gives the fate of a request by its head."""


class S3Proxy:
    """Stands before the server at ``host:port``; :attr:`choose` may be set anew at any time."""

    def __init__(self, host: str, port: int) -> None:
        self.choose: Chooser = lambda _head: Fate.WORKS
        self.done: Counter[Fate] = Counter()
        """How often each fate befell a request."""
        self.ignores_conditions = False
        """Whether conditions of puts are dropped, as by a store that does not know them."""
        self.url = ""
        self.stop: Callable[[], object]
        self._server = host, port
        self._one_at_a_time = asyncio.Lock()
        """moto looks for the object and writes it in two steps: on a busy machine two conditional puts win."""

    async def serve(self, ready: threading.Event) -> None:
        """Proxy until :attr:`stop` is called."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self.stop = lambda: loop.call_soon_threadsafe(stop.set)
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, limit=_LIMIT)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()
        await stop.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    body = await reader.readexactly(_length(head))
                    if not await self._answer(head, body, writer):
                        break
        finally:
            writer.transport.abort()

    async def _answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Treat one request as its fate will have it; False when the connection is to be cut."""
        fate = self.choose(head)
        self.done[fate] += 1
        answer = await self._forward(head, body) if fate in _DONE else b""
        if fate is Fate.HALF_OPEN:
            await asyncio.sleep(_WAIT)
        if fate in (Fate.REQUEST_LOST, Fate.REPLY_LOST, Fate.HALF_OPEN):
            return False
        if fate is Fate.SLOW:
            await asyncio.sleep(_DELAY)
        if fate in _ANSWERS:
            status, code = _ANSWERS[fate]
            text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>"
            answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()
        writer.write(answer)
        await writer.drain()
        return fate in _ANSWERS

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        """What the server answers, to the end of the connection."""
        dropped = (b"connection:", *((b"if-none-match:", b"if-match:") if self.ignores_conditions else ()))
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(dropped)]
        head = b"\r\n".join([lines[0], b"Connection: close", *lines[1:]])
        async with self._one_at_a_time, asyncio.timeout(_WAIT):
            reader, writer = await asyncio.open_connection(*self._server)
            try:
                writer.write(head + body)
                return await reader.read(-1)
            finally:
                writer.transport.abort()


def is_entry_put(head: bytes) -> bool:
    """Whether a request is the conditional put of a log entry."""
    return head.startswith(b"PUT ") and b"_delta_log/" in head.split(b"\r\n", 1)[0] and b"if-none-match" in head.lower()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@contextmanager
def s3_proxy(host: str, port: int) -> Iterator[S3Proxy]:
    """A proxy before the server until the block ends."""
    proxy, ready = S3Proxy(host, port), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(_WAIT)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(_WAIT)
