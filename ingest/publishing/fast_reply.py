"""The reply subjects of fast batches' messages, which describe the message, and the replies to them.

Form: ``<prefix>.<batch id>.<flow>.<fail|ok>.<batch sequence>.<operation>.$FI`` (nats-server 2.15, server/stream.go).
"""

from typing import Final, NamedTuple

from delta_store.config.api_errors import ApiRefusal
from delta_store.dialect.json_writer import write_json
from ingest.protocol.leaf_protocol import encode_message

ENDING: Final = b".$FI"
_START, _APPEND, _COMMIT, _END, _PING = range(5)
_OPERATIONS = {b"%d" % operation: operation for operation in range(5)}
_GAP_OK = {b"ok": True, b"fail": False}
_FLOW_DEFAULT = 10
_FLOW_MAX = 0xFFFF
_SEQUENCE_MAX = 0xFFFF_FFFF_FFFF_FFFE
_DIGITS_MAX = 30
"""Longer numbers are out of bounds."""


class FastReply(NamedTuple):
    """The fields of a reply subject."""

    batch_id: bytes
    flow: int
    """Most messages between two acknowledgements, 1 to 65535."""
    gap_ok: bool
    seq: int
    """The batch sequence, from 1."""
    operation: int

    @property
    def ping(self) -> bool:
        """Whether the message requests the last acknowledgement again, and is not stored."""
        return self.operation == _PING

    @property
    def commit(self) -> bool:
        """Whether the message is the last one of its batch."""
        return self.operation in (_COMMIT, _END)

    @property
    def end(self) -> bool:
        """Whether the message ends its batch without being stored."""
        return self.operation == _END


def is_fast(reply: bytes) -> bool:
    """Whether a reply subject is one of a fast batch, well-formed or not."""
    return reply.endswith(ENDING) and len(reply) > len(ENDING)


def parse(reply: bytes) -> FastReply | None:
    """Parse the reply subject of a fast batch's message; None if it is malformed."""
    parts = reply.rsplit(b".", 6)
    if len(parts) != 7:
        return None
    _, batch_id, flow, gap, number, op, _ = parts
    operation, seq, gap_ok = _operation(op), _number(number), _GAP_OK.get(gap)
    if operation < 0 or not 0 < seq <= _SEQUENCE_MAX or gap_ok is None:
        return None
    if (operation in (_APPEND, _END) and seq == 1) or (operation == _START and seq != 1):
        return None
    wanted = _number(flow)
    return FastReply(batch_id, min(wanted, _FLOW_MAX) if wanted > 0 else _FLOW_DEFAULT, gap_ok, seq, operation)


def ack(reply: bytes, seq: int, flow: int) -> bytes:
    """Return the reply that messages up to this batch sequence are stored, and the next follows after ``flow`` more."""
    return encode_message(reply, b'{"type":"ack","seq":%d,"msgs":%d}' % (seq, flow))


def gap(reply: bytes, expected: int, seq: int) -> bytes:
    """Return the reply that a message with batch sequence ``seq`` arrived in place of ``expected``."""
    return encode_message(reply, b'{"type":"gap","last_seq":%d,"seq":%d}' % (expected, seq))


def refused(reply: bytes, seq: int, error: ApiRefusal) -> bytes:
    """Return the reply that the message with this batch sequence was not stored."""
    return encode_message(reply, b'{"type":"err","seq":%d,"error":%b}' % (seq, write_json(error.as_json())))


def _number(text: bytes) -> int:
    """Parse a decimal number as nats-server does; -1 for any other text."""
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else -1


def _operation(text: bytes) -> int:
    operation = _OPERATIONS.get(text)
    if operation is None:
        operation = _number(text)
        operation = operation if operation <= _PING else -1
    return operation
