"""The client link: nats-py, for the subjects that a hub does not let a leaf have (``$JS.API.>``, ``$KV.>``).

It only takes messages in; replies leave on the leaf link, so that their order is one. What one turn of the event loop
reads is handed over as one run, as the leaf link does it, with header blocks as published: nats-py's own path would
parse them (losing duplicates, order and case) and keep a queue and a task for each subscription. A run is no longer
than what nats-py's reader holds, so nothing needs a bound.

nats-py's reconnecting is not used: it would wait on its own schedule, and forget servers. Each connection is a new
client, made when the server's port answers.
"""

import asyncio
import itertools
import socket
import ssl
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nats import errors
from nats.aio.client import Client

from ingest.links.leaf_session import OnMessages
from ingest.protocol.credentials import Credentials, CredentialsError, CredentialSource, TlsOptions
from ingest.protocol.leaf_protocol import Message, encode_subscribe
from ingest.protocol.link import Endpoint, Failure, Jitter, LinkError, LinkStatus, OnStatus, RetryPacing, socket_error

_CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Where and how to attach."""

    endpoints: tuple[Endpoint, ...]
    name: str
    credentials: CredentialSource = field(default_factory=CredentialSource)
    tls: TlsOptions = field(default_factory=TlsOptions)
    connect_timeout_seconds: float = 2.0
    ping_interval_seconds: float = 5.0
    """Between two PINGs; two that are not answered end the connection."""


class ClientLink:
    """An ordinary NATS client connection that is made again whenever it is lost."""

    def __init__(
        self, options: ClientOptions, on_messages: OnMessages, *, jitter: Jitter, on_status: OnStatus | None = None
    ) -> None:
        self.attached = asyncio.Event()
        """Set while the server has processed all subscriptions."""
        self.status = LinkStatus(False, str(options.endpoints[0]))
        self._options = options
        self._on_messages = on_messages
        self._on_status = on_status
        self._pacing = RetryPacing(jitter)
        self._subscriptions: dict[tuple[bytes, bytes], None] = {}
        self._client: _RawClient | None = None

    def subscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """Take messages of ``subject``, now and after each attachment; :meth:`flush` tells when the server knows.

        Raises ``ValueError`` for a subject or queue with spaces.
        """
        encode_subscribe(subject, queue)
        self._subscriptions[subject, queue] = None
        if self._client is not None:
            self._client.unseen.set()

    def unsubscribe(self, subject: bytes, queue: bytes = b"") -> None:
        """End what :meth:`subscribe` began; nothing happens if it is not subscribed."""
        if (subject, queue) in self._subscriptions:
            del self._subscriptions[subject, queue]
            if self._client is not None:
                self._client.unseen.set()

    @property
    def server_id(self) -> str:
        """Of the server that the link is attached to, empty while it is not."""
        return self._client.server_id if self._client is not None else ""

    async def flush(self, timeout: float) -> None:
        """Wait until the server has processed all subscriptions made and ended so far.

        Raises :class:`LinkError` when the link is not attached, ``TimeoutError`` after ``timeout`` seconds.
        """
        client = self._client
        if client is None:
            raise LinkError(Failure.LOST, "the client link is not attached")
        async with asyncio.timeout(timeout):
            try:
                await client.take(self._subscriptions)
                await client.flush(max(1, round(timeout)))
                _heed_cancellation()
            except (errors.Error, OSError) as error:
                raise LinkError(Failure.LOST, f"the client link was lost: {error}") from error

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

    async def _attend(self, endpoint: Endpoint) -> LinkError:
        """Attach, stay until the connection ends, and give the reason; a callback's own error is raised."""
        client = _RawClient(endpoint, self._options, self._on_messages)
        try:
            error = await self._attach(client, endpoint)
            if error is not None:
                return client.verdict(error)
            self._pacing.attached()
            self._client = client
            self.attached.set()
            self._report(LinkStatus(True, str(endpoint)))
            return client.verdict(await self._stay(client))
        finally:
            self.attached.clear()
            self._client = None
            with suppress(TimeoutError, OSError, errors.Error):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.leave()

    async def _attach(self, client: "_RawClient", endpoint: Endpoint) -> LinkError | None:
        """Connect and subscribe within the time; None when the server has taken all."""
        try:
            async with asyncio.timeout(self._options.connect_timeout_seconds):
                await _probe(endpoint)
                await client.enter()
                _heed_cancellation()
                await client.take(self._subscriptions)
                await client.flush()
                _heed_cancellation()
        except (LinkError, CredentialsError, errors.Error, OSError) as error:
            return _as_link_error(error)
        return LinkError(Failure.LOST, "the connection broke at once") if client.lost.is_set() else None

    async def _stay(self, client: "_RawClient") -> LinkError:
        """Until the connection ends, take up new subscriptions."""
        while not client.lost.is_set():
            await client.unseen.wait()
            client.unseen.clear()
            try:
                await client.take(self._subscriptions)
            except (errors.Error, OSError):
                break
        return LinkError(Failure.LOST, f"the connection was lost: {client.last_error or 'closed'}")

    def _report(self, status: LinkStatus) -> None:
        """Tell changes only: a closed port is tried some sixty times a second."""
        if (status.attached, str(status.error)) != (self.status.attached, str(self.status.error)):
            self.status = status
            if self._on_status is not None:
                self._on_status(status)


