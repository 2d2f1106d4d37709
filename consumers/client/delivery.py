"""A delivered message's position in stream and consumer, and its size as the server counts it. Pure.

Sources: nats-server's server/consumer.go for the two layouts of ``$JS.ACK.`` replies, ADR-37 for sizes.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from consumers.client.errors import UsageError

ACK_PREFIX = "$JS.ACK."
_SHORT, _LONG = 9, 11
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Metadata(NamedTuple):
    """A message's position in its stream and consumer."""

    stream: str
    consumer: str
    delivered: int
    """Number of its deliveries, this one included."""
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    """Time of the stream's storing it: nanoseconds since 1970, UTC."""
    pending: int
    """Number of matching messages behind it."""
    domain: str = ""

    @property
    def timestamp(self) -> datetime:
        """:attr:`timestamp_ns` cut to microseconds."""
        return moment(self.timestamp_ns)


def moment(timestamp_ns: int) -> datetime:
    """Return a time in UTC, cut to microseconds without passing through a float."""
    return _EPOCH + timedelta(microseconds=timestamp_ns // 1000)


def read_metadata(reply: str) -> Metadata:
    """Parse an acknowledgement subject; raises :class:`UsageError` for any other."""
    tokens = reply.split(".")
    if reply.startswith(ACK_PREFIX) and (len(tokens) == _SHORT or len(tokens) >= _LONG):
        place, domain = (tokens[2:9], "") if len(tokens) == _SHORT else (tokens[4:11], tokens[2])
        if all(number.isascii() and number.isdigit() for number in place[2:]):
            delivered, stream_seq, consumer_seq, timestamp_ns, pending = map(int, place[2:])
            domain = "" if domain == "_" else domain
            return Metadata(place[0], place[1], delivered, stream_seq, consumer_seq, timestamp_ns, pending, domain)
    raise UsageError(f"not delivered by a consumer: reply {reply!r}")


def message_size(subject: str, reply: str, headers: Mapping[str, str] | None, data: bytes) -> int:
    """Return the bytes that the server counts against ``max_bytes``: subject, reply, header block, payload.

    The header block is counted from its parsed fields, so it may fall short of the server's count (repeated names); the
    end of each pull corrects that.
    """
    size = len(subject.encode()) + len(reply) + len(data)
    if headers:
        size += 12 + sum(len(name.encode()) + len(value.encode()) + 4 for name, value in headers.items())
    return size
