"""A proxy between hub and gateway: it delays, cuts, goes silent, repeats requests and lets them overtake each other."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

_SILENT_SECONDS: Final = 1.0
_DELAY_SECONDS: Final = 0.15
_FRAMES: Final = (b"LMSG ", b"HMSG ")


class Fault(StrEnum):
    """What the proxy does to the link, or to one frame of a client's message."""

    CUT = "cut"
    HALF_OPEN = "half open"
    DELAY = "delay"
    REPEATED = "repeated"
    OVERTAKEN = "overtaken"


class LinkProxy:
    """Stands before the leafnode listener of a hub."""

    def __init__(self, leaf_url: str, rng: random.Random) -> None:
        self.repeats = False
        """Whether requests that carry a message id are repeated, and any of them overtaken by the next."""
        self.done: Counter[Fault] = Counter()
        self.url = ""
        self._rng = rng
        self._hub = urlsplit(leaf_url)
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._held = b""

    def cut(self) -> None:
        """Abort all connections."""
        self.done[Fault.CUT] += 1
        for writer in self._writers:
            writer.transport.abort()

    async def half_open(self) -> None:
        """Let nothing through for a while, both ways, then abort."""
        self.done[Fault.HALF_OPEN] += 1
        self._open.clear()
        await asyncio.sleep(_SILENT_SECONDS)
        self.cut()
        self._open.set()

    async def delay(self) -> None:
        """Hold everything for a moment."""
        self.done[Fault.DELAY] += 1
        self._open.clear()
        await asyncio.sleep(_DELAY_SECONDS)
        self._open.set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the gateway."""
        with suppress(OSError):
            hub_reader, hub_writer = await asyncio.open_connection(self._hub.hostname, self._hub.port, limit=1 << 26)
            self._writers |= {writer, hub_writer}
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._pass(reader, hub_writer))
                    tasks.create_task(self._pass_frames(hub_reader, writer))
            finally:
                self._writers -= {writer, hub_writer}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def _pass_frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """The hub's frames, one by one."""
        self._held = b""
        with suppress(OSError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                frame = line
                if line.startswith(_FRAMES):
                    frame += await reader.readexactly(int(line.split()[-1]) + 2)
                await self._open.wait()
                writer.write(self._treated(frame))
                await writer.drain()
        writer.transport.abort()

    def _treated(self, frame: bytes) -> bytes:
        """What goes on in the place of a frame."""
        before, self._held = self._held, b""
        if not self.repeats or not frame.startswith(_FRAMES):
            return before + frame
        if before:
            self.done[Fault.OVERTAKEN] += 1
            return frame + before
        chance = self._rng.random()
        if chance < 1 / 5:
            self._held = frame
            return b""
        if chance < 2 / 5 and b"Nats-Msg-Id:" in frame:
            self.done[Fault.REPEATED] += 1
            return frame + frame
        return frame


@asynccontextmanager
async def link_proxy(leaf_url: str, rng: random.Random) -> AsyncIterator[LinkProxy]:
    """A proxy before a hub's leafnode listener until the block ends."""
    proxy = LinkProxy(leaf_url, rng)
    async with await asyncio.start_server(proxy.connect, "127.0.0.1", 0) as server:
        proxy.url = f"nats-leaf://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            server.close()
            proxy.cut()
