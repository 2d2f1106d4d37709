"""The addresses, failures and retry pacing of both links to NATS.

Errors, by the link's reaction::

    LinkError
      kind UNREACHABLE   nothing listens there: retry after LINK_RETRY_SECONDS, so as to find a new listener at once
      kind LOST          an attached link broke without an error of the peer: likewise
      all other kinds    the peer answered, but the link can't attach: back off up to LINK_BACKOFF_SECONDS_MAX
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from urllib.parse import unquote, urlsplit

from conf.limits import LINK_BACKOFF_SECONDS_MAX, LINK_RETRY_SECONDS

_SCHEMES_PLAIN = ("nats", "nats-leaf")
_SCHEMES_TLS = ("tls", "tls-leaf")


class Failure(StrEnum):
    """The reason why a link is not attached."""

    UNREACHABLE = "unreachable"
    LOST = "lost"
    SILENT = "silent"
    """The peer accepted the connection and then sent nothing in time."""
    REFUSED = "refused"
    """The peer sent an error: authorization, permissions, a name in use."""
    TLS = "tls"
    PROTOCOL = "protocol"
    ADDRESS = "address"
    """The host name has no address."""
    CREDENTIALS = "credentials"
    """Our own credentials or certificates can't be used."""


class LinkError(Exception):
    """The end of one attempt or one connection."""

    def __init__(self, kind: Failure, text: str) -> None:
        super().__init__(text)
        self.kind = kind

    @property
    def at_once(self) -> bool:
        """Whether the next attempt needs no backoff."""
        return self.kind in (Failure.UNREACHABLE, Failure.LOST)


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A link's report when it attaches, fails to attach, or is lost."""

    attached: bool
    address: str
    error: LinkError | None = None
    retry_seconds: float = 0.0


OnStatus = Callable[[LinkStatus], None]


class Jitter(Protocol):
    """The part of ``random.Random`` that pacing uses."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


@dataclass(slots=True)
class RetryPacing:
    """The pause before the next attempt."""

    jitter: Jitter
    failures: int = 0
    """Attempts in a row that the peer answered without a link attached."""

    def attached(self) -> None:
        """Reset after a successful attempt."""
        self.failures = 0

    def pause(self, error: LinkError) -> float:
        """Return the seconds to wait after ``error``: short while nothing listens, else doubling, with jitter."""
        if error.at_once:
            self.failures = 0
            return LINK_RETRY_SECONDS
        longest = min(LINK_BACKOFF_SECONDS_MAX, LINK_RETRY_SECONDS * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return longest * (0.5 + 0.5 * self.jitter.random())


@dataclass(frozen=True, slots=True)
class HubEndpoint:
    """The address of one NATS server, with the login of its URL."""

    host: str
    port: int
    tls: bool = False
    """Whether the URL asks for TLS: a peer without it is refused."""
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_endpoints(urls: str, *, default_port: int) -> tuple[HubEndpoint, ...]:
    """Parse one URL, or several separated by commas. Raises ``ValueError``.

    ``nats://`` and ``nats-leaf://`` use TLS if the server asks for it, ``tls://`` insists on it; a user without a
    password is a token, as in NATS's own clients.
    """
    endpoints = tuple(_endpoint(url.strip(), default_port) for url in urls.split(",") if url.strip())
    if not endpoints:
        raise ValueError("no NATS URL given")
    return endpoints


def without_secrets(urls: str) -> str:
    """Return the URLs without their logins, fit for a log."""
    shown = []
    for url in urls.split(","):
        scheme, separator, rest = url.strip().rpartition("://")
        shown.append(f"{scheme}{separator}{rest.rpartition('@')[2]}")
    return ",".join(shown)


def _endpoint(url: str, default_port: int) -> HubEndpoint:
    parts = urlsplit(url if "://" in url else f"nats://{url}")
    if parts.scheme not in _SCHEMES_PLAIN + _SCHEMES_TLS:
        raise ValueError(f"a NATS URL begins with nats:// or tls://, not {parts.scheme}://")
    if not parts.hostname:
        raise ValueError("the NATS URL names no host")
    try:
        port = parts.port or default_port
    except ValueError:  # its text could show a part of the password, if that has an unquoted slash
        raise ValueError("the port of the NATS URL is no number up to 65535") from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    token = user if user and parts.password is None else ""
    return HubEndpoint(
        host=parts.hostname,
        port=port,
        tls=parts.scheme in _SCHEMES_TLS,
        user="" if token else user,
        password=password,
        token=token,
    )


def socket_error(error: OSError) -> str:
    """Return the system's text for the error, the same under every event loop."""
    return os.strerror(error.errno) if error.errno else str(error)
