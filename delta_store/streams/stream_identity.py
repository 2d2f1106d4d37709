"""A stream's identity, by which a server that copies it finds that another one has taken its name. Pure."""

import re
from typing import Final

from delta_store.dialect.times import format_time
from delta_store.streams.stream_sources import short_hash

IDENTITY_HEADER: Final = "Nats-Stream-Identity"
_ASKED: Final = re.compile(rb"\r\n%b: *(.*?)\r\n" % IDENTITY_HEADER.encode(), re.DOTALL)


def stream_identity(created_ns: int) -> str:
    """Return nats-server's identity of a stream that was created then."""
    return short_hash(format_time(created_ns))


def asked_identity(header: bytes) -> str | None:
    """Return the identity in a request's header block, empty where the sender knows none; None without the field."""
    found = _ASKED.search(header) if header else None
    return found[1].decode(errors="replace") if found is not None else None


def identity_block(identity: str) -> bytes:
    """Return the header block of a reply."""
    return f"NATS/1.0\r\n{IDENTITY_HEADER}: {identity}\r\n\r\n".encode()