class _RawClient(Client):
    """nats-py's client with one callback in place of its subscriptions' queues; used for one connection."""

    def __init__(self, endpoint: Endpoint, options: ClientOptions, on_messages: OnMessages) -> None:
        super().__init__()
        self.lost = asyncio.Event()
        self.unseen = asyncio.Event()
        """Something for the link to look at: a new subscription, or the end."""
        self._endpoint = endpoint
        self._link_options = options
        self._taken: dict[tuple[bytes, bytes], int] = {}
        self._taking = asyncio.Lock()
        self._sids: set[int] = set()
        self._on_messages = on_messages
        self._run: list[Message] = []
        """What was read and is not handed over yet."""
        self._fault: Exception | None = None
        self._refusal = ""

    async def enter(self) -> None:
        """Connect once. Raises what nats-py raises, ``CredentialsError`` and :class:`LinkError`."""
        options, tls = self._link_options, self._link_options.tls
        arguments = self._authorization(options.credentials.load())
        if tls.configured or self._endpoint.tls:
            arguments["tls"] = tls.context()
            arguments["tls_handshake_first"] = tls.handshake_first
        if tls.server_name:
            arguments["tls_hostname"] = tls.server_name
        try:
            await self.connect(
                f"nats://{self._endpoint}",
                name=options.name,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(options.connect_timeout_seconds)),
                ping_interval=max(1, round(options.ping_interval_seconds)),
                error_cb=self._complained,
                closed_cb=self._ended,
                **arguments,
            )
        except errors.NoServersError as error:
            raise self.last_error or error from error

    async def leave(self) -> None:
        """Close; what was never entered needs none."""
        if self._flush_queue is not None:
            await self.close()

    @property
    def server_id(self) -> str:
        """What the server calls itself."""
        return str(self._server_info.get("server_id", ""))

    async def take(self, subscriptions: dict[tuple[bytes, bytes], None]) -> None:
        """Subscribe what is new and end what is gone.

        One call at a time: whoever waits for it may rely on what an earlier one has begun.
        """
        async with self._taking:
            await self._take(subscriptions)

    async def _take(self, subscriptions: dict[tuple[bytes, bytes], None]) -> None:
        for key in [key for key in self._taken if key not in subscriptions]:
            gone = self._taken.pop(key)
            self._sids.discard(gone)
            await self._subs[gone].unsubscribe()
            _heed_cancellation()
        for subject, queue in [key for key in subscriptions if key not in self._taken]:
            sid = self._taken[subject, queue] = self._sid + 1
            self._sids.add(sid)
            await self.subscribe(subject.decode(), queue=queue.decode())
            _heed_cancellation()

    def verdict(self, error: LinkError) -> LinkError:
        """The better reason, if there is one; raises what the callback raised."""
        if self._fault is not None:
            raise self._fault
        return LinkError(Failure.REFUSED, self._refusal) if self._refusal else error

    def _authorization(self, credentials: Credentials) -> dict[str, Any]:
        """nats-py's arguments; credentials win over those of the URL. A seed is tried out before it is needed."""
        if credentials.seed:
            self._public_nkey, _ = credentials.sign("")
            arguments: dict[str, Any] = {"signature_cb": lambda nonce: b64encode(credentials.sign(nonce)[1])}
            return arguments | ({"user_jwt_cb": credentials.jwt.encode} if credentials.jwt else {})
        source = credentials if credentials.user or credentials.token else self._endpoint
        given = {"user": source.user, "password": source.password, "token": source.token}
        return {name: value for name, value in given.items() if value}

    async def _complained(self, error: Exception) -> None:
        """nats-py reports every error here; what the server says about permissions decides nothing more."""
        if "permissions violation" in str(error).lower():
            self._refusal = str(error)
            self._ended_now()

    async def _ended(self) -> None:
        self._ended_now()

    def _ended_now(self) -> None:
        self.lost.set()
        self.unseen.set()

    def _connect_command(self) -> bytes:
        """CONNECT, unless that would send credentials in the clear against the settings."""
        tls = self._link_options.tls
        encrypted = tls.handshake_first or self._server_info.get("tls_required") is True
        if not encrypted and (tls.required or self._endpoint.tls):
            raise LinkError(Failure.TLS, "the server does not offer TLS, which the settings demand")
        return super()._connect_command()

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        """Called by nats-py's parser for each message; ours are gathered until it has nothing more to read."""
        if sid not in self._sids:
            return
        if not self._run:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._run.append(Message(bytes(subject), bytes(reply), bytes(headers or b""), bytes(data)))

    def _hand_over(self) -> None:
        run, self._run = self._run, []
        try:
            self._on_messages(run)
        except Exception as error:  # noqa: BLE001  # a fault of ours must end the process, not only this connection
            self._fault = error
            self._ended_now()


