"""The life of a link's connection: connect, log in, subscribe, stay attached, and begin again for ever.

Invariant: ``attached`` is set only after a PONG whose PING was sent behind CONNECT and every subscription made until
then, and is cleared when the connection ends. No credential leaves in the clear where the settings demand TLS.
"""

import asyncio
import itertools
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from ingest.links.link_session import LinkSession
from ingest.protocol.credentials import Credentials, CredentialsError, CredentialSource, TlsOptions
from ingest.protocol.handshake import HubInfo
from ingest.protocol.link import (
    Failure,
    HubEndpoint,
    Jitter,
    LinkError,
    LinkStatus,
    OnStatus,
    RetryPacing,
    socket_error,
)
from ingest.protocol.subscriptions import Subscriptions
from ingest.protocol.wire_protocol import ProtocolError


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses and login of a link of either kind."""

    endpoints: tuple[HubEndpoint, ...]
    """Tried in turn."""
    credentials: CredentialSource = field(default_factory=CredentialSource)
    tls: TlsOptions = field(default_factory=TlsOptions)
    connect_timeout_seconds: float = 2.0
    """From the first SYN to the hub's PONG."""
    ping_interval_seconds: float = 5.0
    """Silence after which a PING is sent; as long a silence again ends the connection."""


@dataclass(frozen=True, slots=True)
class Manner:
    """The functions in which one kind of link differs."""

    session: Callable[[], LinkSession]
    """Makes the session of one connection."""
    check: Callable[[HubInfo], None]
    """Raises :class:`ProtocolError` for a hub that is not for this kind of link."""
    connect: Callable[[HubInfo, HubEndpoint, Credentials], bytes]
    """Encodes the CONNECT frame. Raises ``CredentialsError``."""
    attached: Callable[[LinkSession], None]
    """Called when the session is attached, before ``attached`` is set and the status reported."""


