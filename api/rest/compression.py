"""Compression of answers: zstd or gzip, by ``Accept-Encoding`` (RFC 9110, 12.5.3).

What compresses itself and what must arrive at once (server-sent events) is sent as it is.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.formats.table_format import TableFormat
from api.rest.negotiation import weighted
from conf.limits import HTTP_COMPRESS_BYTES_MIN, HTTP_COMPRESS_LEVEL

_AS_IT_IS: Final = ("text/event-stream", TableFormat.PARQUET.media_type)
_IN_A_THREAD_BYTES: Final = 128 * 1024
"""Size of a part that is compressed beside the event loop."""


class Compressor(Protocol):
    """A compressor of one answer."""

    def compress(self, data: bytes) -> bytes:
        """Return compressed bytes, maybe none yet."""
        ...

    def flush(self) -> bytes:
        """Return the last ones."""
        ...


class _Zstd:
    """zstd by Arrow's codec."""

    def __init__(self) -> None:
        import pyarrow as pa

        from api.formats.byte_sink import ByteSink

        self._sink = ByteSink()
        self._stream = pa.CompressedOutputStream(self._sink, "zstd")

    def compress(self, data: bytes) -> bytes:
        self._stream.write(data)
        return self._sink.take()

    def flush(self) -> bytes:
        self._stream.close()
        return self._sink.take()


def _gzip() -> Compressor:
    from isal import isal_zlib

    compressor: Compressor = isal_zlib.compressobj(HTTP_COMPRESS_LEVEL, isal_zlib.DEFLATED, 31)
    return compressor


_COMPRESSORS: Final[dict[str, Callable[[], Compressor]]] = {"zstd": _Zstd, "gzip": _gzip}
"""By content coding, the best first."""


class Compression:
    """An ASGI middleware that compresses answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and its answer back."""
        if scope["type"] == "http":
            send = _Answer(_coding(Headers(scope=scope).get("accept-encoding", "")), send).send
        await self._app(scope, receive, send)


def _coding(accepted: str) -> str | None:
    """Return the coding that the client likes best, of several the best one; None if it takes none of ours."""
    qualities = {name: quality for name, quality in weighted(accepted) if name in _COMPRESSORS and quality}
    return max(_COMPRESSORS, key=lambda name: qualities.get(name, 0.0)) if qualities else None


class _Answer:
    """One answer on its way out; the head waits for the first part of the body, which may be too small."""

    def __init__(self, coding: str | None, send: Send) -> None:
        self._coding = coding
        self._send = send
        self._head: Message | None = None
        self._compressor: Compressor | None = None

    async def send(self, message: Message) -> None:
        """Send a message of the app's, compressed."""
        if message["type"] == "http.response.start":
            self._head = message
            return
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        data, more = message.get("body", b""), message.get("more_body", False)
        if self._head is not None:
            head, self._head = self._head, None
            self._begin(head, len(data), more=more)
            await self._send(head)
        if self._compressor is not None:
            work = self._work(self._compressor, data, more=more)
            data = await asyncio.to_thread(work) if len(data) >= _IN_A_THREAD_BYTES else work()
            if more and not data:
                return
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    def _begin(self, head: Message, size: int, *, more: bool) -> None:
        headers = MutableHeaders(raw=head["headers"])
        kind = headers.get("content-type", "").partition(";")[0]
        empty = not more and not size
        if empty or kind in _AS_IT_IS or "content-encoding" in headers or "content-range" in headers:
            return
        headers.add_vary_header("Accept-Encoding")
        if self._coding is not None and (more or size >= HTTP_COMPRESS_BYTES_MIN):
            del headers["content-length"]
            headers["content-encoding"] = self._coding
            self._compressor = _COMPRESSORS[self._coding]()

    @staticmethod
    def _work(compressor: Compressor, data: bytes, *, more: bool) -> Callable[[], bytes]:
        def compress() -> bytes:
            return compressor.compress(data) + (b"" if more else compressor.flush())

        return compress
