"""The leaf link: stream subjects and acks come in, replies and deliveries go out, in one order.

It attaches, is lost and attaches again for ever. ``attached`` is set once the hub has taken CONNECT and processed every
subscription (one PING behind them all), and cleared when the connection ends. What is sent while no connection is open
is refused, never kept: the sender decides.
"""

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from conf.limits import LEAF_PAYLOAD_BYTES_MAX
from ingest.links.leaf_session import LeafSession, OnMessages
from ingest.protocol.credentials import CredentialsError, CredentialSource, TlsOptions
from ingest.protocol.interest import InterestTable, OnChange
from ingest.protocol.leaf_connect import HubInfo, LeafIdentity, connect_frame
from ingest.protocol.leaf_protocol import encode_subscribe, encode_unsubscribe, subject_of, with_queues
from ingest.protocol.link import Endpoint, Failure, Jitter, LinkError, LinkStatus, OnStatus, RetryPacing, socket_error
from ingest.protocol.payload_limit import Oversize, within


@dataclass(frozen=True, slots=True)
class LeafOptions:
    """Where and how to attach."""

    endpoints: tuple[Endpoint, ...]
    identity: LeafIdentity
    credentials: CredentialSource = field(default_factory=CredentialSource)
    tls: TlsOptions = field(default_factory=TlsOptions)
    connect_timeout_seconds: float = 2.0
    """From the first SYN to the hub's PONG."""
    ping_interval_seconds: float = 5.0
    """Silence after which the hub is asked; as long a silence again ends the connection."""


class LeafLink:
    """A leafnode connection to a hub that is made again whenever it is lost."""

    def __init__(
        self,
        options: LeafOptions,
        on_messages: OnMessages,
        *,
        jitter: Jitter,
        on_interest: OnChange | None = None,
        on_status: OnStatus | None = None,
    ) -> None:
        self.attached = asyncio.Event()
        self.interest = InterestTable(on_change=on_interest)
        """The hub's subscriptions as of the last attachment; meaningful while ``attached``."""
        self.on_oversize: Callable[[Oversize], None] = lambda _: None
        """Called with each message that was too large for the hub."""
        self.hub: HubInfo | None = None
        """What the hub last said about itself."""
        self.status = LinkStatus(False, str(options.endpoints[0]))
        self._options = options
        self._on_messages = on_messages
        self._on_status = on_status
        self._pacing = RetryPacing(jitter)
        self._subscriptions: dict[tuple[bytes, bytes], None] = {}
        self._session: LeafSession | None = None

    # --- the callers' side ---

    def subscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """Take messages of ``subject``, now and after each attachment; :meth:`flush` tells when the hub knows.

        Raises ``ValueError`` for a subject or queue with spaces.
        """
        frame = encode_subscribe(subject, queue)
        if (subject, queue) not in self._subscriptions:
            self._subscriptions[subject, queue] = None
            self.send(frame)

    def unsubscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """End what :meth:`subscribe` began; nothing happens if it is not subscribed."""
        if (subject, queue) in self._subscriptions:
            del self._subscriptions[subject, queue]
            self.send(encode_unsubscribe(subject, queue))

    def send(self, frames: bytes) -> bool:
        """Send encoded frames after all earlier ones, without waiting.

        False means that nothing was sent: no connection is open, or ``LINK_OUTBOUND_BYTES_MAX`` already wait. A message
        of more than :attr:`payload_max` bytes never leaves, see :mod:`ingest.protocol.payload_limit`.
        """
        if self._session is None:
            return False
        if len(frames) > self.payload_max:
            frames, left_out = within(frames, self.payload_max)
            for one in left_out:
                self.on_oversize(one)
        return self._session.write(frames)

    @property
    def payload_max(self) -> int:
        """Bytes of header and payload that the hub takes in one message."""
        return (self.hub.max_payload if self.hub is not None else 0) or LEAF_PAYLOAD_BYTES_MAX

    def send_runs(self, *runs: bytes) -> bool:
        """Send messages as :meth:`send` does; each run is frames to one subject, whose queue groups it will name."""
        return self.send(b"".join(map(self._named, runs) if self.interest.has_groups else runs))

    def _named(self, run: bytes) -> bytes:
        queues = self.interest.queues(subject_of(run))
        return with_queues(run, sorted(queues)) if queues else run

    @property
    def writable(self) -> bool:
        """Whether a connection is open and less than ``LINK_OUTBOUND_HIGH_BYTES`` wait for the hub."""
        return self._session is not None and self._session.writable.is_set()

    @property
    def outbound_bytes(self) -> int:
        """Bytes sent and not yet taken by the kernel."""
        return self._session.outbound_bytes if self._session is not None else 0

    async def drain(self, timeout: float) -> None:
        """Wait until :attr:`writable` or detached. Raises ``TimeoutError``."""
        if self._session is not None:
            async with asyncio.timeout(timeout):
                await self._session.writable.wait()

    async def flush(self, timeout: float) -> None:
        """Wait until the hub has processed all subscriptions and frames sent so far.

        Raises :class:`LinkError` when no connection is open or it ends, ``TimeoutError`` after ``timeout`` seconds.
        """
        if self._session is None:
            raise LinkError(Failure.LOST, "the leaf link is not attached")
        async with asyncio.timeout(timeout):
            await self._session.ping()

    async def run(self) -> None:
        """Attach and stay attached until cancelled; only a fault in a callback ends it otherwise."""
        addresses = len(self._options.endpoints)
        for endpoint in itertools.cycle(self._options.endpoints):
            error = await self._attend(endpoint)
            pause = self._pacing.pause(error)
            if error.at_once:
                pause /= addresses
            self._report(LinkStatus(False, str(endpoint), error, pause))
            await asyncio.sleep(pause)

    # --- one connection ---

    async def _attend(self, endpoint: Endpoint) -> LinkError:
        """Attach, stay until the connection ends, and give the reason; a callback's own error is raised."""
        fresh = InterestTable()
        session = LeafSession(
            on_messages=self._on_messages, on_interest=fresh.apply, encrypted=self._options.tls.handshake_first
        )
        try:
            error = await self._attach(session, endpoint)
            if error is not None:
                return session.closed.result() if session.crashed else error
            self.interest.replace(fresh)
            session.on_interest = self.interest.apply
            self._pacing.attached()
            self.attached.set()
            self._report(LinkStatus(True, str(endpoint)))
            return await self._stay(session)
        finally:
            self.attached.clear()
            self._session = None
            session.fail(LinkError(Failure.LOST, "the leaf link was closed"))

    async def _attach(self, session: LeafSession, endpoint: Endpoint) -> LinkError | None:
        """The handshake within its time; None when the hub has taken us."""
        try:
            async with asyncio.timeout(self._options.connect_timeout_seconds):
                await self._handshake(session, endpoint)
        except TimeoutError:
            return LinkError(Failure.SILENT, "the hub did not answer in time (TLS first, or no leafnode listener?)")
        except CredentialsError as error:
            return LinkError(Failure.CREDENTIALS, str(error))
        except LinkError as error:
            return error
        return None

    async def _handshake(self, session: LeafSession, endpoint: Endpoint) -> None:
        """From TCP to the PONG behind CONNECT and all subscriptions.

        Raises :class:`LinkError`, :class:`CredentialsError`, ``TimeoutError``.
        """
        tls = self._options.tls
        await _connect(session, endpoint, tls)
        hub = await session.info
        session.raise_if_closed()
        if hub.tls_required and not session.encrypted:
            await _upgrade(session, endpoint, tls)
        if not session.encrypted and (tls.required or endpoint.tls):
            raise LinkError(Failure.TLS, "the hub does not offer TLS, which the settings demand")
        connect = connect_frame(hub, endpoint, self._options.identity, self._options.credentials.load())
        self.hub = hub
        subscriptions = b"".join(encode_subscribe(subject, queue) for subject, queue in self._subscriptions)
        session.write(connect + subscriptions)
        self._session = session
        try:
            await session.ping()
        except LinkError as error:
            kind = Failure.REFUSED if error.kind is Failure.LOST else error.kind
            raise LinkError(kind, f"the hub did not take our CONNECT: {error}") from error

    async def _stay(self, session: LeafSession) -> LinkError:
        """Until the connection ends, ask a silent hub whether it is there."""
        while True:
            heard = session.heard
            done, _ = await asyncio.wait((session.closed,), timeout=self._options.ping_interval_seconds)
            if done:
                return session.closed.result()
            if session.heard == heard and not session.keep_alive():
                return LinkError(Failure.SILENT, "the hub did not answer a PING")

    def _report(self, status: LinkStatus) -> None:
        """Tell changes only: a closed port is tried some sixty times a second."""
        if _story(status) != _story(self.status):
            self.status = status
            if self._on_status is not None:
                self._on_status(status)


