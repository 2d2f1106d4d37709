"""The authorization of HTTP requests, without IO: scopes, their holders, and the scope that each request needs.

A scope is ``read``, ``publish`` or ``admin``, for every stream or, behind a colon, for a pattern of stream names:
``read:ORDERS``, ``read:KV_*``, where ``*`` matches any characters. Only ``admin`` without a pattern implies the
others. A path that is not listed here needs a valid key.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from delta_store.values.cut_record import CUTS as CUTS_STREAM


class Action(StrEnum):
    """The kinds of permission."""

    READ = "read"
    PUBLISH = "publish"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Scope:
    """A permission for some streams."""

    action: Action
    streams: str = "*"

    def holds(self, action: Action, stream: str | None) -> bool:
        """Whether it allows an action on a stream or, with None, on at least one."""
        if self.action == Action.ADMIN and self.streams == "*":
            return True
        return self.action == action and (stream is None or matches(self.streams, stream))


@dataclass(frozen=True, slots=True)
class Principal:
    """The holder of a key, or subject of a token."""

    name: str
    scopes: tuple[Scope, ...]

    def may(self, action: Action, stream: str | None = None) -> bool:
        """Whether a scope allows an action on a stream or, with None, on at least one."""
        return any(scope.holds(action, stream) for scope in self.scopes)

    @property
    def readable(self) -> tuple[str, ...]:
        """Patterns of the streams that it may read, for a process that has the names only."""
        return tuple(scope.streams for scope in self.scopes if scope.holds(Action.READ, None))


@dataclass(frozen=True, slots=True)
class Need:
    """The permission that a request needs; without an action, any valid key."""

    action: Action | None = None
    stream: str | None = None


EVERYBODY: Final = Principal("everybody", (Scope(Action.ADMIN),))
"""The principal where no keys are configured."""
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""Paths of probes, which show no data."""
_STREAMS: Final = "/v1/streams"
LASTS: Final = "/v1/multi-last"
"""The last messages of several streams, each of which the route asks for the permission to."""
_PAST_WORK: Final = ("branch", "rewind", "undelete")
"""What is done to a whole stream, behind its name."""
CUTS: Final = "/v1/cuts"
SQL: Final = "/v1/sql"
SHARING: Final = "/delta-sharing"
"""The endpoint of Delta Sharing."""
SHARES: Final = f"{SHARING}/shares"
SHARED_FILES: Final = f"{SHARING}/files"
"""Files that a shared table is served as; their URLs are signed, which stands for a key."""


def parse_scope(text: str) -> Scope:
    """Parse ``read``, ``read:ORDERS``, ``admin``…; raises ``ValueError``."""
    action, colon, streams = text.partition(":")
    if action not in set(Action) or (colon and not streams) or any(char in streams for char in ". >\t\r\n"):
        raise ValueError(f"no such scope: {text!r}; give read, publish or admin, and a pattern as in read:ORDERS_*")
    return Scope(Action(action), streams or "*")


def need_of(path: str, method: str = "GET") -> Need | None:
    """Return the need of a path, whose escapes are decoded; None if it is open to all."""
    if path in OPEN_PATHS or path.startswith(f"{SHARED_FILES}/"):
        return None
    if path == "/metrics" or path.startswith(f"{CUTS}/"):
        return Need(Action.ADMIN, None if path == "/metrics" else CUTS_STREAM)
    if path in (_STREAMS, LASTS, CUTS, SQL) or path.startswith(f"{SQL}."):
        return Need(Action.READ)
    if path.startswith(f"{_STREAMS}/"):
        stream, _, rest = path.removeprefix(f"{_STREAMS}/").partition("/")
        changes = Action.ADMIN if rest in _PAST_WORK else Action.PUBLISH
        return Need(Action.READ if method in ("GET", "HEAD") else changes, stream)
    if path == SHARES or path.startswith(f"{SHARES}/"):
        return Need(Action.READ, _shared_stream(path))
    return Need()


def _shared_stream(path: str) -> str | None:
    """Return the stream of a path below a shared table; None of one that lists."""
    parts = path.removeprefix(SHARES).split("/")
    return parts[5] if len(parts) > 5 and parts[4] == "tables" else None


def matches(pattern: str, name: str) -> bool:
    """Whether the name is the pattern with any characters in place of each ``*``."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
