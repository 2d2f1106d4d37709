"""A stored message as readers see it."""

from typing import NamedTuple


class StoredMessage(NamedTuple):
    """One message of a stream, wherever it came from: memory, journal or settled files."""

    subject: str
    seq: int
    ts_ns: int
    headers: bytes | None
    """Raw header block as published, from ``NATS/1.0`` to the empty line; None when there is none."""
    data: bytes
