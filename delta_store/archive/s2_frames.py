"""The framing of S2 and Snappy streams: chunks of a kind byte, three bytes of length, and a body.

A data chunk begins with the masked CRC-32C of its content (google/snappy, framing_format.txt). S2 differs by the name
in the chunk that begins a stream, and by larger blocks.
"""

from collections.abc import Iterator
from typing import Final

from delta_store.archive import s2_block
from delta_store.archive.bad_archive import BadArchive

BEGIN: Final = b"\xff\x06\x00\x00S2sTwO"
"""The chunk that begins a stream."""
PADDING: Final = b"\xfe\x00\x00\x00"
"""A chunk that holds nothing."""
CONTENT_BYTES: Final = 1024 * 1024
"""Content of each chunk that is written: as that of klauspost/compress, whose writer nats-server uses."""
_NAMES: Final = (b"S2sTwO", b"sNaPpY")
_COMPRESSED, _PLAIN, _BEGIN = 0x00, 0x01, 0xFF
_SKIPPABLE: Final = 0x80
_HEAD, _SUM = 4, 4
_BODY_BYTES_MAX: Final = _SUM + s2_block.BLOCK_BYTES_MAX + s2_block.BLOCK_BYTES_MAX // 4
"""Most bytes of a data chunk's body: a block that does not shrink grows a little."""


def encode(content: bytes) -> bytes:
    """Return the chunks with this content, without :data:`BEGIN`."""
    return b"".join(_chunk(content[start : start + CONTENT_BYTES]) for start in range(0, len(content), CONTENT_BYTES))


def masked(content: bytes) -> int:
    """Return the checksum of a chunk: the CRC-32C, rotated and shifted, as the framing format asks."""
    from google_crc32c import value as crc32c

    crc: int = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _chunk(content: bytes) -> bytes:
    block = s2_block.encode(content)
    kind, body = (_COMPRESSED, block) if len(block) < len(content) else (_PLAIN, content)
    size = _SUM + len(body)
    return b"".join((bytes((kind,)), size.to_bytes(3, "little"), masked(content).to_bytes(_SUM, "little"), body))


class FrameReader:
    """A reader of a stream that comes in parts; it holds one chunk at most."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._begun = False

    def feed(self, part: bytes) -> Iterator[bytes]:
        """Take the next part; iterate over the contents of the chunks that it completes. Raises :class:`BadArchive`."""
        held = self._held
        held += part
        while len(held) >= _HEAD:
            kind, size = held[0], int.from_bytes(held[1:_HEAD], "little")
            self._check(kind, size)
            end = _HEAD + size
            if end > len(held):
                return
            body = bytes(memoryview(held)[_HEAD:end])
            del held[:end]
            content = self._content(kind, body)
            if content:
                yield content

    def _check(self, kind: int, size: int) -> None:
        """Refuse a chunk by its head, before its body is waited for."""
        if not self._begun and kind != _BEGIN:
            raise BadArchive("s2: no stream begins here")
        if kind in (_COMPRESSED, _PLAIN):
            if not _SUM <= size <= _BODY_BYTES_MAX:
                raise BadArchive("s2: a chunk too large or too small")
        elif kind == _BEGIN:
            if size != len(_NAMES[0]):
                raise BadArchive("s2: no stream begins here")
        elif kind < _SKIPPABLE:
            raise BadArchive(f"s2: unsupported chunk {kind}")

    def _content(self, kind: int, body: bytes) -> bytes:
        if kind == _BEGIN:
            if body not in _NAMES:
                raise BadArchive("s2: no stream begins here")
            self._begun = True
            return b""
        if kind not in (_COMPRESSED, _PLAIN):
            return b""
        content = s2_block.decode(body[_SUM:]) if kind == _COMPRESSED else body[_SUM:]
        if len(content) > s2_block.BLOCK_BYTES_MAX:
            raise BadArchive("s2: a chunk too large")
        if masked(content) != int.from_bytes(body[:_SUM], "little"):
            raise BadArchive("s2: a chunk's checksum does not match")
        return content
