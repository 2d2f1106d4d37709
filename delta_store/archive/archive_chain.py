"""A chain of archives: a whole one, and increments, made into one archive of the stream as the last one saw it. Pure.

An increment has the state and the consumers of its moment, and the messages from one sequence on. Its ``state.json``
says so by ``silt_from_seq``, and which of the earlier messages were still there by ``silt_live``, ranges of first
and last. So each archive of a chain is one consistent view, and the last one says all that is not in it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from delta_store.archive import s2_frames
from delta_store.archive.archived import METADATA_BYTES_MAX, read_object
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entries import (
    END,
    FROM_SEQ,
    LIVE_BEFORE,
    MAGIC,
    STATE_NAME,
    ArchiveEntry,
    ArchiveHead,
    encode,
)
from delta_store.archive.entry_reader import EntryReader
from delta_store.archive.entry_run import EntryRun
from delta_store.archive.message_entries import encode_run
from delta_store.archive.s2_frames import FrameReader


class _OpenArchive(NamedTuple):
    """One archive, opened."""

    state: dict[str, Any]
    consumers: list[ArchiveEntry]
    messages: Iterator[ArchiveEntry | EntryRun]

    @property
    def first_sent(self) -> int:
        """The sequence from which on it has messages."""
        return _number(self.state, FROM_SEQ, 1)


def merged_archive(parts: Sequence[Iterable[bytes]]) -> Iterator[bytes]:
    """Iterate over the one archive that archives, the whole one first, make up. Raises :class:`BadArchive`.

    ``parts`` are the contents of the files, in pieces; each is read as the result is.
    """
    chain = [_opened(part) for part in parts]
    _check(chain)
    state, consumers, _ = chain[-1]
    spans = _spans(state.get(LIVE_BEFORE, []))
    shown = {key: value for key, value in state.items() if key not in (FROM_SEQ, LIVE_BEFORE)}
    head = ArchiveEntry(STATE_NAME, 0, 0, b"", json.dumps(shown).encode())
    yield s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, (head, *consumers))))
    count = 0
    for part in chain:
        for found in part.messages:
            content, messages = _kept(found, spans, whole=part is chain[-1])
            count += messages
            yield s2_frames.encode(content)
    if count != (said := _number(state, "messages", 0)):
        raise BadArchive(f"the backup and its increments have {count} messages, their state says {said}")
    yield s2_frames.encode(encode(END))


def _spans(said: Any) -> Any:
    try:
        return np.array(said or np.zeros((0, 2)), np.uint64).reshape(-1, 2)
    except (ValueError, TypeError, OverflowError):
        raise BadArchive(f"error in {STATE_NAME}: {LIVE_BEFORE} is no list of ranges") from None


def _check(chain: Sequence[_OpenArchive]) -> None:
    """Refuse archives that do not follow one another."""
    before = 0
    for number, part in enumerate(chain):
        if (part.first_sent if number else before + 1) != before + 1 or (FROM_SEQ in part.state) is not bool(number):
            raise BadArchive(f"increment {number} does not follow the archive before it, which ends with {before}")
        before = _number(part.state, "last_seq", 0)


def _kept(found: ArchiveEntry | EntryRun, spans: Any, *, whole: bool) -> tuple[bytes, int]:
    """Return the entries that stay, and their number: those within ``spans``, or the ``whole``."""
    if isinstance(found, ArchiveEntry):
        stays = whole or _within(np.array([found.seq], np.uint64), spans).all()
        return (encode(found), 1) if stays else (b"", 0)
    run = found if whole else found.chosen(_within(found.seqs, spans))
    return encode_run(run.as_messages()), run.messages


def _within(seqs: Any, spans: Any) -> Any:
    """Return which sequences are in ascending spans."""
    if not len(spans):
        return np.zeros(len(seqs), bool)
    places = np.searchsorted(spans[:, 0], seqs, side="right") - 1
    return (places >= 0) & (seqs <= spans[np.maximum(places, 0), 1])


def _opened(pieces: Iterable[bytes]) -> _OpenArchive:
    entries = _Entries(pieces)
    messages = iter(entries)
    state = next(messages, None)
    if not isinstance(state, ArchiveEntry) or state.name != STATE_NAME:
        raise BadArchive("expected state.json first")
    shown = read_object(state.payload, "error in state.json")
    consumers = []
    for _ in range(_number(shown, "consumer_count", 0)):
        consumer = next(messages, None)
        if not isinstance(consumer, ArchiveEntry):
            raise BadArchive("expected consumer")
        consumers.append(consumer)
    entries.reader.in_runs = True
    return _OpenArchive(shown, consumers, messages)


def _number(shown: dict[str, Any], key: str, default: int) -> int:
    number = shown.get(key, default)
    if type(number) is not int or number < 0:
        raise BadArchive(f"error in {STATE_NAME}: {key} is no number")
    return number


class _Entries:
    """The entries of one archive."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.reader = EntryReader(_check_size)
        self._pieces = pieces

    def __iter__(self) -> Iterator[ArchiveEntry | EntryRun]:
        frames = FrameReader()
        for piece in self._pieces:
            for content in frames.feed(piece):
                yield from self.reader.feed(content)
        if not self.reader.ended:
            raise BadArchive("unexpected EOF")


def _check_size(head: ArchiveHead) -> None:
    if head.header_size + head.payload_size > METADATA_BYTES_MAX:
        raise BadArchive("archive: an entry is too large")
