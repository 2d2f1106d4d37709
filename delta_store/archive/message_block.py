"""A block of messages as nats-server's file store writes it (``msgs/<n>.blk``), decoded many records at a time.

A record is its length (32 bits, the highest of which says that there are headers), sequence and time (64 bits each),
the length of its subject (16 bits), subject, length of the headers (32 bits, only where there are some), headers,
payload, and a hash (64 bits). The two highest bits of a sequence mark the record of an erased message, and one that
says that a message of another block is deleted. Source: ``writeMsgRecordLocked`` and ``rebuildStateFromBufLocked`` in
server/filestore.go.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun

_HEAD: Final = np.dtype([("length", "<u4"), ("seq", "<u8"), ("ts_ns", "<i8"), ("subject", "<u2")])
_HAS_HEADERS: Final = 1 << 31
_ERASED: Final = np.uint64(1 << 63)
_DELETED: Final = np.uint64(1 << 62)
_HASH_BYTES: Final = 8
_RECORD_BYTES_MIN: Final = _HEAD.itemsize + _HASH_BYTES
_RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""nats-server's own limit (``rlBadThresh``)."""

Sequences = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


class MessageBlock(NamedTuple):
    """What a block holds."""

    run: EntryRun | None
    """Its messages, in their order."""
    deleted: Sequences
    """Sequences of messages before it, or in it, that it says are deleted."""
    last_seq: int
    """Its highest sequence, also of one that is deleted or erased; 0 without any."""
    last_hash: bytes
    """The hash of its last record; empty without any."""


def decode(block: bytes, name: str) -> MessageBlock:
    """Decode a block; ``name`` is told in errors. Raises :class:`BadArchive`."""
    starts = np.array(_starts(block, name), np.int64)
    if not len(starts):
        return MessageBlock(None, np.zeros(0, np.uint64), 0, b"")
    raw = np.frombuffer(block, np.uint8)
    heads = raw[starts[:, None] + np.arange(_HEAD.itemsize)].copy().view(_HEAD)[:, 0]
    seqs = heads["seq"] & ~(_ERASED | _DELETED)
    kept = np.flatnonzero((heads["seq"] == seqs) & (seqs > 0))
    deleted = np.unique(seqs[(heads["seq"] & _DELETED) > 0])
    ends = np.append(starts[1:], len(block))
    run = _run(block, heads[kept], starts[kept], ends[kept] - _HASH_BYTES, name) if len(kept) else None
    return MessageBlock(run, deleted, int(seqs.max()), block[-_HASH_BYTES:])


def _starts(block: bytes, name: str) -> list[int]:
    """Return where records begin, which fill the block."""
    starts = []
    at, end = 0, len(block)
    while at < end:
        size = int.from_bytes(block[at : at + 4], "little") & ~_HAS_HEADERS
        if not _RECORD_BYTES_MIN <= size <= min(_RECORD_BYTES_MAX, end - at):
            raise BadArchive(f"{name}: a record is cut or damaged, or the block is encrypted")
        starts.append(at)
        at += size
    return starts


def _run(block: bytes, heads: npt.NDArray[np.void], starts: Ints, ends: Ints, name: str) -> EntryRun:
    """Return the messages whose records begin at ``starts``, without their hashes."""
    subjects = starts + _HEAD.itemsize
    subject_ends = subjects + heads["subject"]
    has_headers = heads["length"] >= _HAS_HEADERS
    header_starts = subject_ends + np.where(has_headers, 4, 0)
    if (header_starts > ends).any():
        raise BadArchive(f"{name}: a record is damaged")
    header_ends = header_starts.copy()
    for place in np.flatnonzero(has_headers).tolist():
        start = int(header_starts[place])
        header_ends[place] += int.from_bytes(block[start - 4 : start], "little")
    if (header_ends > ends).any():
        raise BadArchive(f"{name}: a record is damaged")
    try:
        names = [block[start:end].decode() for start, end in _pairs(subjects, subject_ends)]
    except UnicodeDecodeError:
        raise BadArchive(f"{name}: a subject is damaged") from None
    blocks = None
    if has_headers.any():
        blocks = [block[start:end] or None for start, end in _pairs(header_starts, header_ends)]
    data = [block[start:end] for start, end in _pairs(header_ends, ends)]
    sizes = ends - header_starts
    return EntryRun(names, heads["seq"].copy(), heads["ts_ns"].copy(), blocks, data, sizes)


def _pairs(starts: Ints, ends: Ints) -> "zip[tuple[int, int]]":
    return zip(starts.tolist(), ends.tolist(), strict=True)
