"""Blocks of S2, which is Snappy with four more kinds of copies: decoded here, and encoded as plain Snappy.

A block is the length of its content (uvarint) and then tags, the lowest two bits of each saying what it is: a literal,
or a copy of what was decoded before, by an offset of 11, 16 or 32 bits (klauspost/compress, s2/README.md). New in S2 is
the offset 0 of the first kind of copy: the offset of the copy before, with a length that may have bytes of its own.
"""

from typing import Final

import pyarrow as pa

from delta_store.archive.bad_archive import BadArchive

BLOCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of a block's content, nats-server's own limit."""
_CORRUPT: Final = "s2: corrupt input"
_SNAPPY: Final = pa.Codec("snappy")
_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2
_REPEATS: Final = {5: (1, 8), 6: (2, (1 << 8) + 4), 7: (3, (1 << 16) + 4)}
"""By the length code of a repeat: bytes of the length that follow, and what is added to it."""


def encode(content: bytes) -> bytes:
    """Return a block with this content."""
    return bytes(_SNAPPY.compress(content, asbytes=True))


def decode(block: bytes) -> bytes:
    """Return a block's content. Raises :class:`BadArchive`."""
    size, start = _content_size(block)
    try:
        # What has none of S2's own copies is Snappy, and a copy with offset 0 is an error to Snappy.
        return bytes(_SNAPPY.decompress(block, decompressed_size=size, asbytes=True)) if size else _empty(block, start)
    except (pa.ArrowException, OSError, ValueError):
        return _decode(block, start, size)


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


def _decode(block: bytes, at: int, size: int) -> bytes:
    """Decode the tags from ``at`` on, byte by byte; nothing is written beyond ``size``."""
    out = bytearray()
    offset, end = 0, len(block)
    try:
        while at < end:
            tag = block[at]
            kind = tag & 3
            if kind == _LITERAL:
                length, at = _literal_length(block, at)
                if at + length > end or len(out) + length > size:
                    raise BadArchive(_CORRUPT)
                out += block[at : at + length]
                at += length
                continue
            if kind == _COPY_1:
                length = tag >> 2 & 7
                near = (tag & 0xE0) << 3 | block[at + 1]
                at += 2
                if near:
                    offset, length = near, length + 4
                else:
                    length, at = _repeat_length(block, at, length)
            else:
                width = 2 if kind == _COPY_2 else 4
                if at + width >= end:
                    raise BadArchive(_CORRUPT)
                length, offset = (tag >> 2) + 1, int.from_bytes(block[at + 1 : at + 1 + width], "little")
                at += 1 + width
            _copy(out, offset, length, size)
    except IndexError:
        raise BadArchive(_CORRUPT) from None
    if len(out) != size:
        raise BadArchive(_CORRUPT)
    return bytes(out)


def _literal_length(block: bytes, at: int) -> tuple[int, int]:
    """Return the length of a literal and where its bytes begin."""
    code = block[at] >> 2
    if code < 60:
        return code + 1, at + 1
    width = code - 59
    if at + width >= len(block):
        raise BadArchive(_CORRUPT)
    return int.from_bytes(block[at + 1 : at + 1 + width], "little") + 1, at + 1 + width


def _repeat_length(block: bytes, at: int, code: int) -> tuple[int, int]:
    """Return the length of a repeat, and where the next tag begins."""
    if code not in _REPEATS:
        return code + 4, at
    width, more = _REPEATS[code]
    if at + width > len(block):
        raise BadArchive(_CORRUPT)
    return int.from_bytes(block[at : at + width], "little") + more, at + width


def _copy(out: bytearray, offset: int, length: int, size: int) -> None:
    """Append ``length`` bytes from ``offset`` before the end; they may overlap what is appended."""
    start = len(out) - offset
    if not offset or start < 0 or len(out) + length > size:
        raise BadArchive(_CORRUPT)
    if length <= offset:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    out += (pattern * (length // offset + 1))[:length]
