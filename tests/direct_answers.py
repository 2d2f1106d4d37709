"""Answers of Direct Get as a link would send them, for tests without a hub."""

import asyncio


class Collected:
    """Takes frames as a link would."""

    def __init__(self) -> None:
        self.frames: dict[bytes, bytes] = {}
        self.ended = asyncio.Event()
        self.payload_max = 2**20

    def send_runs(self, *runs: bytes) -> bool:
        """Sort frames by their reply subject."""
        frames = b"".join(runs)
        at = 0
        while at < len(frames):
            line = frames[at : frames.index(b"\r\n", at)]
            reply, size = line.split(b" ")[1], int(line.split(b" ")[-1])
            end = at + len(line) + size + 4
            self.frames[reply] = self.frames.get(reply, b"") + frames[at:end]
            at = end
            self.ended.set()
        return True

    async def drain(self, timeout: float) -> None:
        """Always ready."""
        assert timeout > 0

    async def complete(self, replies: list[bytes]) -> None:
        """Wait until each reply subject has its last frame: a status, or the only one."""
        async with asyncio.timeout(60):
            while not all(self.done(reply) for reply in replies):
                self.ended.clear()
                await self.ended.wait()

    def done(self, reply: bytes) -> bool:
        """Whether nothing more is to come; replies that start with m are of many messages."""
        frames = self.frames.get(reply, b"")
        return b"\r\nNATS/1.0 " in frames if reply.startswith(b"m") else bool(frames)
