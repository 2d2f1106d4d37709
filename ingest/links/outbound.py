"""The send buffer of a connection: frames in, few large writes out.

Invariant: frames leave in the order of the calls, joined into one write per turn of the event loop or per
``LINK_OUTBOUND_HIGH_BYTES``.
"""

import asyncio

from conf.limits import LINK_OUTBOUND_BYTES_MAX, LINK_OUTBOUND_HIGH_BYTES


class Outbound:
    """The frames of one connection that wait for its transport."""

    def __init__(self) -> None:
        self.writable = asyncio.Event()
        """Set while at most ``LINK_OUTBOUND_HIGH_BYTES`` wait for the hub to read, and once closed."""
        self.writable.set()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0

    def to(self, transport: asyncio.Transport) -> None:
        """Send over this transport from now on."""
        self._transport = transport
        transport.set_write_buffer_limits(high=LINK_OUTBOUND_HIGH_BYTES)

    @property
    def size(self) -> int:
        """Bytes not yet handed to the kernel."""
        return self._waiting_bytes + (self._transport.get_write_buffer_size() if self._transport else 0)

    def write(self, frames: bytes) -> bool:
        """Queue ``frames``; return False, with nothing queued, if the connection is closed or the buffer full."""
        if self._closed or self.size + len(frames) > LINK_OUTBOUND_BYTES_MAX:
            return False
        self.put(frames)
        return True

    def put(self, frames: bytes) -> None:
        """Queue frames that must be sent, even if the buffer is full; dropped if the connection is closed."""
        if self._closed:
            return
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(frames)
        self._waiting_bytes += len(frames)
        if self._waiting_bytes > LINK_OUTBOUND_HIGH_BYTES:
            self._flush()

    def close(self) -> None:
        """Send nothing more, and release those who wait for ``writable``."""
        self._closed = True
        self.writable.set()

    def _flush(self) -> None:
        out, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if out and self._transport is not None and not self._closed:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
