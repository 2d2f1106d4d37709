"""Message TTLs (ADR-43): ``Nats-TTL``, messages that never expire, and subject delete markers. Pure.

Only streams with ``allow_msg_ttl`` have a :class:`MsgTtls`. It follows from the live messages' headers alone, so it can
be rebuilt from rows; expired messages are recorded as removed like all others.
"""

import re
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from delta_store.dialect.durations import format_duration, parse_duration
from delta_store.index.stream_index import StreamIndex

_SECOND: Final = 1_000_000_000
_TTL: Final = re.compile(rb"\r\nNats-TTL: *(.*?)\r\n", re.DOTALL)
_MARKER: Final = re.compile(rb"\r\n(?:Nats-Marker-Reason: *[^\r]|KV-Operation: *PURGE\r\n)")
_DIGITS_MAX: Final = 19
"""Most digits of a number of seconds within 64 bits."""
_NEVER: Final = -1
_SPARE: Final = 1024
"""Entries of removed messages that are kept before they are cleaned up."""


def ttl_seconds(value: bytes) -> int | None:
    """Parse a per-message TTL: whole seconds, 0 for none, -1 for never; None when it is not valid."""
    if value.lower() == b"never":
        return _NEVER
    duration_ns = parse_duration(value.decode(errors="replace"))
    if duration_ns is not None:
        return duration_ns // _SECOND if duration_ns >= _SECOND else None
    return int(value) if value.isdigit() and len(value) <= _DIGITS_MAX else None


def marker_header(ttl_ns: int) -> bytes:
    """Return the header block of the delete marker for a subject whose last message has expired."""
    duration = format_duration(ttl_ns // _SECOND * _SECOND)
    return b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %b\r\nNats-Rollup: sub\r\n\r\n" % duration.encode()


class MsgTtls:
    """The expiry of one stream's live messages, from their headers."""

    __slots__ = ("_aging_from", "_due", "_markers", "_never")

    def __init__(self) -> None:
        self._due: list[tuple[int, int]] = []
        """Heap of (expiry time in ns, sequence); may hold removed messages."""
        self._never: set[int] = set()
        self._markers: set[int] = set()
        self._aging_from = 0
        """All live messages below this sequence never expire."""

    def note(self, seq: int, headers: bytes | None, *, ts_ns: int) -> None:
        """Add a stored message."""
        if not headers:
            return
        found = _TTL.search(headers)
        seconds = (ttl_seconds(found[1]) or 0) if found is not None else 0
        if seconds == _NEVER:
            self._never.add(seq)
        elif seconds:
            heappush(self._due, (ts_ns + seconds * _SECOND, seq))
        if _MARKER.search(headers) is not None:
            self._markers.add(seq)

    def is_marker(self, seq: int) -> bool:
        """Whether a message is a delete marker: no marker replaces it when it expires."""
        return seq in self._markers

    def expired(self, index: StreamIndex, *, max_age: int, now_ns: int) -> list[int]:
        """Return the live messages to remove by now: those older than ``max_age`` first, each part ascending."""
        aged: list[int] = []
        oldest = self._oldest_aging(index) if max_age > 0 else 0
        if oldest and index.live.ts_of(oldest) + max_age <= now_ns:
            last = index.seq_at_time(now_ns - max_age + 1) - 1
            aged = [seq for seq in index.live.sequences(oldest, last).tolist() if seq not in self._never]
        gone = set(aged)
        due = []
        while self._due and self._due[0][0] <= now_ns:
            _, seq = heappop(self._due)
            if seq not in gone and index.live.sid_of(seq) >= 0:
                due.append(seq)
        self._forget(index)
        return aged + sorted(due)

    def next_ns(self, index: StreamIndex, *, max_age: int) -> int:
        """Return when the next message expires; 0 when none ever will."""
        while self._due and index.live.sid_of(self._due[0][1]) < 0:
            heappop(self._due)
        oldest = self._oldest_aging(index) if max_age > 0 else 0
        times = [self._due[0][0]] if self._due else []
        return min([*times, index.live.ts_of(oldest) + max_age] if oldest else times, default=0)

    def _oldest_aging(self, index: StreamIndex) -> int:
        """Return the first live message that ``max_age`` applies to, or 0."""
        seq = index.live.next(max(self._aging_from, index.first_seq))
        while seq and seq in self._never:
            seq = index.live.next(seq + 1)
        self._aging_from = seq or index.last_seq + 1
        return seq

    def _forget(self, index: StreamIndex) -> None:
        """Drop the entries of removed messages once there are many."""
        is_live: Callable[[int], bool] = lambda seq: index.live.sid_of(seq) >= 0  # noqa: E731  # a predicate for three sets
        if len(self._never) > index.msgs + _SPARE:
            self._never = set(filter(is_live, self._never))
        if len(self._markers) > index.msgs + _SPARE:
            self._markers = set(filter(is_live, self._markers))
        if len(self._due) > index.msgs + _SPARE:
            self._due = [one for one in self._due if is_live(one[1])]
            heapify(self._due)
