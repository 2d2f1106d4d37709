"""Who may do what over HTTP, without IO: scopes, whom they are given to, and what each path asks for.

A scope is ``read``, ``publish`` or ``admin``, alone for every stream or with a pattern of stream names behind a colon:
``read:ORDERS``, ``read:KV_*``. ``*`` stands for any characters. Nothing follows from another scope but from ``admin``
alone, which holds all of them. What is not listed here needs a valid key at least.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Action(StrEnum):
    """What can be allowed."""

    READ = "read"
    PUBLISH = "publish"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Scope:
    """One permission."""

    action: Action
    streams: str = "*"

    def holds(self, action: Action, stream: str | None) -> bool:
        """Whether it allows this, for a stream or, with None, for some stream."""
        if self.action == Action.ADMIN and self.streams == "*":
            return True
        return self.action == action and (stream is None or _matches(self.streams, stream))


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks."""

    name: str
    scopes: tuple[Scope, ...]

    def may(self, action: Action, stream: str | None = None) -> bool:
        """Whether one of the scopes allows this; without a stream, whether for some stream."""
        return any(scope.holds(action, stream) for scope in self.scopes)


@dataclass(frozen=True, slots=True)
class Need:
    """What a request needs; no action means any valid key."""

    action: Action | None = None
    stream: str | None = None


EVERYBODY: Final = Principal("everybody", (Scope(Action.ADMIN),))
"""Who asks where no keys are configured."""
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""For probes; they say whether the process works, and show no data."""
_STREAMS: Final = "/v1/streams"


def parse_scope(text: str) -> Scope:
    """``read``, ``read:ORDERS``, ``admin``…; raises ``ValueError``."""
    action, colon, streams = text.partition(":")
    if action not in set(Action) or (colon and not streams) or any(char in streams for char in ". >\t\r\n"):
        raise ValueError(f"no such scope: {text!r}; give read, publish or admin, and a pattern as in read:ORDERS_*")
    return Scope(Action(action), streams or "*")


def need_of(path: str) -> Need | None:
    """What a path needs; None when it is open to all. The path's escapes are decoded."""
    if path in OPEN_PATHS:
        return None
    if path == "/metrics":
        return Need(Action.ADMIN)
    if path == _STREAMS:
        return Need(Action.READ)
    if path.startswith(f"{_STREAMS}/"):
        return Need(Action.READ, path.removeprefix(f"{_STREAMS}/").partition("/")[0])
    return Need()


def _matches(pattern: str, name: str) -> bool:
    """Whether the name is the pattern with something in place of each ``*``."""
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
