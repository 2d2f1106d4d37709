"""The entries of an archive (ADR-63): ``state.json``, ``consumers/<name>``, messages by sequence, and an empty one.

An entry is the length of its name (uvarint), its time (varint), sequence, sizes of headers and payload (uvarints), then
name, headers, payload. ``NATSARC1`` stands before the first one.
"""

from typing import Final, NamedTuple

MAGIC: Final = b"NATSARC1"
STATE_NAME: Final = "state.json"
CONSUMER_PREFIX: Final = "consumers/"
FROM_SEQ: Final = "silt_from_seq"
LIVE_BEFORE: Final = "silt_live"
"""What an increment's state says besides: its first sequence, and which earlier messages were still there."""

RESUME: Final = "silt_resume"
RESUMED: Final = "silt_resumed"
"""In the request of a restore, the sender's word; in the reply, the last sequence that is there already."""


class ArchiveHead(NamedTuple):
    """What stands before an entry's name and content."""

    name_size: int
    ts_ns: int
    seq: int
    """0 of an entry that is no message."""
    header_size: int
    payload_size: int


class ArchiveEntry(NamedTuple):
    """One entry."""

    name: str
    """Of a message, its subject."""
    ts_ns: int
    seq: int
    headers: bytes
    payload: bytes


END: Final = ArchiveEntry("", 0, 0, b"", b"")
"""The entry behind all others."""


def encode(entry: ArchiveEntry) -> bytes:
    """Return the bytes of an entry."""
    name = entry.name.encode()
    ts_ns = entry.ts_ns << 1 if entry.ts_ns >= 0 else ~(entry.ts_ns << 1)
    numbers = (len(name), ts_ns, entry.seq, len(entry.headers), len(entry.payload))
    return b"".join((*map(_uvarint, numbers), name, entry.headers, entry.payload))


def _uvarint(value: int) -> bytes:
    """Return the bytes of a number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
