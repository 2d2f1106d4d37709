"""Ack subjects: the reply subjects of deliveries, encoded and parsed."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from consumers.machine.effects import Ack

ACK_PREFIX: Final = b"$JS.ACK."
FLOW_PREFIX: Final = b"$JS.FC."
_V1_TOKENS: Final = 9
_V2_TOKENS: Final = 11
_DIGITS_MAX: Final = 19


class AckMessage(NamedTuple):
    """A link's message to an ack subject."""

    subject: bytes
    reply: bytes
    header: bytes
    payload: bytes


def ack_prefix(stream: str, consumer: str) -> bytes:
    """Return the prefix of a consumer's ack subjects; see :func:`parse_acks` for the rest."""
    return b"%b%b.%b." % (ACK_PREFIX, stream.encode(), consumer.encode())


def parse_acks(messages: Iterable[AckMessage]) -> dict[tuple[bytes, bytes], list[Ack]]:
    """Parse acks by stream and consumer, in order; other subjects are ignored.

    Behind stream and consumer: number of deliveries, stream and consumer sequence, time (ns), number pending. Both
    layouts are read: 9 tokens, and 11 or more with domain and account in front of the stream.
    """
    found: dict[tuple[bytes, bytes], list[Ack]] = {}
    for subject, reply, header, payload in messages:
        tokens = subject.split(b".")
        number = len(tokens)
        start = 2 if number == _V1_TOKENS else 4 if number >= _V2_TOKENS else 0
        if not start:
            continue
        delivered, stream_seq, consumer_seq = tokens[start + 2 : start + 5]
        if not (delivered.isdigit() and stream_seq.isdigit() and consumer_seq.isdigit()):
            continue
        if len(stream_seq) > _DIGITS_MAX or len(consumer_seq) > _DIGITS_MAX or len(delivered) > _DIGITS_MAX:
            continue
        ack = Ack(int(stream_seq), int(consumer_seq), int(delivered), payload, reply, header)
        key = (tokens[start], tokens[start + 1])
        if key in found:
            found[key].append(ack)
        else:
            found[key] = [ack]
    return found


def parse_flow(subject: bytes) -> tuple[bytes, bytes, str] | None:
    """Parse ``$JS.FC.<stream>.<consumer>.<token>``, a flow control reply, into stream, consumer and token."""
    tokens = subject.split(b".")
    if len(tokens) < 5:
        return None
    return tokens[2], tokens[3], b".".join(tokens[4:]).decode(errors="replace")
