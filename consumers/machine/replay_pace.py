"""Two paces of delivery: a rate limit, and the original intervals between messages."""

from typing import Final

_SECOND: Final = 1_000_000_000
_SHORTEST_NS: Final = 1_000_000
"""Shorter intervals between messages are ignored."""


class RateLimit:
    """A token bucket of bytes, filled at the configured rate."""

    __slots__ = ("_burst", "_rate", "_then_ns", "_tokens")

    def __init__(self, bits_per_second: int, *, burst: int) -> None:
        self._rate = max(1, bits_per_second // 8)
        self._burst = burst
        self._tokens = float(burst)
        self._then_ns = 0

    def free_at(self, size: int, now_ns: int) -> int:
        """Return when (ns) a message of ``size`` may leave; one larger than the bucket waits until that is full."""
        self._fill(now_ns)
        missing = min(size, self._burst) - self._tokens
        return now_ns + int(missing * _SECOND / self._rate) + 1 if missing > 0 else now_ns

    def take(self, size: int, now_ns: int) -> None:
        """Take a message's bytes from the bucket."""
        self._fill(now_ns)
        self._tokens -= size

    @property
    def tokens(self) -> float:
        """Bytes that may leave at once."""
        return self._tokens

    def _fill(self, now_ns: int) -> None:
        if now_ns > self._then_ns:
            self._tokens = min(float(self._burst), self._tokens + (now_ns - self._then_ns) * self._rate / _SECOND)
            self._then_ns = now_ns


class OriginalPace:
    """The original intervals of messages, up to those that existed at the start."""

    __slots__ = ("_sent_ns", "_stored_ns", "_until_seq")

    def __init__(self, until_seq: int) -> None:
        self._until_seq = until_seq
        self._stored_ns = 0
        self._sent_ns = 0

    def over(self, next_seq: int) -> bool:
        """Whether the consumer has caught up, after which there is no pace."""
        return next_seq > self._until_seq

    def free_at(self, stored_ns: int, now_ns: int) -> int:
        """Return the time (ns) at which a message stored at ``stored_ns`` may leave."""
        gap = stored_ns - self._stored_ns
        return self._sent_ns + gap if self._stored_ns and gap > _SHORTEST_NS else now_ns

    def sent(self, stored_ns: int, now_ns: int) -> None:
        """Record the delivery of a message."""
        self._stored_ns, self._sent_ns = stored_ns, now_ns
