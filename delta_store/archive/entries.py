"""The entries of an archive (ADR-63): ``state.json``, ``consumers/<name>``, messages by sequence, and an empty one.

An entry is the length of its name (uvarint), its time (varint), sequence, sizes of headers and payload (uvarints), then
name, headers, payload. ``NATSARC1`` stands before the first one.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from delta_store.archive.bad_archive import BadArchive

MAGIC: Final = b"NATSARC1"
STATE_NAME: Final = "state.json"
CONSUMER_PREFIX: Final = "consumers/"
_INVALID: Final = "archive: invalid archive stream"
_NAME_BYTES_MAX: Final = 1024 * 1024
_UINT64: Final = 1 << 64
_INT63: Final = (1 << 63) - 1
_VARINT_BYTES_MAX: Final = 10
_FIELDS: Final = 5


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
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class EntryReader:
    """A reader of entries from content that comes in parts; it holds one entry and one part at most."""

    def __init__(self, check: Callable[[ArchiveHead], None]) -> None:
        """``check`` raises :class:`BadArchive` for an entry that is not to be waited for, such as one too large."""
        self._check = check
        self._held = bytearray()
        self._at = 0
        self._begun = False
        self._head: ArchiveHead | None = None
        self.ended = False
        """Whether the last entry has been read; whatever follows it is dropped."""

    def feed(self, part: bytes) -> Iterator[ArchiveEntry]:
        """Take the next part; iterate over the entries that it completes, all of them. Raises :class:`BadArchive`."""
        if self.ended:
            return
        self._held += part
        if not self._begun:
            if len(self._held) < len(MAGIC):
                return
            if not self._held.startswith(MAGIC):
                raise BadArchive(_INVALID)
            self._begun, self._at = True, len(MAGIC)
        while (entry := self._next()) is not None:
            if entry == END:
                self.ended = True
                self._held.clear()
                return
            yield entry
        del self._held[: self._at]
        self._at = 0

    def _next(self) -> ArchiveEntry | None:
        """Return the next entry; None where more is needed."""
        held = self._held
        if self._head is None:
            numbers, at = self._numbers()
            if len(numbers) < _FIELDS:
                return None
            self._head, self._at = _checked(numbers), at
            self._check(self._head)
        name_size, ts_ns, seq, header_size, payload_size = self._head
        name_end = self._at + name_size
        headers_end = name_end + header_size
        end = headers_end + payload_size
        if end > len(held):
            return None
        try:
            name = held[self._at : name_end].decode()
        except UnicodeDecodeError:
            raise BadArchive(_INVALID) from None
        entry = ArchiveEntry(name, ts_ns, seq, bytes(held[name_end:headers_end]), bytes(held[headers_end:end]))
        self._at, self._head = end, None
        return entry

    def _numbers(self) -> tuple[list[int], int]:
        """Return the numbers of a head, as many as are there whole, and where they end."""
        held, at = self._held, self._at
        numbers: list[int] = []
        end = len(held)
        while len(numbers) < _FIELDS:
            value = shift = 0
            while True:
                if at >= end:
                    return numbers, at
                byte = held[at]
                at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift >= 7 * _VARINT_BYTES_MAX:
                    raise BadArchive(_INVALID)
            if value >= _UINT64:
                raise BadArchive(_INVALID)
            numbers.append(value)
        return numbers, at


def _checked(numbers: list[int]) -> ArchiveHead:
    name_size, ts_ns, seq, header_size, payload_size = numbers
    if name_size > _NAME_BYTES_MAX or header_size + payload_size > _INT63:
        raise BadArchive(_INVALID)
    return ArchiveHead(name_size, ts_ns >> 1 ^ -(ts_ns & 1), seq, header_size, payload_size)
