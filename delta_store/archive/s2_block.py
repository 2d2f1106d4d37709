"""Blocks of S2, which is Snappy with four more kinds of copies: read and written by the library for Snappy.

A block is the length of its content (uvarint) and then tags, the lowest two bits of each saying what it is: a literal,
or a copy of what was decoded before, by an offset of 11, 16 or 32 bits (klauspost/compress, s2/README.md). New in S2 is
the offset 0 of the first kind of copy: the offset of the copy before, with a length that may have bytes of its own. A
block that has some is rewritten with Snappy's copies in their places, and what the library says of it is what counts.
"""

from functools import lru_cache
from typing import Final

import pyarrow as pa

from delta_store.archive.bad_archive import BadArchive

BLOCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of a block's content, nats-server's own limit."""
_CORRUPT: Final = "s2: corrupt input"
_SNAPPY: Final = pa.Codec("snappy")
_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2
_LITERAL_1, _LITERAL_2 = 60 << 2, 61 << 2
"""Tags of literals whose length is in one or two bytes behind."""
_COPY_BYTES_MAX: Final = 64
"""Longest copy of Snappy's second and third kind."""
_SHORT_REPEAT_MAX: Final = 4 << 2 | _COPY_1
"""Tag of the longest repeat whose length is in its tag."""
_REPEATS: Final = {5: (1, 8), 6: (2, (1 << 8) + 4), 7: (3, (1 << 16) + 4)}
"""By the length code of a repeat: bytes of the length that follow, and what is added to it."""


def encode(content: bytes) -> bytes:
    """Return a block with this content."""
    return bytes(_SNAPPY.compress(content, asbytes=True))


def decode(block: bytes) -> bytes:
    """Return a block's content. Raises :class:`BadArchive`."""
    size, start = _content_size(block)
    if not size:
        return _empty(block, start)
    try:
        # What has none of S2's own copies is Snappy, and a copy with offset 0 is an error to Snappy.
        return bytes(_SNAPPY.decompress(block, decompressed_size=size, asbytes=True))
    except (pa.ArrowException, OSError, ValueError):
        pass
    try:
        return bytes(_SNAPPY.decompress(_as_snappy(block, start, size), decompressed_size=size, asbytes=True))
    except (pa.ArrowException, OSError, ValueError):
        raise BadArchive(_CORRUPT) from None


def _content_size(block: bytes) -> tuple[int, int]:
    """Return the declared length of the content and where the tags begin."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if size > BLOCK_BYTES_MAX:
                break
            return size, place + 1
    raise BadArchive("s2: a block without a length, or with one that is too large")


def _empty(block: bytes, start: int) -> bytes:
    if len(block) > start:
        raise BadArchive(_CORRUPT)
    return b""


def _plain_sizes() -> list[int]:
    """Return the bytes of a tag with what belongs to it, by its first byte; 0 where more of it must be looked at."""
    sizes = []
    for tag in range(256):
        kind, code = tag & 3, tag >> 2
        if kind == _LITERAL:
            sizes.append(code + 2 if code < 60 else 0)
        elif kind == _COPY_1:
            sizes.append(2 if tag & 0xE0 else 0)
        else:
            sizes.append(3 if kind == _COPY_2 else 5)
    return sizes


_PLAIN_SIZES: Final = _plain_sizes()


def _as_snappy(block: bytes, start: int, size: int) -> bytes:
    """Return the block without repeats; the tags begin at ``start``."""
    parts: list[bytes] = []
    add = parts.append
    plain_sizes, kept, at, copied, left, end = _PLAIN_SIZES, 0, start, -1, size, len(block)
    offset, computed = 0, -1
    try:
        while at < end:
            tag = block[at]
            if step := plain_sizes[tag]:
                if tag & 3:
                    copied = at
                at += step
            elif not tag & 3:
                at += _literal_size(block, at, tag)
            elif block[at + 1]:
                copied = at
                at += 2
            else:
                add(block[kept:at])
                if tag <= _SHORT_REPEAT_MAX:
                    length = (tag >> 2) + 4
                    kept = at = at + 2
                else:
                    length, kept = _repeat_length(block, at + 2, tag >> 2)
                    at = kept
                left -= length
                if copied < 0 or left < 0:
                    raise BadArchive(_CORRUPT)
                if computed != copied:
                    offset, computed = _offset(block, copied), copied
                add(_copies(offset, length))
    except IndexError:
        raise BadArchive(_CORRUPT) from None
    add(block[kept:])
    return b"".join(parts)


def _literal_size(block: bytes, at: int, tag: int) -> int:
    """Return the bytes of a long literal, with its tag."""
    if tag == _LITERAL_1:
        return block[at + 1] + 3
    if tag == _LITERAL_2:
        return (block[at + 1] | block[at + 2] << 8) + 4
    width = (tag >> 2) - 59
    return 2 + width + int.from_bytes(block[at + 1 : at + 1 + width], "little")


def _repeat_length(block: bytes, at: int, code: int) -> tuple[int, int]:
    """Return the length of a repeat that has bytes of its own, and where the next tag begins."""
    width, more = _REPEATS[code]
    if at + width > len(block):
        raise BadArchive(_CORRUPT)
    return int.from_bytes(block[at : at + width], "little") + more, at + width


def _offset(block: bytes, at: int) -> int:
    """Return the offset of a copy that is no repeat."""
    tag = block[at]
    if tag & 3 == _COPY_1:
        return (tag & 0xE0) << 3 | block[at + 1]
    return int.from_bytes(block[at + 1 : at + (3 if tag & 3 == _COPY_2 else 5)], "little")


@lru_cache(maxsize=4096)
def _copies(offset: int, length: int) -> bytes:
    """Return Snappy's copies for a repeat of this offset and length."""
    width, kind = (2, 2) if offset < 1 << 16 else (4, 3)
    behind = offset.to_bytes(width, "little")
    whole, rest = divmod(length, _COPY_BYTES_MAX)
    one = bytes(((_COPY_BYTES_MAX - 1) << 2 | kind,)) + behind
    return one * whole + (bytes(((rest - 1) << 2 | kind,)) + behind if rest else b"")