class Attachment:
    """The connection of one link, made again whenever it is lost."""

    def __init__(
        self,
        access: Access,
        manner: Manner,
        subscriptions: Subscriptions,
        *,
        jitter: Jitter,
        on_status: OnStatus | None = None,
    ) -> None:
        self.attached = asyncio.Event()
        self.status = LinkStatus(False, str(access.endpoints[0]))
        self.on_status = on_status
        self.hub: HubInfo | None = None
        """The newest connection's INFO."""
        self.session: LinkSession | None = None
        """The open connection, from the CONNECT on."""
        self._access = access
        self._manner = manner
        self._subscriptions = subscriptions
        self._pacing = RetryPacing(jitter)
        self._allowed = asyncio.Event()
        self._allowed.set()

    def allow(self, allowed: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Close the connection and make none, until it is allowed again."""
        if allowed:
            self._allowed.set()
            return
        self._allowed.clear()
        if self.session is not None:
            self.session.fail(LinkError(Failure.LOST, "the link is held back"))

    def subscribe(self, subject: bytes, queue: bytes) -> None:
        """Subscribe now and at each attachment. Raises ``ValueError`` for a subject or queue with spaces."""
        self._tell(self._subscriptions.add(subject, queue))

    def unsubscribe(self, subject: bytes, queue: bytes) -> None:
        """End a subscription, if there is one."""
        self._tell(self._subscriptions.remove(subject, queue))

    def _tell(self, frame: bytes) -> None:
        if frame and self.session is not None:
            self.session.out.put(frame)

    async def flush(self, timeout: float) -> None:
        """Wait until the hub has processed everything sent so far.

        Raises :class:`LinkError` when no connection is open or it ends, ``TimeoutError`` after ``timeout`` seconds.
        """
        if self.session is None:
            raise LinkError(Failure.LOST, "the link is not attached")
        async with asyncio.timeout(timeout):
            await self.session.ping()

    async def run(self) -> None:
        """Attach and stay attached until cancelled; otherwise only a callback's exception ends it."""
        addresses = len(self._access.endpoints)
        for endpoint in itertools.cycle(self._access.endpoints):
            await self._allowed.wait()
            error = await self._attend(endpoint)
            pause = self._pacing.pause(error)
            if error.at_once:
                pause /= addresses
            self._report(LinkStatus(False, str(endpoint), error, pause))
            await asyncio.sleep(pause)

    # --- one connection ---

    async def _attend(self, endpoint: HubEndpoint) -> LinkError:
        """Attach, stay until the connection ends, and return the reason; a callback's own exception is raised."""
        session = self._manner.session()
        try:
            error = await self._attach(session, endpoint)
            if error is not None:
                return session.closed.result() if session.crashed else error
            if not self._allowed.is_set():
                return LinkError(Failure.LOST, "the link is held back")
            self._manner.attached(session)
            self._pacing.attached()
            self.attached.set()
            self._report(LinkStatus(True, str(endpoint)))
            return await self._stay(session)
        finally:
            self.attached.clear()
            self.session = None
            session.fail(LinkError(Failure.LOST, "the link was closed"))

    async def _attach(self, session: LinkSession, endpoint: HubEndpoint) -> LinkError | None:
        """Do the handshake within its timeout; return its error, None when attached."""
        try:
            async with asyncio.timeout(self._access.connect_timeout_seconds):
                await self._handshake(session, endpoint)
        except TimeoutError:
            return LinkError(Failure.SILENT, "the hub did not answer in time (TLS first, or another kind of listener?)")
        except CredentialsError as error:
            return LinkError(Failure.CREDENTIALS, str(error))
        except ProtocolError as error:
            return LinkError(Failure.PROTOCOL, str(error))
        except LinkError as error:
            return error
        return None

    async def _handshake(self, session: LinkSession, endpoint: HubEndpoint) -> None:
        """Connect, and wait for the PONG behind CONNECT and all subscriptions.

        Raises :class:`LinkError`, :class:`ProtocolError`, :class:`CredentialsError`, ``TimeoutError``.
        """
        tls = self._access.tls
        await _connect(session, endpoint, tls)
        hub = await session.info
        session.raise_if_closed()
        self._manner.check(hub)
        if hub.tls_required and not session.encrypted:
            await _upgrade(session, endpoint, tls)
        if not session.encrypted and (tls.required or endpoint.tls):
            raise LinkError(Failure.TLS, "the hub does not offer TLS, which the settings demand")
        session.out.put(self._manner.connect(hub, endpoint, self._access.credentials.load()))
        session.out.put(self._subscriptions.frames())
        self.hub, self.session = hub, session
        try:
            await self._confirm(session)
        except LinkError as error:
            kind = Failure.REFUSED if error.kind is Failure.LOST else error.kind
            raise LinkError(kind, f"the hub did not take our CONNECT: {error}") from error

    async def _confirm(self, session: LinkSession) -> None:
        """Wait for a PONG behind all subscriptions, also those made while waiting."""
        begun = -1
        while begun != self._subscriptions.begun:
            begun = self._subscriptions.begun
            await session.ping()

    async def _stay(self, session: LinkSession) -> LinkError:
        """Wait until the connection ends, and return the reason; a silent hub gets a PING."""
        while True:
            heard = session.heard
            done, _ = await asyncio.wait((session.closed,), timeout=self._access.ping_interval_seconds)
            if done:
                return session.closed.result()
            if session.heard == heard and not session.keep_alive():
                return LinkError(Failure.SILENT, "the hub did not answer a PING")

    def _report(self, status: LinkStatus) -> None:
        """Report changes only: a closed port is tried some sixty times a second."""
        if _story(status) != _story(self.status):
            self.status = status
            if self.on_status is not None:
                self.on_status(status)


def _story(status: LinkStatus) -> tuple[bool, str]:
    return status.attached, str(status.error or "")


async def _connect(session: LinkSession, endpoint: HubEndpoint, tls: TlsOptions) -> None:
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
        # Linux connects a socket to itself if the port that it dials is free and chosen as its own.
        raise LinkError(Failure.UNREACHABLE, "nothing listens: connected to ourselves")


async def _upgrade(session: LinkSession, endpoint: HubEndpoint, tls: TlsOptions) -> None:
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


class HubLink:
    """A link as its callers see it: an attachment and its subscriptions."""

    def __init__(self, attachment: Attachment) -> None:
        self.attachment = attachment
        self.attached = attachment.attached
        """Set while connected and all subscriptions made before are known to the hub."""

    @property
    def status(self) -> LinkStatus:
        """The last status reported."""
        return self.attachment.status

    def subscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """Subscribe now and at each attachment, see :meth:`flush`. Raises ``ValueError`` for spaces."""
        self.attachment.subscribe(subject, queue)

    def unsubscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """End a subscription, if there is one; messages on their way still arrive."""
        self.attachment.unsubscribe(subject, queue)

    async def flush(self, timeout: float) -> None:
        """Wait until the hub has processed all subscriptions and frames sent so far.

        Raises :class:`LinkError` when no connection is open or it ends, ``TimeoutError`` after ``timeout`` seconds.
        """
        await self.attachment.flush(timeout)

    async def run(self) -> None:
        """Attach and stay attached until cancelled; otherwise only a callback's exception ends it."""
        await self.attachment.run()
