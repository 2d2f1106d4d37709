"""A block of messages as nats-server's file store writes it (``msgs/<n>.blk``), decoded many records at a time.

A record is its length (32 bits, the highest of which says that there are headers), sequence and time (64 bits each),
the length of its subject (16 bits), subject, length of the headers (32 bits, only where there are some), headers,
payload, and a hash (64 bits). The two highest bits of a sequence mark the record of an erased message, and one that
says that a message of another block is deleted. The hash is that of sequence, time, subject, headers and payload, by a
key of the stream and the block. Source: ``writeMsgRecordLocked`` and ``rebuildStateFromBufLocked`` in
server/filestore.go.
"""

from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun
from delta_store.archive.highway_hash import HASH_BYTES, hashes, key_of, padding

_HEAD: Final = np.dtype([("length", "<u4"), ("seq", "<u8"), ("ts_ns", "<i8"), ("subject", "<u2")])
_HAS_HEADERS: Final = 1 << 31
_ERASED: Final = np.uint64(1 << 63)
_DELETED: Final = np.uint64(1 << 62)
_RECORD_BYTES_MIN: Final = _HEAD.itemsize + HASH_BYTES
_RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""nats-server's own limit (``rlBadThresh``)."""
HASHED_BYTES_MAX: Final = 256 * 1024
"""Largest record, or other content, whose hash is compared: that of a large one takes far longer than its restore."""
_HASHED_AT_ONCE: Final = 4_000

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


class _Records(NamedTuple):
    """Where the parts of records are in a block."""

    heads: npt.NDArray[np.void]
    subjects: Ints
    subject_ends: Ints
    rests: Ints
    """Where headers and payload begin."""
    ends: Ints
    """Where the hashes begin."""

    def chosen(self, which: Ints | slice) -> "_Records":
        """Return some of them."""
        heads, subjects, subject_ends, rests, ends = self
        return _Records(heads[which], subjects[which], subject_ends[which], rests[which], ends[which])


def decode(block: bytes, name: str, stream: str, *, compressed: bool = False) -> MessageBlock:
    """Decode a block, the file ``name`` of a stream. Raises :class:`BadArchive`.

    ``compressed``: the stream's blocks were, so that the last hash in each is not compared: 2.10 stores another one.
    """
    starts = np.array(_starts(block, name), np.int64)
    if not len(starts):
        return MessageBlock(None, np.zeros(0, np.uint64), 0, b"")
    records = _located(block, starts, name)
    number = name.rpartition("/")[2].partition(".")[0]
    key = key_of(f"{stream}-{number}")
    hashed = records.chosen(slice(len(starts) - compressed))
    for start in range(0, len(hashed.ends), _HASHED_AT_ONCE):
        _check_hashes(block, hashed.chosen(slice(start, start + _HASHED_AT_ONCE)), key, name)
    marked = records.heads["seq"]
    seqs = marked & ~(_ERASED | _DELETED)
    kept = np.flatnonzero((marked == seqs) & (seqs > 0))
    deleted = np.unique(seqs[(marked & _DELETED) > 0])
    run = _run(block, records.chosen(kept), name) if len(kept) else None
    return MessageBlock(run, deleted, int(seqs.max()), block[-HASH_BYTES:])


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


def _located(block: bytes, starts: Ints, name: str) -> _Records:
    """Return the records that begin at ``starts``."""
    raw = np.frombuffer(block, np.uint8)
    heads = raw[starts[:, None] + np.arange(_HEAD.itemsize)].copy().view(_HEAD)[:, 0]
    ends = np.append(starts[1:], len(block)) - HASH_BYTES
    subjects = starts + _HEAD.itemsize
    subject_ends = subjects + heads["subject"]
    rests = subject_ends + np.where(heads["length"] >= _HAS_HEADERS, 4, 0)
    if (rests > ends).any():
        raise BadArchive(f"{name}: a record is damaged")
    return _Records(heads, subjects, subject_ends, rests, ends)


def _check_hashes(block: bytes, records: _Records, key: bytes, name: str) -> None:
    """Refuse records that are not what was written."""
    subjects, rests, ends = records.subjects, records.rests, records.ends
    sizes = 16 + (records.subject_ends - subjects) + (ends - rests)
    small = np.flatnonzero(sizes <= HASHED_BYTES_MAX)
    places = (column[small].tolist() for column in (subjects, records.subject_ends, rests, ends, sizes))
    parts = (
        (block[start - 18 : start - 2], block[start:behind], block[rest:end], padding(size))
        for start, behind, rest, end, size in zip(*places, strict=True)
    )
    found = hashes(b"".join(chain.from_iterable(parts)), sizes[small], key)
    stored = np.frombuffer(block, np.uint8)[ends[small, None] + np.arange(HASH_BYTES)].view(np.uint64)[:, 0]
    wrong = np.flatnonzero(found != stored)
    if len(wrong):
        seq = int(records.heads["seq"][small[wrong[0]]] & ~(_ERASED | _DELETED))
        raise BadArchive(f"{name}: the record of sequence {seq} is damaged: its hash is another one")


def _run(block: bytes, records: _Records, name: str) -> EntryRun:
    """Return the messages of records."""
    heads, subjects, subject_ends, rests, ends = records
    has_headers = heads["length"] >= _HAS_HEADERS
    header_ends = rests.copy()
    for place in np.flatnonzero(has_headers).tolist():
        start = int(rests[place])
        header_ends[place] += int.from_bytes(block[start - 4 : start], "little")
    if (header_ends > ends).any():
        raise BadArchive(f"{name}: a record is damaged")
    try:
        names = [block[start:end].decode() for start, end in _pairs(subjects, subject_ends)]
    except UnicodeDecodeError:
        raise BadArchive(f"{name}: a subject is damaged") from None
    blocks = None
    if has_headers.any():
        blocks = [block[start:end] or None for start, end in _pairs(rests, header_ends)]
    data = [block[start:end] for start, end in _pairs(header_ends, ends)]
    return EntryRun(names, heads["seq"].copy(), heads["ts_ns"].copy(), blocks, data, ends - rests)


def _pairs(starts: Ints, ends: Ints) -> "zip[tuple[int, int]]":
    return zip(starts.tolist(), ends.tolist(), strict=True)


def check_hash(content: bytes, stored: bytes, key_name: str, name: str) -> None:
    """Refuse a file that is not what was written; ``stored`` is its hash, ``key_name`` makes the key.

    A content above :data:`HASHED_BYTES_MAX` is not compared. Raises :class:`BadArchive`.
    """
    size = len(content)
    if size <= HASHED_BYTES_MAX and hashes(content + padding(size), (size,), key_of(key_name)).tobytes() != stored:
        raise BadArchive(f"{name}: it is damaged: its hash is another one")
