"""One connection of a link: bytes to events, frames to bytes, until it closes. Retries are the attachment's."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from conf.limits import LINK_FLUSHES_MAX
from ingest.links.outbound import Outbound
from ingest.protocol.handshake import HubInfo, read_info
from ingest.protocol.link import Failure, LinkError
from ingest.protocol.wire_protocol import (
    PING_FRAME,
    PONG_FRAME,
    Dialect,
    Err,
    Event,
    Info,
    Interest,
    Ping,
    Pong,
    ProtocolError,
    WireMessage,
    WireParser,
)

OnMessages = Callable[[list[WireMessage]], None]
OnInterest = Callable[[Interest], None]


class LinkSession(asyncio.Protocol):
    """The protocol of one TCP or TLS connection to a hub's listener."""

    def __init__(self, dialect: Dialect, *, on_messages: OnMessages, on_interest: OnInterest, encrypted: bool) -> None:
        loop = asyncio.get_running_loop()
        self.info: asyncio.Future[HubInfo] = loop.create_future()
        """The hub's first INFO."""
        self.closed: asyncio.Future[LinkError] = loop.create_future()
        """Done when the connection has ended, with its reason; with the exception of a callback that failed."""
        self.heard = 0
        """Number of chunks received; a silent peer's does not grow."""
        self.on_interest = on_interest
        self.encrypted = encrypted
        self.out = Outbound()
        self._dialect = dialect
        self._on_messages = on_messages
        self._loop = loop
        self._parser = WireParser(dialect)
        self._transport: asyncio.Transport | None = None
        self._awaits_tls = False
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._complaint = ""

    # --- called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; after a TLS upgrade, called once more by :meth:`upgraded`."""
        self._transport = cast(asyncio.Transport, transport)
        self.out.to(self._transport)

    def data_received(self, data: bytes) -> None:
        """Handle the events that ``data`` completes; end the connection on a malformed frame."""
        self.heard += 1
        if self._awaits_tls:
            self.fail(LinkError(Failure.TLS, "the hub sent plain text where its TLS handshake was due"))
            return
        fault: ProtocolError | None = None
        try:
            events = self._parser.feed(data)
        except ProtocolError as error:
            events, fault = error.events, error
        try:
            for event in events:
                if self.closed.done():
                    return
                self._handle(event)
        except ProtocolError as error:
            fault = error
        except Exception as error:  # noqa: BLE001  # a fault of ours must end the process, not only this connection
            self.fail(LinkError(Failure.LOST, "ended by a fault"), fault=error)
        if fault is not None:
            self.fail(LinkError(Failure.PROTOCOL, str(fault)))

    def pause_writing(self) -> None:
        """Clear ``writable``: more than ``LINK_OUTBOUND_HIGH_BYTES`` wait for the hub to read."""
        self.out.writable.clear()

    def resume_writing(self) -> None:
        """Set ``writable``: the hub reads again."""
        self.out.writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail with the hub's last -ERR, which explains a close better than the socket's error."""
        if self._complaint:
            self.fail(LinkError(Failure.REFUSED, self._complaint))
        elif not self.info.done():
            self.fail(LinkError(Failure.UNREACHABLE, "closed before the hub said anything"))
        else:
            self.fail(LinkError(Failure.LOST, f"connection lost: {exc}" if exc else "the hub closed the connection"))

    # --- called by the link ---

    def upgraded(self, transport: asyncio.BaseTransport) -> None:
        """Continue on ``transport``, which is encrypted."""
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
        """Whether a callback raised; :attr:`closed` then holds its exception."""
        return self.closed.done() and self.closed.exception() is not None

    def raise_if_closed(self) -> None:
        """Raise the :class:`LinkError` that ended the connection, if it has ended."""
        if self.crashed:
            raise LinkError(Failure.LOST, "ended by a fault")
        if self.closed.done():
            raise self.closed.result()

    def ping(self) -> asyncio.Future[None]:
        """Send a PING; the future is done when the hub has processed all frames before. Raises :class:`LinkError`."""
        if len(self._pongs) >= LINK_FLUSHES_MAX:
            raise LinkError(Failure.SILENT, f"{LINK_FLUSHES_MAX} flushes wait for the hub")
        pong: asyncio.Future[None] = self._loop.create_future()
        if not self.out.write(PING_FRAME):
            raise LinkError(Failure.LOST, "the link is closed or its buffer full")
        self._pongs.append(pong)
        return pong

    def keep_alive(self) -> bool:
        """Send a PING whose PONG nobody awaits; return False if one is already on its way."""
        if self._pongs:
            return False
        if self.out.write(PING_FRAME):
            self._pongs.append(None)
        return True

    def fail(self, error: LinkError, *, fault: Exception | None = None) -> None:
        """End the connection at once and fail all pending futures; ``fault`` is the exception of a failed callback."""
        if not self.closed.done():
            if fault is not None:
                self.closed.set_exception(fault)
            else:
                self.closed.set_result(error)
        waiting = [self.info, *self._pongs]
        self._pongs.clear()
        for future in waiting:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()
        self.out.close()
        if self._transport is not None:
            self._transport.abort()

    # --- inside ---

    def _handle(self, event: Event) -> None:
        if self._awaits_tls:
            raise ProtocolError("plain text follows an INFO that asks for TLS")
        if not self.info.done() and not isinstance(event, Info | Err):
            raise ProtocolError("the first thing a hub sends is its INFO")
        match event:
            case list():
                self._on_messages(event)
            case Interest():
                self.on_interest(event)
            case Ping():
                self.out.write(PONG_FRAME)
            case Pong():
                self._pong()
            case Err():
                self._complaint = event.text
                if self._dialect.err_is_final:
                    self.fail(LinkError(Failure.REFUSED, event.text))
            case Info():
                self._described(read_info(event))

    def _described(self, hub: HubInfo) -> None:
        if self.info.done():
            return
        self._awaits_tls = hub.tls_required and not self.encrypted
        if self._awaits_tls and self._parser.held_bytes:
            raise ProtocolError("plain text follows an INFO that asks for TLS")
        self.info.set_result(hub)

    def _pong(self) -> None:
        if not self._pongs:
            raise ProtocolError("a PONG without a PING")
        waiting = self._pongs.popleft()
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
