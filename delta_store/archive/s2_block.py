"""Blocks of S2, which is Snappy with four more kinds of copies: read and written by the library for Snappy.

A block is the length of its content (uvarint) and then tags, the lowest two bits of each saying what it is: a literal,
or a copy of what was decoded before, by an offset of 11, 16 or 32 bits (klauspost/compress, s2/README.md). New in S2 is
the offset 0 of the first kind of copy: the offset of the copy before, with a length that may have bytes of its own. A
block that has some is rewritten with Snappy's copies in their places, and what the library says of it is what counts.
"""

from array import array
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from delta_store.archive.bad_archive import BadArchive

BLOCK_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of a block's content, nats-server's own limit."""
_CORRUPT: Final = "s2: corrupt input"
_SNAPPY: Final = pa.Codec("snappy")
_LITERAL, _COPY_1, _COPY_2, _COPY_4 = 0, 1, 2, 3
_LITERAL_1, _LITERAL_2 = 60 << 2, 61 << 2
"""Tags of literals whose length is in one or two bytes behind."""
_COPY_BYTES_MAX: Final = 64
"""Longest copy of Snappy's second and third kind."""
_REPEATS: Final = {5: (1, 8), 6: (2, (1 << 8) + 4), 7: (3, (1 << 16) + 4)}
"""By the length code of a repeat: bytes of the length that follow, and what is added to it."""
_REPEAT_SIZES: Final = (2, 2, 2, 2, 2, 3, 4, 5)
"""By the length code of a repeat: its bytes."""

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]


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
    repeats, copies = _repeats(block, start)
    lengths, ends = _repeat_lengths(block, repeats)
    if (copies < 0).any() or int(lengths.sum()) > size:
        raise BadArchive(_CORRUPT)
    offsets = _offsets(block, copies)
    kept = zip([0, *ends.tolist()], [*repeats.tolist(), len(block)], strict=True)
    parts = [b""] * (2 * len(repeats) + 1)
    parts[::2] = [block[begin:end] for begin, end in kept]
    parts[1::2] = map(_copies, offsets.tolist(), lengths.tolist())
    return b"".join(parts)


def _repeats(block: bytes, start: int) -> tuple[Ints, Ints]:
    """Return where repeats are, and for each the copy before it that is none, -1 without one."""
    found = array("q")
    add = found.append
    plain_sizes, at, copied, end = _PLAIN_SIZES, start, -1, len(block)
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
                add(at)
                add(copied)
                at += _REPEAT_SIZES[tag >> 2]
    except IndexError:
        raise BadArchive(_CORRUPT) from None
    if at > end:
        raise BadArchive(_CORRUPT)
    places = np.frombuffer(found, np.int64)
    return places[::2], places[1::2]


def _repeat_lengths(block: bytes, repeats: Ints) -> tuple[Ints, Ints]:
    """Return the lengths of repeats, and where the next tags begin."""
    raw = np.frombuffer(block, np.uint8)
    codes = raw[repeats] >> 2
    behind = repeats + 2
    lengths = codes.astype(np.int64) + 4
    for code, (width, more) in _REPEATS.items():
        chosen = np.flatnonzero(codes == code)
        lengths[chosen] = _numbers(raw, behind[chosen], width) + more
        behind[chosen] += width
    return lengths, behind


def _offsets(block: bytes, copies: Ints) -> Ints:
    """Return the offsets of copies that are no repeats."""
    raw = np.frombuffer(block, np.uint8)
    tags = raw[copies].astype(np.int64)
    offsets = np.zeros(len(copies), np.int64)
    for kind, width in ((_COPY_1, 1), (_COPY_2, 2), (_COPY_4, 4)):
        chosen = np.flatnonzero(tags & 3 == kind)
        offsets[chosen] = _numbers(raw, copies[chosen] + 1, width)
        if kind == _COPY_1:
            offsets[chosen] |= (tags[chosen] & 0xE0) << 3
    return offsets


def _numbers(raw: Bytes, places: Ints, width: int) -> Ints:
    """Return numbers of so many bytes, the lowest first."""
    found = np.zeros(len(places), np.int64)
    for step in range(width):
        found |= raw[places + step].astype(np.int64) << 8 * step
    return found


def _literal_size(block: bytes, at: int, tag: int) -> int:
    """Return the bytes of a long literal, with its tag."""
    if tag == _LITERAL_1:
        return block[at + 1] + 3
    if tag == _LITERAL_2:
        return (block[at + 1] | block[at + 2] << 8) + 4
    width = (tag >> 2) - 59
    return 2 + width + int.from_bytes(block[at + 1 : at + 1 + width], "little")


@lru_cache(maxsize=4096)
def _copies(offset: int, length: int) -> bytes:
    """Return Snappy's copies for a repeat of this offset and length."""
    width, kind = (2, 2) if offset < 1 << 16 else (4, 3)
    behind = offset.to_bytes(width, "little")
    whole, rest = divmod(length, _COPY_BYTES_MAX)
    one = bytes(((_COPY_BYTES_MAX - 1) << 2 | kind,)) + behind
    return one * whole + (bytes(((rest - 1) << 2 | kind,)) + behind if rest else b"")
