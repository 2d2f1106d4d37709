"""One connection of the leaf link: bytes to events, frames to bytes, until it closes. It decides nothing about retries.

Invariant: everything written leaves in the order of the calls, joined into one write per turn of the event loop or
per ``LINK_OUTBOUND_HIGH_BYTES``.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from conf.limits import LINK_FLUSHES_MAX, LINK_OUTBOUND_BYTES_MAX, LINK_OUTBOUND_HIGH_BYTES
from ingest.protocol.leaf_connect import HubInfo, read_info
from ingest.protocol.leaf_protocol import (
    PING_FRAME,
    PONG_FRAME,
    Err,
    Event,
    Info,
    Interest,
    LeafParser,
    LeafProtocolError,
    Message,
    Ping,
    Pong,
)
from ingest.protocol.link import Failure, LinkError

OnMessages = Callable[[list[Message]], None]
OnInterest = Callable[[Interest], None]


class LeafSession(asyncio.Protocol):
    """The protocol of one TCP or TLS connection to a hub's leafnode listener."""

    def __init__(self, *, on_messages: OnMessages, on_interest: OnInterest, encrypted: bool) -> None:
        loop = asyncio.get_running_loop()
        self.info: asyncio.Future[HubInfo] = loop.create_future()
        """The hub's first INFO."""
        self.closed: asyncio.Future[LinkError] = loop.create_future()
        """Why the connection ended; an exception if a callback failed, which is a fault of ours."""
        self.heard = 0
        """Chunks received so far: tells a silent peer from a live one."""
        self.on_interest = on_interest
        self.encrypted = encrypted
        self.writable = asyncio.Event()
        self.writable.set()
        self._on_messages = on_messages
        self._loop = loop
        self._parser = LeafParser()
        self._transport: asyncio.Transport | None = None
        self._awaits_tls = False
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._complaint = ""

    # --- called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; after a TLS upgrade, called once more by :meth:`upgraded`."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=LINK_OUTBOUND_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        """Handle all that ``data`` completes; end the connection on a malformed frame."""
        self.heard += 1
        if self._awaits_tls:
            self.fail(LinkError(Failure.TLS, "the hub sent plain text where its TLS handshake was due"))
            return
        fault: LeafProtocolError | None = None
        try:
            events = self._parser.feed(data)
        except LeafProtocolError as error:
            events, fault = error.events, error
        try:
            for event in events:
                self._handle(event)
        except LeafProtocolError as error:
            fault = error
        except Exception as error:  # noqa: BLE001  # a fault of ours must end the process, not only this connection
            self._crash(error)
        if fault is not None:
            self.fail(LinkError(Failure.PROTOCOL, str(fault)))

    def pause_writing(self) -> None:
        """More than ``LINK_OUTBOUND_HIGH_BYTES`` wait for the hub to read."""
        self.writable.clear()

    def resume_writing(self) -> None:
        """The hub reads again."""
        self.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Say why: the hub's last complaint explains a close better than the socket's error does."""
        if self._complaint:
            self._close(LinkError(Failure.REFUSED, self._complaint))
        elif not self.info.done():
            self._close(LinkError(Failure.UNREACHABLE, "closed before the hub said anything"))
        else:
            self._close(LinkError(Failure.LOST, f"connection lost: {exc}" if exc else "the hub closed the connection"))

    # --- called by the link ---

    def upgraded(self, transport: asyncio.BaseTransport) -> None:
        """The connection is encrypted from here on."""
        self._awaits_tls = False
        self.encrypted = True
        self.connection_made(transport)

    @property
    def transport(self) -> asyncio.Transport:
        """The open transport."""
        assert self._transport is not None
        return self._transport

    @property
    def crashed(self) -> bool:
        """Whether a callback raised; :attr:`closed` then holds its error."""
        return self.closed.done() and self.closed.exception() is not None

    def raise_if_closed(self) -> None:
        """Raise why the connection ended, a :class:`LinkError`, if it has."""
        if self.crashed:
            raise LinkError(Failure.LOST, "ended by a fault")
        if self.closed.done():
            raise self.closed.result()

    @property
    def outbound_bytes(self) -> int:
        """Bytes written and not yet taken by the kernel."""
        return self._out_bytes + (self._transport.get_write_buffer_size() if self._transport else 0)

    def write(self, frames: bytes) -> bool:
        """Queue ``frames``; False, and nothing queued, if the connection is closed or its buffer full."""
        if self.closed.done() or self.outbound_bytes + len(frames) > LINK_OUTBOUND_BYTES_MAX:
            return False
        if not self._out:
            self._loop.call_soon(self._write_out)
        self._out.append(frames)
        self._out_bytes += len(frames)
        if self._out_bytes > LINK_OUTBOUND_HIGH_BYTES:
            self._write_out()
        return True

    def ping(self) -> asyncio.Future[None]:
        """Done when the hub has processed all that was written before. Raises :class:`LinkError`."""
        if len(self._pongs) >= LINK_FLUSHES_MAX:
            raise LinkError(Failure.SILENT, f"{LINK_FLUSHES_MAX} flushes wait for the hub")
        pong: asyncio.Future[None] = self._loop.create_future()
        if not self.write(PING_FRAME):
            raise LinkError(Failure.LOST, "the link is closed or its buffer full")
        self._pongs.append(pong)
        return pong

    def keep_alive(self) -> bool:
        """Send a PING whose PONG nobody waits for; False if one is already on its way."""
        if self._pongs:
            return False
        if self.write(PING_FRAME):
            self._pongs.append(None)
        return True

    def fail(self, error: LinkError) -> None:
        """End the connection for this reason, without waiting for the peer."""
        self._close(error)
        if self._transport is not None:
            self._transport.abort()

    # --- inside ---

    def _handle(self, event: Event) -> None:
        if self._awaits_tls:
            raise LeafProtocolError("plain text follows an INFO that asks for TLS")
        if not self.info.done() and not isinstance(event, Info | Err):
            raise LeafProtocolError("the first thing a hub sends is its INFO")
        match event:
            case list():
                self._on_messages(event)
            case Interest():
                self.on_interest(event)
            case Ping():
                self.write(PONG_FRAME)
            case Pong():
                self._pong()
            case Err():
                self._complaint = event.text
            case Info():
                self._described(read_info(event))

    def _described(self, hub: HubInfo) -> None:
        if self.info.done():
            return
        self._awaits_tls = hub.tls_required and not self.encrypted
        if self._awaits_tls and self._parser.held_bytes:
            raise LeafProtocolError("plain text follows an INFO that asks for TLS")
        self.info.set_result(hub)

    def _pong(self) -> None:
        if not self._pongs:
            raise LeafProtocolError("a PONG without a PING")
        waiting = self._pongs.popleft()
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _write_out(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and self._transport is not None and not self.closed.done():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _crash(self, error: Exception) -> None:
        if not self.closed.done():
            self.closed.set_exception(error)
        self._release(LinkError(Failure.LOST, "ended by a fault"))
        self.transport.abort()

    def _close(self, error: LinkError) -> None:
        if not self.closed.done():
            self.closed.set_result(error)
        self._release(error)

    def _release(self, error: LinkError) -> None:
        """Wake all who wait for something that will not come."""
        waiting: list[asyncio.Future[Any] | None] = [self.info, *self._pongs]
        self._pongs.clear()
        for future in waiting:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()
        self.writable.set()
