"""Status messages of pulls: those that end consuming, those reported, and the silent ones (ADR-37). Pure.

A stream's message has a reply that starts with ``$JS.ACK.``; any other on a pull's inbox is a status. Headers would
not do: a stored message may have a ``Status`` header of its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from consumers.client.errors import (
    BadPull,
    ConsumerDeleted,
    ConsumerIsPush,
    LeadershipChanged,
    PullError,
    PullLimitExceeded,
    PullNotServed,
    UnknownPullStatus,
)

HEARTBEAT = 100
_SILENT_404_408 = frozenset({404, 408})


class PullStatus(NamedTuple):
    """A status; ``pending_*`` is the rest of the ended pull's credit, None if not given."""

    code: int
    description: str = ""
    pending_messages: int | None = None
    pending_bytes: int | None = None
    last_consumer: int | None = None
    """Of a heartbeat: consumer sequence of the last message delivered."""

    @property
    def is_heartbeat(self) -> bool:
        """Whether it is a heartbeat, not the end of a pull."""
        return self.code == HEARTBEAT

    @property
    def is_too_large(self) -> bool:
        """Whether the next message did not fit into the pull's ``max_bytes``."""
        return self.code == 409 and _words(self.description).startswith("message size exceeds maxbytes")

    @property
    def problem(self) -> PullError | None:
        """The error to report, None for a silent status: no messages, timeout, bytes or batch used up."""
        if self.code in _SILENT_404_408 or self.code == HEARTBEAT or self.is_too_large:
            return None
        found = _PROBLEMS.get(self.code)
        if found is None and self.code == 409:
            words = _words(self.description)
            if words.startswith("batch completed"):
                return None
            found = next((kind for start, kind in _CONFLICTS if words.startswith(start)), None)
        return (found or UnknownPullStatus)(self.code, self.description)


_PROBLEMS: dict[int, type[PullError]] = {400: BadPull, 503: PullNotServed}
_CONFLICTS: tuple[tuple[str, type[PullError]], ...] = (
    ("consumer deleted", ConsumerDeleted),
    ("consumer is push based", ConsumerIsPush),
    ("exceeded max", PullLimitExceeded),
    ("leadership change", LeadershipChanged),
)


def _words(description: str) -> str:
    """Return the text without case and dashes: ADR-37 and the server differ in these."""
    return description.lower().replace("-", " ")


def read_status(headers: Mapping[str, str] | None) -> PullStatus:
    """Return the status in a message's headers; code 0 if there is none."""
    if not headers:
        return PullStatus(0, "a message without status")
    return PullStatus(
        _number(headers.get("Status")) or 0,
        headers.get("Description", ""),
        _number(headers.get("Nats-Pending-Messages")),
        _number(headers.get("Nats-Pending-Bytes")),
        _number(headers.get("Nats-Last-Consumer")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
