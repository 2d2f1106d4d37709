"""A consumer's state as the journal records it.

Layout (little endian): ``SCS1``, five int64 (consumer and stream sequence of the last delivery, those of the ack floor,
last sequence of the list that ``last_per_subject`` begins with, 0 when it is done), int64 times of last delivery and
last ack (ns), int64 number of pending, int64 number of redelivered, then int64 columns: pending stream sequences, their
consumer sequences, their times (ns), redelivered stream sequences, the number of redeliveries of each.

``SCS2`` in its place, if pulls were waiting or were sent off: followed by the length of their reply subjects (uint32)
and these, separated by line feeds; then the same integers.
"""

import sys
from array import array
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_MAGIC = b"SCS1"
_WITH_REPLIES = b"SCS2"
_FIXED = 9


class ConsumerState(NamedTuple):
    """Everything that must survive a restart."""

    delivered: tuple[int, int] = (0, 0)
    """Consumer and stream sequence of the last delivery."""
    ack_floor: tuple[int, int] = (0, 0)
    skip_until: int = 0
    """Stream sequence up to which only each subject's last message is delivered; 0 for none."""
    last_delivered_ns: int = 0
    last_acked_ns: int = 0
    pending: Mapping[int, tuple[int, int]] = MappingProxyType({})
    """By stream sequence, ascending: consumer sequence and time (ns) of the delivery that waits for its ack."""
    redelivered: Mapping[int, int] = MappingProxyType({})
    """By stream sequence: number of redeliveries."""
    sent_off: tuple[bytes, ...] = ()
    """Reply subjects of pulls that were waiting, or were sent off at the end of the process."""

    def encode(self) -> bytes:
        """Return the bytes that :meth:`decode` reads."""
        fixed = [*self.delivered, *self.ack_floor, self.skip_until, self.last_delivered_ns, self.last_acked_ns]
        values = array("q", [*fixed, len(self.pending), len(self.redelivered)])
        values.extend(self.pending)
        if self.pending:
            for column in zip(*self.pending.values(), strict=True):
                values.extend(column)
        values.extend(self.redelivered)
        values.extend(self.redelivered.values())
        if sys.byteorder == "big":
            values.byteswap()
        if not self.sent_off:
            return _MAGIC + values.tobytes()
        replies = b"\n".join(self.sent_off)
        return b"".join((_WITH_REPLIES, len(replies).to_bytes(4, "little"), replies, values.tobytes()))

    @classmethod
    def decode(cls, data: bytes) -> "ConsumerState":
        """Decode the bytes of :meth:`encode`; raises ``ValueError`` for any other."""
        end = 8 + int.from_bytes(data[4:8], "little") if data[:4] == _WITH_REPLIES else 4
        if data[:4] not in (_MAGIC, _WITH_REPLIES) or (len(data) - end) % 8 or len(data) < end + 8 * _FIXED:
            raise ValueError("not a consumer's state")
        values = array("q", data[end:])
        if sys.byteorder == "big":
            values.byteswap()
        pending, redelivered = values[_FIXED - 2 : _FIXED]
        if pending < 0 or redelivered < 0 or len(values) != _FIXED + 3 * pending + 2 * redelivered:
            raise ValueError("not a consumer's state")
        parts = [values[_FIXED + at * pending : _FIXED + (at + 1) * pending] for at in range(3)]
        behind = _FIXED + 3 * pending
        again = values[behind : behind + redelivered], values[behind + redelivered :]
        return cls(
            delivered=(values[0], values[1]),
            ack_floor=(values[2], values[3]),
            skip_until=values[4],
            last_delivered_ns=values[5],
            last_acked_ns=values[6],
            pending=dict(zip(parts[0], zip(parts[1], parts[2], strict=True), strict=True)),
            redelivered=dict(zip(*again, strict=True)),
            sent_off=tuple(data[8:end].split(b"\n")) if end > 4 else (),
        )
