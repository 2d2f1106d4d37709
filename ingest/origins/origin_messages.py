"""What an origin sends to a copy: the answer to its request, messages, heartbeats, flow control. Pure.

Everything in it is another server's word: what can't be read is None, or an answer with an error.
"""

import json
from typing import Any, Final, NamedTuple

from conf.limits import SEQUENCE_MAX, TIME_NS_MAX
from delta_store.config import api_errors
from delta_store.streams.stream_identity import IDENTITY_HEADER
from ingest.protocol.wire_protocol import WireMessage

Json = dict[str, Any]
RELAYED: Final = "$SILT.ORIGIN."
"""What the subjects of a relay between two servers begin with: no client may send on with ``$JS.ACK.`` as the reply."""
_ACK: Final = b"$JS.ACK."
_CONTROL: Final = b"NATS/1.0 100 "
_DIGITS_MAX: Final = 19


class OriginDelivery(NamedTuple):
    """A message of the origin, as its ack reply tells."""

    consumer: str
    times: int
    """How often it was delivered, this time included."""
    seq: int
    consumer_seq: int
    ts_ns: int
    pending: int
    """Messages that the origin still has for the copy."""
    subject: str


class OriginAnswer(NamedTuple):
    """The answer to a request for a consumer."""

    error: Json | None = None
    consumer: str = ""
    delivered: int = 0
    """The origin's sequence up to which the consumer will deliver nothing."""
    ack_policy: str = ""
    identity: str = ""
    """Distinguishes the origin from another stream of its name; empty where the server tells none."""

    @property
    def err_code(self) -> int:
        """The error's code, 0 for none."""
        found = self.error.get("err_code") if self.error is not None else 0
        return found if isinstance(found, int) else 0


def is_control(message: WireMessage) -> bool:
    """Whether it is a heartbeat or a flow control request."""
    return not message.payload and message.header.startswith(_CONTROL)


def read_delivery(message: WireMessage) -> OriginDelivery | None:
    """Return what a message's reply subject tells; None if it is not of a consumer.

    ``$JS.ACK.<stream>.<consumer>.<times>.<seq>.<consumer seq>.<time>.<pending>@<subject>``, the newer form with two
    tokens before the stream. Names may contain ``@``, so the subject is behind the first one after eight dots.
    """
    begin = message.reply.find(_ACK) if message.reply.startswith(RELAYED.encode()) else 0
    if not message.reply.startswith(_ACK, max(0, begin)):
        return None
    tokens = message.reply[begin:].decode(errors="replace").split(".", 8)
    if len(tokens) != 9:
        return None
    last, at, subject = tokens[8].partition("@")
    tokens[8:] = last.split(".")
    consumer, *numbers = tokens[3:9] if len(tokens) == 9 else tokens[5:11]
    read = [_number(one) for one in numbers]
    if len(read) != 5 or None in read:
        return None
    times, seq, consumer_seq, ts_ns, pending = (one or 0 for one in read)
    if ts_ns > TIME_NS_MAX:
        return None
    return OriginDelivery(
        consumer, times, seq, consumer_seq, ts_ns, pending, subject if at else message.subject.decode(errors="replace")
    )


def header_value(header: bytes, name: str) -> str:
    """Return a field of a header block, whatever the case of its name; empty without one."""
    wanted = name.lower()
    for line in header.decode(errors="replace").split("\r\n")[1:]:
        field, colon, value = line.partition(":")
        if colon and field.lower() == wanted:
            return value.strip()
    return ""


def header_number(header: bytes, name: str) -> int:
    """Return a sequence in a header block; 0 without one."""
    return _number(header_value(header, name)) or 0


def read_answer(message: WireMessage) -> OriginAnswer:
    """Return what an origin answered."""
    try:
        found = json.loads(message.payload)
    except (ValueError, RecursionError) as bad:
        return OriginAnswer(api_errors.invalid_json(str(bad) or type(bad).__name__).as_json())
    said = found if isinstance(found, dict) else {}
    error, name, delivered = said.get("error"), said.get("name"), said.get("delivered")
    if isinstance(error, dict):
        return OriginAnswer(error)
    reached = delivered.get("stream_seq", 0) if isinstance(delivered, dict) else 0
    if not isinstance(name, str) or type(reached) is not int or not 0 <= reached < SEQUENCE_MAX:
        return OriginAnswer(api_errors.mirror_setup_failed("invalid consumer create response").as_json())
    config = said.get("config")
    policy = str(config.get("ack_policy", "")) if isinstance(config, dict) else ""
    return OriginAnswer(None, name, reached, policy, header_value(message.header, IDENTITY_HEADER))


def _number(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX:
        return None
    found = int(text)
    return found if found < SEQUENCE_MAX else None
