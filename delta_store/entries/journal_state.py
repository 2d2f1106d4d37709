"""The state of the journal's log at a version: its files, its owner, the removed files. Pure.

Invariants: versions are applied one by one without a gap, and stamps only grow: an entry that breaks either is damage.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from delta_store.entries.journal_file import Span
from delta_store.entries.log_entry import (
    CLAIM,
    NEVER_RELIED,
    TOMBSTONES_KEPT_MS,
    JournalEntry,
    JournalFile,
    Removed,
    Stamp,
)
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Position

_NEVER_CHANGES: Final = ("id", "schemaString", "partitionColumns")


class StreamFiles:
    """The files with rows of one stream, in order; the file of a sequence is found by bisection."""

    __slots__ = ("files", "firsts", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.files: list[JournalFile] = []

    def append(self, span: Span, file: JournalFile) -> None:
        """Add the stream's newest file."""
        self.firsts.append(span.first_seq)
        self.lasts.append(span.last_seq)
        self.files.append(file)

    def remove(self, file: JournalFile) -> None:
        """Remove a file; settled files are the oldest, so this is short."""
        at = self.files.index(file)
        del self.firsts[at], self.lasts[at], self.files[at]

    def holding(self, seq: int) -> JournalFile | None:
        """Return the file whose span of the stream includes the message ``seq``."""
        at = bisect_left(self.lasts, seq)
        return self.files[at] if at < len(self.files) and self.firsts[at] <= seq else None


class JournalState:
    """The state after a fold over log entries. Not thread-safe: its owner guards it."""

    def __init__(self) -> None:
        self.version = -1
        self.stamp = Stamp(0, 0)
        self.timestamp_ms = 0
        """Of the last commit."""
        self.metadata: Mapping[str, Any] = {}
        self.live: dict[str, JournalFile] = {}
        """Files of the table by name, oldest first."""
        self.removed: OrderedDict[str, Removed] = OrderedDict()
        """Files that left the table and are not deleted yet, by name."""
        self.relies_on: int | None = NEVER_RELIED
        """The version of ``messages`` that holds all removed rows; None when a commit did not name it."""
        self.streams: dict[int, StreamFiles] = {}
        """By stream id."""
        self.claims: set[int] = set()
        """Versions of the claims among the entries that were read."""

    def apply(self, entry: JournalEntry, *, file: str) -> None:
        """Advance by one commit; raises :class:`DamagedData`, unchanged, when it does not follow from this state."""
        if fault := self._fault_of(entry):
            raise DamagedData(file, fault)
        note = entry.note
        if note.metadata is not None:
            self.metadata = note.metadata
        for added in entry.added:
            self.add(added)
        for removed in entry.removed:
            self._remove(removed)
        if entry.removed:
            self.relies_on = note.relies_on
            self._forget_removed(entry.timestamp_ms - TOMBSTONES_KEPT_MS)
        if note.operation == CLAIM:
            self.claims.add(entry.version)
        self.version, self.stamp, self.timestamp_ms = entry.version, note.stamp, entry.timestamp_ms

    def add(self, file: JournalFile) -> None:
        """Add a file; files come in the order of their versions."""
        self.live[file.name] = file
        for span in file.spans:
            self.streams.setdefault(span.stream_id, StreamFiles()).append(span, file)

    def _fault_of(self, entry: JournalEntry) -> str | None:
        metadata, stamp = entry.note.metadata, entry.note.stamp
        if entry.version != self.version + 1:
            return f"version {entry.version} does not follow version {self.version}"
        if self.version >= 0 and stamp <= self.stamp:
            return f"commit {tuple(stamp)} after commit {tuple(self.stamp)}"
        if metadata is None and not entry.version:
            return "version 0 has no metaData"
        known = metadata if metadata is None or not entry.version else self.metadata
        if metadata is not None and known and any(metadata.get(one) != known.get(one) for one in _NEVER_CHANGES):
            return "its metaData is that of another table"
        unknown = (each.name for each in entry.removed if each.name not in self.live)
        return next((f"removes {name}, which is not in the table" for name in unknown), None)

    def _remove(self, removed: Removed) -> None:
        file = self.live.pop(removed.name)
        self.removed[removed.name] = removed
        for span in file.spans:
            held = self.streams[span.stream_id]
            held.remove(file)
            if not held.files:
                del self.streams[span.stream_id]

    def _forget_removed(self, before_ms: int) -> None:
        """Drop files that left the table so long ago that no checkpoint needs them."""
        while self.removed and next(iter(self.removed.values())).at_ms < before_ms:
            self.removed.popitem(last=False)


def settled_files(files: Iterable[JournalFile], settled: Mapping[str, Position]) -> list[JournalFile]:
    """Return the files whose every row is settled: at or below its stream's position.

    An older incarnation of a stream counts as settled once a newer one is: its rows come first in the journal.
    """
    return [file for file in files if all(_is_settled(span, settled) for span in file.spans)]


def _is_settled(span: Span, settled: Mapping[str, Position]) -> bool:
    position = settled.get(span.stream)
    return position is not None and Position(span.stream_id, span.last_seq, span.last_event) <= position
