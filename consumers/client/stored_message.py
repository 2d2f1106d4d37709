"""A stream's message, decoded from a reply of Direct Get or of STREAM.MSG.GET. Pure."""

import base64
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from consumers.client.delivery import moment
from consumers.client.errors import UnreadableAnswer

_TIME = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)")
_OWN = frozenset(
    ("Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Num-Pending", "Nats-Last-Sequence")
)


class StoredMessage(NamedTuple):
    """One message of a stream, with the headers it was published with."""

    stream: str
    subject: str
    seq: int
    timestamp_ns: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def timestamp(self) -> datetime:
        """:attr:`timestamp_ns` cut to microseconds."""
        return moment(self.timestamp_ns)


def read_time(text: str) -> int:
    """Parse an RFC 3339 time, or Go's own notation, into nanoseconds since 1970. Raises UnreadableAnswer."""
    found = _TIME.match(text)
    if found is None:
        raise UnreadableAnswer(f"not a time: {text!r}")
    seconds, fraction, zone = found.groups()
    whole = datetime.fromisoformat(seconds + ("+00:00" if zone == "Z" else zone))
    return int(whole.timestamp()) * 10**9 + int((fraction or "").ljust(9, "0"))


def write_time(time: datetime) -> str:
    """Format a time by RFC 3339. Raises UnreadableAnswer for one without a zone."""
    if time.tzinfo is None:
        raise UnreadableAnswer("a time without its zone")
    return time.isoformat()


def is_stored(headers: Mapping[str, str] | None) -> bool:
    """Whether a reply of Direct Get is a message, not a status."""
    return headers is not None and "Nats-Sequence" in headers and "Nats-Time-Stamp" in headers


def from_direct(headers: Mapping[str, str], data: bytes) -> StoredMessage:
    """Decode a reply of Direct Get. Raises UnreadableAnswer."""
    try:
        return StoredMessage(
            headers["Nats-Stream"],
            headers["Nats-Subject"],
            int(headers["Nats-Sequence"]),
            read_time(headers["Nats-Time-Stamp"]),
            {name: value for name, value in headers.items() if name not in _OWN},
            data,
        )
    except (KeyError, ValueError) as error:
        raise UnreadableAnswer(f"not a reply of Direct Get: {dict(headers)}") from error


def from_json(stream: str, message: Mapping[str, Any]) -> StoredMessage:
    """Decode the ``message`` in a reply of STREAM.MSG.GET. Raises UnreadableAnswer."""
    try:
        return StoredMessage(
            stream,
            message["subject"],
            message["seq"],
            read_time(message["time"]),
            read_headers(base64.b64decode(message.get("hdrs") or "")),
            base64.b64decode(message.get("data") or ""),
        )
    except (KeyError, ValueError) as error:
        raise UnreadableAnswer("not an answer of STREAM.MSG.GET") from error


def read_headers(block: bytes) -> dict[str, str]:
    """Parse a raw header block; of a repeated name the last value counts, as in nats-py."""
    headers = {}
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.strip().decode("ascii", "replace")] = value.strip().decode("utf-8", "replace")
    return headers
