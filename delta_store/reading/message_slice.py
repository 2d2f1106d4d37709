"""Parts of a stream's messages as values: files to read and what to leave out. Pure; other processes carry them out."""

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from delta_store.entries.settled_log import Int64s
from delta_store.reading.message_bounds import MessageBounds

PART_BYTES: Final = 32 * 1024 * 1024
PART_FILES: Final = 512
"""A part is closed when its files reach either: one task reads a part."""
Ranges = tuple[tuple[int, int], ...]


class PartFile(NamedTuple):
    """A file to read, and the sequences that it may hold of the stream."""

    path: str
    """Relative to its table."""
    first: int
    last: int
    folder: str = ""
    """Its subject partition; empty in the journal."""


class SlicePart(NamedTuple):
    """A part of a slice."""

    stream: str
    stream_id: int
    table: str
    """``journal`` or ``messages``."""
    files: tuple[PartFile, ...]
    bounds: MessageBounds
    removed: Ranges
    """Sequences to leave out."""
    evicted: bytes = b""
    """More of them, see :func:`unpacked`."""


class StreamSlice(NamedTuple):
    """All parts of a slice, of one state of the stream."""

    stream_id: int
    last_seq: int
    """The stream's last sequence when it was planned."""
    parts: list[SlicePart]


class MessagesLost(Exception):
    """Messages that were to be read have left the tables, or their stream has."""

    def __init__(self, stream: str, first: int, reason: str) -> None:
        super().__init__(f"stream {stream!r}: messages from sequence {first} on may have been missed: {reason}")
        self.stream, self.first = stream, first


def grouped(files: Iterable[tuple[PartFile, int]]) -> list[tuple[PartFile, ...]]:
    """Divide files, given with their bytes, into parts, in order."""
    groups: list[list[PartFile]] = []
    room = 0
    for file, size in files:
        if room <= 0 or len(groups[-1]) == PART_FILES:
            groups.append([])
            room = PART_BYTES
        groups[-1].append(file)
        room -= max(size, 1)
    return [tuple(group) for group in groups]


def divided(parts: Iterable[SlicePart], after: int, last: int, most: int) -> list[tuple[SlicePart, ...]]:
    """Divide the parts of a range of sequences at every ``most`` of them, wherever their files begin and end.

    The same range is divided in the same way when it is planned again; a division may be empty.
    """
    known = list(parts)
    return [
        tuple(filter(None, (part_within(part, first, min(first + most - 1, last)) for part in known)))
        for first in range(after + 1, last + 1, most)
    ]


def part_within(part: SlicePart, first: int, last: int) -> SlicePart | None:
    """Return what a part has of a range of sequences; None for nothing."""
    files = tuple(file for file in part.files if file.first <= last and file.last >= first)
    bounds = part.bounds.within(first, last)
    if not files or bounds.is_empty:
        return None
    evicted = unpacked(part.evicted)
    gone = packed(evicted[(evicted >= first) & (evicted <= last)]) if len(evicted) else b""
    return part._replace(files=files, bounds=bounds, evicted=gone)


def packed(seqs: Int64s) -> bytes:
    """Return ascending sequences in few bytes."""
    return zlib.compress(np.diff(seqs, prepend=0).astype("<i8").tobytes(), 1) if len(seqs) else b""


def unpacked(body: bytes) -> Int64s:
    """Return the sequences of :func:`packed`."""
    if not body:
        return np.empty(0, np.int64)
    seqs: Int64s = np.cumsum(np.frombuffer(zlib.decompress(body), "<i8"))
    return seqs