_KINDS: tuple[tuple[type[Exception], Failure, str], ...] = (
    (CredentialsError, Failure.CREDENTIALS, ""),
    (ssl.SSLError, Failure.TLS, "TLS failed: "),
    (TimeoutError, Failure.SILENT, "the server did not answer in time "),
    (errors.Error, Failure.REFUSED, ""),
    (OSError, Failure.LOST, "the connection broke: "),
)
"""What attaching may raise; the first match counts (``TimeoutError`` and ``SSLError`` are ``OSError`` too)."""


def _as_link_error(error: Exception) -> LinkError:
    if isinstance(error, LinkError):
        return error
    kind, text = next((kind, text) for known, kind, text in _KINDS if isinstance(error, known))
    return LinkError(kind, f"{text}{error}")


def _heed_cancellation() -> None:
    """To follow every call into nats-py, which swallows a cancellation that meets it while it writes."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _probe(endpoint: Endpoint) -> None:
    """Find out whether the port answers, without waiting on nats-py's schedule. Raises :class:`LinkError`."""
    try:
        _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    except socket.gaierror as error:
        raise LinkError(Failure.ADDRESS, f"{endpoint.host} has no address: {error}") from error
    except OSError as error:
        raise LinkError(Failure.UNREACHABLE, f"nothing listens: {socket_error(error)}") from error
    writer.transport.abort()
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
        # Linux connects a socket to itself when the port it dials is free and picked as its own.
        raise LinkError(Failure.UNREACHABLE, "nothing listens: connected to ourselves")
