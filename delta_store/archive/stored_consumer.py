"""A consumer as nats-server's file store writes it: its configuration, and its state in bytes (``o.dat``).

Source: ``decodeConsumerState`` in server/store.go (versions 1 and 2). Times of pending messages are whole seconds.
"""

from typing import Any, Final

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.varints import VarintReader

_MAGIC: Final = 22
_VERSIONS: Final = (1, 2)
_SECOND_NS: Final = 1_000_000_000


def state_of(content: bytes, name: str) -> dict[str, Any]:
    """Return a consumer's state as the JSON of newer backups has it. Raises :class:`BadArchive`."""
    fault = f'failed to decode consumer "{name}" state'
    if len(content) < 2 or content[0] != _MAGIC or content[1] not in _VERSIONS:
        raise BadArchive(fault)
    version = content[1]
    reader = VarintReader(content, 2, fault)
    floor_seq, floor_stream, seq, stream = (reader.unsigned() for _ in range(4))
    if version == 1:
        seq += max(0, floor_seq - 1)
        stream += max(0, floor_stream - 1)
    pending, redelivered = {}, {}
    if count := reader.unsigned():
        base = reader.signed()
        for _ in range(count):
            place = reader.unsigned() + floor_stream
            delivered = reader.unsigned() + floor_seq if version == 2 else 0
            seconds = base - reader.signed() if version == 2 else reader.signed() + base
            pending[str(place)] = {"Sequence": delivered, "Timestamp": seconds * _SECOND_NS}
    for _ in range(reader.unsigned()):
        place, times = reader.unsigned(), reader.unsigned()
        if place and times:
            redelivered[str(place + floor_stream)] = times
    return {
        "delivered": {"consumer_seq": seq, "stream_seq": stream},
        "ack_floor": {"consumer_seq": floor_seq, "stream_seq": floor_stream},
        "pending": pending,
        "redelivered": redelivered,
    }
