"""Tables rendered as Parquet files for readers of Delta Sharing: bounded, short-lived, fetched by signed URLs.

A stream's own files hold removed messages and those of other streams, so a reader gets files of its own. They have no
name on the disk: whatever ends the process, none of them is left.
"""

import asyncio
import hmac
import os
import secrets
import tempfile
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import IO, Final

from api.rest import problems
from api.rest.sql_desk import SqlDesk
from api.rest.sql_frames import SqlQuestion
from conf.clock import Clock
from conf.limits import MIB, SHARED_BYTES_MAX, SHARED_URL_SECONDS

_READ_BYTES: Final = MIB


@dataclass(frozen=True, slots=True, eq=False)
class SharedFile:
    """A rendered table; its file is gone with the last reference."""

    name: str
    size: int
    content: IO[bytes]

    async def part(self, start: int, end: int) -> AsyncIterator[bytes]:
        """Yield the bytes from ``start`` up to ``end``."""
        while start < end:
            data = await asyncio.to_thread(os.pread, self.content.fileno(), min(_READ_BYTES, end - start), start)
            start += len(data)
            yield data


class SharedFiles:
    """The rendered tables of one process, least recently asked for evicted first; belongs to one event loop."""

    def __init__(self, sql: SqlDesk, clock: Clock) -> None:
        self._sql, self._clock = sql, clock
        self._secret = secrets.token_bytes(32)
        self._by_key: OrderedDict[str, SharedFile] = OrderedDict()
        self._rendering: dict[str, asyncio.Lock] = {}

    async def render(self, key: str, question: SqlQuestion) -> SharedFile:
        """Return the answer to a question as a file; ``key`` names all that it depends on.

        Raises as :meth:`SqlDesk.answer`, and :class:`problems.Refused` for one that is too large.
        """
        async with self._rendering.setdefault(key, asyncio.Lock()):
            found = self._by_key.get(key) or await self._rendered(question)
            self._by_key[key] = found
            self._by_key.move_to_end(key)
        self._rendering.pop(key, None)
        while sum(file.size for file in self._by_key.values()) > SHARED_BYTES_MAX:
            self._by_key.popitem(last=False)
        return found

    def signed(self, file: SharedFile) -> tuple[str, int]:
        """Return the path and query of a URL that opens a file, and the time in ms at which it no longer does."""
        expires = self._clock.now_ns() // 1_000_000_000 + SHARED_URL_SECONDS
        return f"{file.name}?expires={expires}&signature={self._signature(file.name, expires)}", expires * 1000

    def find(self, name: str, expires: int, signature: str) -> SharedFile:
        """Return the file of a signed URL; raises :class:`problems.Refused`."""
        expected = self._signature(name, expires).encode()
        if not hmac.compare_digest(expected, signature.encode()) or self._clock.now_ns() > expires * 1_000_000_000:
            raise problems.forbidden("the URL is not signed by this server, or no longer valid: query the table again")
        file = next((file for file in self._by_key.values() if file.name == name), None)
        if file is None:
            raise problems.Refused(404, problems.OTHER, "the file is no longer there: query the table again")
        return file

    async def _rendered(self, question: SqlQuestion) -> SharedFile:
        content = tempfile.TemporaryFile(prefix="silt-shared-")  # noqa: SIM115  # closed with its last reference
        answer = await self._sql.answer(question)
        size = 0
        try:
            async for chunk in answer.chunks():
                size += len(chunk)
                if size > SHARED_BYTES_MAX:
                    raise problems.Refused(
                        413, problems.TOO_LARGE, f"the table is larger than {SHARED_BYTES_MAX} bytes"
                    )
                await asyncio.to_thread(content.write, chunk)
        finally:
            answer.release()
        await asyncio.to_thread(content.flush)
        return SharedFile(f"{secrets.token_urlsafe(16)}.parquet", size, content)

    def _signature(self, name: str, expires: int) -> str:
        return hmac.digest(self._secret, f"{name} {expires}".encode(), "sha256").hex()
