"""The ``messages`` table read without Spark: its snapshot, its history, its rows.

All methods that touch files block; callers run them off the event loop. Invariant: every read names its snapshot, so
that one answer never mixes two versions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.log.log_follower import LogFollower
from delta_store.log.torn_log import relied_version, whole_up_to
from delta_store.reading.settled_files import MessageFiles
from delta_store.values.read_errors import FileGone, PastHorizon
from delta_store.values.stream_message import MessageRun, StreamMessage, merged
from delta_store.values.watermark import Watermark, Watermarks

CACHE_BYTES: Final = 256 * 1024 * 1024
_GONE_RETRIES: Final = 3


class SettledTable:
    """The settled rows of all streams, read-only and thread-safe."""

    def __init__(
        self,
        location: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        cache_bytes: int = CACHE_BYTES,
        relied_on: Callable[[], int | None] | None = None,
    ) -> None:
        """Read the table in ``location``, a folder or URL; it need not exist yet.

        ``relied_on`` returns the version that the journal relies on; it is called at every refresh while there is no
        table or its end is torn. By default the whole log of the journal beside a local table is read each time.
        """
        whole = None if "://" in location else _whole_end(Path(location), relied_on)
        self.log = LogFollower(location, storage_options=storage_options, whole_up_to=whole)
        self.files = MessageFiles(self.log.filesystem, cache_bytes=cache_bytes)
        self._oldest: int | None = None
        """Oldest log entry when the log was last listed; cleanup may have deleted more since."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that :meth:`refresh` has read."""
        return self.log.snapshot

    @property
    def version(self) -> int:
        """Version of :attr:`snapshot`; -1 when there is no table yet."""
        return self.log.snapshot.version

    @property
    def watermarks(self) -> Watermarks:
        """The last settled row of each stream."""
        return self.log.snapshot.watermarks

    def refresh(self) -> Snapshot:
        """Read the new log entries. Raises ``DamagedData``."""
        return self.log.refresh()

    def fetch(
        self, stream: str, stream_id: int, seqs: Sequence[int], *, subjects: Iterable[str] | None = None
    ) -> dict[int, StreamMessage]:
        """Return messages by sequence from the newest snapshot; those that it does not hold are omitted.

        ``subjects``, if given, are those of the messages and allow files to be skipped.
        """
        for _ in range(_GONE_RETRIES):
            try:
                return self.fetch_from(self.snapshot, stream, stream_id, seqs, subjects=subjects)
            except FileGone:
                self.refresh()
        return self.fetch_from(self.snapshot, stream, stream_id, seqs, subjects=subjects)

    def fetch_from(
        self,
        snapshot: Snapshot,
        stream: str,
        stream_id: int,
        seqs: Sequence[int],
        *,
        subjects: Iterable[str] | None = None,
    ) -> dict[int, StreamMessage]:
        """Return messages as :meth:`fetch`, from this snapshot. Raises ``FileGone`` for a vacuumed file."""
        wanted = np.unique(np.asarray(seqs, dtype=np.int64))
        found: dict[int, StreamMessage] = {}
        for file in snapshot.holding(stream, wanted, subjects):
            for run in self.files.fetch(self.log.path_of(file), stream, stream_id, wanted):
                found.update(zip(run.seqs, run, strict=True))
        return found

    def fetch_run(self, stream: str, stream_id: int, seqs: Sequence[int]) -> MessageRun:
        """Return the messages of ascending sequences as columns: :meth:`fetch` for long runs."""
        wanted = np.asarray(seqs, dtype=np.int64)
        for attempt in range(_GONE_RETRIES + 1):
            try:
                files = self.snapshot.holding(stream, wanted)
                runs = [
                    run for file in files for run in self.files.fetch(self.log.path_of(file), stream, stream_id, wanted)
                ]
                return merged(runs)
            except FileGone:
                if attempt == _GONE_RETRIES:
                    raise
                self.refresh()
        raise AssertionError("unreachable")

    def columns(self, files: Iterable[DataFile], names: Sequence[str]) -> Any:
        """Read columns of whole files as one Arrow table, subjects dictionary-encoded; None without files."""
        tables = [self.files.columns(self.log.path_of(file), names) for file in files]
        return pa.concat_tables(tables).unify_dictionaries() if tables else None

    def append_version_for(self, stream: str, stream_id: int, seq: int) -> int:
        """Return the version that settled message ``seq``: the first whose watermark reaches it.

        The message must be settled in the newest snapshot. Raises ``PastHorizon`` when log cleanup has deleted that
        version's entry or the one before it, without which "first" is not known.
        """
        oldest = self.log.oldest_entry() if self._oldest is None else self._oldest
        low, high = oldest, self.version
        while low < high:
            middle = (low + high) // 2
            try:
                reaches = self._reaches(middle, stream, (stream_id, seq))
            except FileGone:
                oldest = low = max(middle + 1, self.log.oldest_entry())
                continue
            if reaches:
                high = middle
            else:
                low = middle + 1
        self._oldest = oldest
        if low == oldest and oldest > 0:
            raise PastHorizon(stream, seq)
        return low

    def _reaches(self, version: int, stream: str, point: tuple[int, int]) -> bool:
        mark = self.mark_at(version, stream)
        return mark is not None and (mark.stream_id, mark.seq) >= point

    def first_seq_in(self, version: Snapshot, stream: str, stream_id: int) -> int | None:
        """Return what all rows that a version settled recorded as ``first_seq``; None where it grew, or is not known.

        It only ever grows, so it did not where the watermarks before and after have the same.
        """
        after, before = version.watermarks.get(stream), None
        with suppress(FileGone):
            before = self.mark_at(version.version - 1, stream)
        low = before.first_seq if before is not None and before.stream_id == stream_id else 1
        return low if after is not None and after.stream_id == stream_id and after.first_seq == low else None

    def mark_at(self, version: int, stream: str) -> Watermark | None:
        """Return a stream's watermark in an older version; None before its first row was settled.

        Raises ``FileGone`` when log cleanup has deleted the entry with it.
        """
        for earlier in range(version, -1, -1):
            note = self.log.entry(earlier).note
            if note is not None:
                return note.watermarks.get(stream)
        return None


def _whole_end(table: Path, relied_on: Callable[[], int | None] | None) -> Callable[[], int]:
    """Return a function that returns the version up to which a local table is whole."""
    ask = relied_on or partial(relied_version, table.parent)
    return lambda: whole_up_to(table, ask())
