"""Rows of the journal, the one total order of all that happened to the streams.

A row is a message or an event. Rows of one stream are ordered by position ``(stream_id, seq, event_no)``: a message
takes the next ``seq``; an event keeps the stream's ``seq`` and takes the next ``event_no``, so events after message S
sort behind it and before message S+1.

Limits are decided once, by the gateway, and *recorded*: every row carries the stream's ``first_seq`` after it was
applied (whatever max_msgs, max_bytes, max_age or a purge cut off in front), and ``evicts``, the one message that a
per-subject limit removed for it (0 for none). Readers, Spark and replays only apply what is recorded, so a limit that
is later raised, or a message that is later deleted, can never bring a removed message back.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from isal.isal_zlib import crc32


class Kind(StrEnum):
    """The kind of a row; the values are persisted and must never change."""

    MESSAGE = "message"
    REMOVE = "remove"
    """Messages removed other than by a new one: ``data`` is a JSON object, see :class:`Removal`."""
    STREAM = "stream"
    """Stream created or updated: ``data`` is ``{"config": {...}, "created_ns": n}``."""
    STREAM_DELETE = "stream_delete"
    CONSUMER = "consumer"
    """Consumer created or updated: ``subject`` is its name, ``data`` is ``{"config": {...}, "created_ns": n}``."""
    CONSUMER_DELETE = "consumer_delete"
    """Consumer deleted: ``subject`` is its name."""
    CONSUMER_STATE = "consumer_state"
    """A consumer's progress: ``subject`` is its name, ``data`` its whole state, so only the newest row counts."""

    SOURCE_STATE = "source_state"
    """How far the stream has copied its sources: ``data`` covers all of them, so only the newest row counts."""


CONSUMER_KINDS = frozenset((Kind.CONSUMER, Kind.CONSUMER_DELETE, Kind.CONSUMER_STATE, Kind.SOURCE_STATE))
"""Rows that change no message of the stream."""


MESSAGE_OVERHEAD: Final = 30
HEADERS_OVERHEAD: Final = 4
"""Bytes that a message counts for beside subject and payload, and more beside its headers if it has any."""


class Position(NamedTuple):
    """A row's place in its stream's order."""

    stream_id: int
    seq: int
    event_no: int


class Row(NamedTuple):
    """One journal row; the column order is the order of the journal's schema."""

    stream: str
    stream_id: int
    """Creation time of the stream in ns: distinguishes it from an older stream of the same name."""
    seq: int
    event_no: int
    kind: str
    subject: str
    ts_ns: int
    msg_id: str | None
    first_seq: int
    evicts: int
    headers: bytes | None
    """Raw header block as published, from ``NATS/1.0`` to the empty line; None when there is none."""
    data: bytes
    crc: int
    """:func:`checksum` of subject, headers and data; readers verify it."""

    @property
    def position(self) -> Position:
        """The row's place in its stream's order."""
        return Position(self.stream_id, self.seq, self.event_no)


class Removal(NamedTuple):
    """The ``data`` of a REMOVE row."""

    ranges: list[tuple[int, int]]
    """Inclusive sequence ranges; empty when only ``first_seq`` moved."""
    reason: str
    """``delete``, ``purge``, ``limits``, ``age``, ``consumed``, ``skip``, ``rollup`` or ``schedule``.

    A rollup's row stands before the message that rolls up and erases nothing: reads as of that message see the state
    after the rollup, reads of earlier points see what was rolled up (nats-server has purged it).
    """
    erase: bool
    """Whether reads of the past hide these messages as well."""


@dataclass(slots=True)
class RowColumns:
    """Rows column by column (equal lengths), as the journal writer and the index take them."""

    stream: list[str] = field(default_factory=list)
    stream_id: list[int] = field(default_factory=list)
    seq: list[int] = field(default_factory=list)
    event_no: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    subject: list[str] = field(default_factory=list)
    ts_ns: list[int] = field(default_factory=list)
    msg_id: list[str | None] = field(default_factory=list)
    first_seq: list[int] = field(default_factory=list)
    evicts: list[int] = field(default_factory=list)
    headers: list[bytes | None] = field(default_factory=list)
    data: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seq)

    def append(self, row: Row) -> None:
        """Add one row (the event path; the publish decision adds messages in bulk)."""
        for name in self.__slots__:
            getattr(self, name).append(getattr(row, name))

    def reached(self) -> dict[tuple[str, int], int]:
        """Return the last sequence of each stream incarnation (name, id) that has rows here."""
        names, ids, seqs = self.stream, self.stream_id, self.seq
        if names and names.count(names[0]) == ids.count(ids[0]) == len(names):
            return {(names[0], ids[0]): seqs[-1]}
        return dict(zip(zip(names, ids, strict=True), seqs, strict=True))

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows, with their checksums."""
        for values in zip(*(getattr(self, name) for name in self.__slots__), strict=True):
            yield Row._make([*values, checksum(values[5], values[10], values[11])])


def checksum(subject: str, headers: bytes | None, data: bytes) -> int:
    """Return the CRC-32 over subject, headers and data, in this order."""
    return crc32(data, crc32(headers or b"", crc32(subject.encode())))


def stored_size(subject: str, headers: bytes | None, data: bytes) -> int:
    """Return a message's bytes in ``max_bytes`` and ``state.bytes``: nats-server's file store formula."""
    size = MESSAGE_OVERHEAD + len(subject if subject.isascii() else subject.encode()) + len(data)
    return size + HEADERS_OVERHEAD + len(headers) if headers else size
