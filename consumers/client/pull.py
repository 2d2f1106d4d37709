"""Pull requests, made from the options of fetching and consuming by ADR-37's defaults and bounds. Pure.

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
"""Seconds from a pull's expiry to the client's own timeout."""


@dataclass(frozen=True, slots=True)
class Pull:
    """One request for messages; ``number`` identifies it on the inbox, so that a status is matched to its pull."""

    number: int
    batch: int
    max_bytes: int = 0
    expires: float = 0.0
    idle_heartbeat: float = 0.0
    no_wait: bool = False

    @property
    def body(self) -> bytes:
        """The request to ``CONSUMER.MSG.NEXT`` in JSON."""
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
    """The complete parameters of consuming; with zero ``max_bytes``, messages are counted, not bytes."""

    max_messages: int
    max_bytes: int
    expires: float
    idle_heartbeat: float
    threshold: int
    """Pending messages, or bytes if those are counted, at or below which the next pull is sent."""
    total: int = 0
    """Number of messages to request in all; zero is without end."""

    @property
    def capacity(self) -> int:
        """Capacity of the buffer, in the threshold's unit."""
        return self.max_bytes or self.max_messages


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """The options of consuming; None is the default.

    ``max_messages`` (500) or else ``max_bytes`` bounds the buffer; at the threshold (half of that) more is requested.
    A pull waits ``expires`` seconds at the server (30, at least 1), which sends a heartbeat every ``idle_heartbeat``
    seconds (half of that, 0.5 to 30).
    """

    max_messages: int | None = None
    max_bytes: int | None = None
    expires: float = DEFAULT_EXPIRES
    idle_heartbeat: float | None = None
    threshold_messages: int | None = None
    threshold_bytes: int | None = None

    def plan(self, *, total: int = 0) -> PullPlan:
        """Fill in the defaults; raises :class:`UsageError` for contradictions and values outside ADR-37's bounds."""
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
    """Return a fetch's pull; raises UsageError without a limit. By default, heartbeats only above 30 s ``expires``."""
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
