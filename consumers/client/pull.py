"""What a pull asks for, and how the options of fetching and consuming become that (ADR-37's defaults and bounds). Pure.

Times are seconds here and nanoseconds on the wire.
"""

import json
from dataclasses import dataclass

from consumers.client.errors import UsageError

DEFAULT_MESSAGES = 500
DEFAULT_EXPIRES = 30.0
MIN_EXPIRES = 1.0
MIN_HEARTBEAT, MAX_HEARTBEAT = 0.5, 30.0
UNCOUNTED = 1_000_000
"""The batch of a pull that bytes limit: 0 would mean a single message to the server."""
GRACE = 1.0
"""Seconds that a pull's own expiry is outlived by the client's time-out."""


@dataclass(frozen=True, slots=True)
class Pull:
    """One request for messages; ``number`` names it on the inbox, so that a status can be told from another's."""

    number: int
    batch: int
    max_bytes: int = 0
    expires: float = 0.0
    idle_heartbeat: float = 0.0
    no_wait: bool = False

    @property
    def body(self) -> bytes:
        """The request as ``CONSUMER.MSG.NEXT`` takes it."""
        fields: dict[str, object] = {"batch": self.batch}
        if self.max_bytes:
            fields["max_bytes"] = self.max_bytes
        if self.no_wait:
            fields["no_wait"] = True
        else:
            fields["expires"] = _ns(self.expires)
        if self.idle_heartbeat:
            fields["idle_heartbeat"] = _ns(self.idle_heartbeat)
        return json.dumps(fields, separators=(",", ":")).encode()


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


@dataclass(frozen=True, slots=True)
class PullPlan:
    """Consuming with everything decided; zero ``max_bytes`` means that messages are counted, not bytes."""

    max_messages: int
    max_bytes: int
    expires: float
    idle_heartbeat: float
    threshold: int
    """Messages, or bytes if those are counted, at or below which the next pull is sent."""
    total: int = 0
    """Messages after which no more are asked for; zero is without end."""

    @property
    def capacity(self) -> int:
        """Of the buffer, in what the threshold counts."""
        return self.max_bytes or self.max_messages


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """How to consume; None leaves it to the default.

    ``max_messages`` (500) or else ``max_bytes`` is how much may wait in the buffer; the thresholds (half of that) are
    how little is left when more is asked for. ``expires`` (30 s, at least 1 s) is how long one pull waits at the
    server, ``idle_heartbeat`` (half of it, 0.5 to 30 s) how often the server then says that it is alive.
    """

    max_messages: int | None = None
    max_bytes: int | None = None
    expires: float = DEFAULT_EXPIRES
    idle_heartbeat: float | None = None
    threshold_messages: int | None = None
    threshold_bytes: int | None = None

    def plan(self, *, total: int = 0) -> PullPlan:
        """Decide what is open; raises :class:`UsageError` for what contradicts itself or ADR-37's bounds."""
        if self.max_messages is not None and self.max_bytes is not None:
            raise UsageError("max_messages and max_bytes exclude each other")
        by_bytes = self.max_bytes is not None
        capacity = self.max_bytes if self.max_bytes is not None else (self.max_messages or DEFAULT_MESSAGES)
        threshold = self.threshold_bytes if by_bytes else self.threshold_messages
        if (self.threshold_messages if by_bytes else self.threshold_bytes) is not None:
            raise UsageError("a threshold needs the limit that it is a part of")
        if capacity < 1 or self.max_messages == 0:
            raise UsageError("max_messages and max_bytes are at least 1")
        if threshold is None:
            threshold = capacity // 2
        if not 0 <= threshold <= capacity:
            raise UsageError(f"a threshold is between 0 and its limit of {capacity}")
        if self.expires < MIN_EXPIRES:
            raise UsageError(f"expires is at least {MIN_EXPIRES:g} s")
        return PullPlan(
            UNCOUNTED if by_bytes else capacity,
            capacity if by_bytes else 0,
            self.expires,
            _consume_heartbeat(self.idle_heartbeat, self.expires),
            threshold,
            total,
        )


def _consume_heartbeat(chosen: float | None, expires: float) -> float:
    if chosen is None:
        return min(expires / 2, MAX_HEARTBEAT)
    if not MIN_HEARTBEAT <= chosen <= MAX_HEARTBEAT:
        raise UsageError(f"idle_heartbeat is between {MIN_HEARTBEAT:g} and {MAX_HEARTBEAT:g} s")
    if chosen * 2 > expires:
        raise UsageError("idle_heartbeat is at most half of expires")
    return chosen


def fetch_pull(
    max_messages: int | None,
    *,
    max_bytes: int | None = None,
    expires: float = DEFAULT_EXPIRES,
    idle_heartbeat: float | None = None,
    no_wait: bool = False,
) -> Pull:
    """The one pull of a fetch: at least one limit; heartbeats by default only when it waits for more than 30 s."""
    if max_messages is None and max_bytes is None:
        raise UsageError("fetching needs max_messages or max_bytes")
    if (max_messages is not None and max_messages < 1) or (max_bytes is not None and max_bytes < 1):
        raise UsageError("max_messages and max_bytes are at least 1")
    if no_wait:
        if idle_heartbeat:
            raise UsageError("no_wait leaves no time for heartbeats")
        return Pull(1, max_messages or UNCOUNTED, max_bytes or 0, no_wait=True)
    if expires <= 0:
        raise UsageError("expires is more than 0; ask with no_wait for what is there now")
    if idle_heartbeat is None:
        idle_heartbeat = min(expires / 2, MAX_HEARTBEAT) if expires > DEFAULT_EXPIRES else 0.0
    if idle_heartbeat < 0 or idle_heartbeat * 2 > expires:
        raise UsageError("idle_heartbeat is at most half of expires")
    return Pull(1, max_messages or UNCOUNTED, max_bytes or 0, expires, idle_heartbeat)