def _story(status: LinkStatus) -> tuple[bool, str]:
    return status.attached, str(status.error or "")


async def _connect(session: LeafSession, endpoint: Endpoint, tls: TlsOptions) -> None:
    """Open TCP, and TLS where it comes first. Raises :class:`LinkError`."""
    loop = asyncio.get_running_loop()
    context = tls.context() if tls.handshake_first else None
    name = (tls.server_name or endpoint.host) if context else None
    try:
        transport, _ = await loop.create_connection(
            lambda: session, endpoint.host, endpoint.port, ssl=context, server_hostname=name
        )
    except ssl.SSLError as error:
        raise LinkError(Failure.TLS, f"TLS failed: {error}") from error
    except socket.gaierror as error:
        raise LinkError(Failure.ADDRESS, f"{endpoint.host} has no address: {error}") from error
    except OSError as error:
        raise LinkError(Failure.UNREACHABLE, f"nothing listens: {socket_error(error)}") from error
    if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
        # Linux connects a socket to itself when the port it dials is free and picked as its own.
        raise LinkError(Failure.UNREACHABLE, "nothing listens: connected to ourselves")


async def _upgrade(session: LeafSession, endpoint: Endpoint, tls: TlsOptions) -> None:
    """Encrypt the open connection. Raises :class:`LinkError`."""
    name = tls.server_name or endpoint.host
    try:
        transport = await asyncio.get_running_loop().start_tls(
            session.transport, session, tls.context(), server_hostname=name
        )
    except (ssl.SSLError, ConnectionError) as error:
        raise LinkError(Failure.TLS, f"TLS failed: {error}") from error
    if transport is None:
        raise LinkError(Failure.TLS, "TLS failed: the connection ended")
    session.upgraded(transport)
