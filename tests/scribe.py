"""A minimal hub on a real socket that records every line of a link."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

INFO = b'INFO {"server_id":"N","nonce":"x","headers":true,"max_payload":1024} \r\n'


@dataclass
class Scribe:
    """A hub that sends INFO first, and a PONG for each PING once ``may_answer`` is set; ``lines`` has its input."""

    url: str = ""
    lines: list[bytes] = field(default_factory=list)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.writer = writer
        try:
            writer.write(INFO)
            while line := await reader.readline():
                self.lines.append(line)
                if line == b"PING\r\n":
                    await self.may_answer.wait()
                    writer.write(b"PONG\r\n")
        finally:
            writer.transport.abort()

    def says(self, text: bytes) -> None:
        """Send ``text`` to the link."""
        assert self.writer is not None
        self.writer.write(text)


@asynccontextmanager
async def scribe(*, answers: bool = True) -> AsyncIterator[Scribe]:
    """Run a scribe until the block ends."""
    hub = Scribe()
    if answers:
        hub.may_answer.set()
    server = await asyncio.start_server(hub.serve, "127.0.0.1", 0)
    async with server:
        hub.url = f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield hub
        server.close()
        await asyncio.sleep(0.01)  # a connection just accepted begins to be served, and so is ended with the rest
