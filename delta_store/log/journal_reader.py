"""A reader of the journal's state: opened at the end of its log, then following it. Holds no lock on anything.

Many may read while one commits. A reader never goes past damage, and reports when cleanup has overtaken it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby
from threading import Lock
from typing import Final, Self

from delta_store.entries import checkpoint_file
from delta_store.entries.checkpoint_file import JournalSnapshot
from delta_store.entries.log_entry import JournalEntry, JournalFile
from delta_store.log import journal_log
from delta_store.log.journal_log import LoadedLog
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import ReadOvertaken

SHARD: Final = "0"
"""The only shard there is: the journal is one total order."""
COMMITS_KEPT: Final = 1_000
"""Commits that :meth:`JournalReader.since` covers; who is further behind reads the live files anew."""


def app_id_of(shard: str) -> str:
    """Return the ``appId`` of a shard's commits."""
    return f"silt/{shard}"


class JournalReader:
    """The journal's state as of the last :meth:`refresh`. Thread-safe."""

    def __init__(self, storage: Storage, app_id: str, loaded: LoadedLog) -> None:
        self.storage = storage
        self.log = journal_log.log_of(storage, app_id)
        self.app_id = app_id
        self.loaded = loaded
        """The log as it was opened; :meth:`reload` replaces it."""
        self.state = loaded.state
        """Changed by :meth:`take` alone."""
        self._commits: deque[tuple[int, tuple[JournalFile, ...]]] = deque(maxlen=COMMITS_KEPT)
        """Version and files of the last commits, without a gap."""
        self._lock = Lock()

    @classmethod
    def read_only(cls, storage: Storage, *, shard: str) -> Self:
        """Open for reading; the journal need not exist yet. Raises :class:`DamagedData`, :class:`StorageError`."""
        return cls(storage, app_id_of(shard), journal_log.load(storage, app_id_of(shard)))

    @property
    def version(self) -> int:
        """The newest version read; -1 when there is no journal."""
        return self.state.version

    @property
    def relies_on(self) -> int | None:
        """The version of ``messages`` that holds all truncated rows.

        -1 when nothing was truncated, None when it is not recorded.
        """
        return self.state.relies_on

    def refresh(self) -> int:
        """Read what was committed since; return the newest version. Raises as :meth:`follow`."""
        for _ in self.follow():
            pass
        return self.version

    def catch_up(self) -> None:
        """Do :meth:`refresh`, or :meth:`reload` where cleanup has overtaken it. Raises :class:`DamagedData`."""
        try:
            self.refresh()
        except ReadOvertaken:
            self.reload()

    def follow(self) -> Iterator[JournalEntry]:
        """Do :meth:`refresh`, and iterate over the new entries.

        Raises :class:`DamagedData`, and :class:`ReadOvertaken` when cleanup has deleted the next one: then
        :meth:`reload`, and rebuild from ``messages`` and the live files.
        """
        for entry in self.log.since(self.version + 1):
            self.take(entry)
            yield entry

    def take(self, entry: JournalEntry) -> None:
        """Apply the next entry; one that was applied before is skipped."""
        with self._lock:
            if entry.version == self.state.version + 1:
                self.state.apply(entry, file=self.log.file_of(entry.version))
                self._commits.append((entry.version, tuple(entry.added)))

    def forget_removed(self, names: Iterable[str]) -> None:
        """Drop files that left the table and were deleted from its folder."""
        with self._lock:
            for name in names:
                self.state.removed.pop(name, None)

    def snapshot(self) -> JournalSnapshot:
        """Copy the state, for a checkpoint."""
        with self._lock:
            return checkpoint_file.snapshot_of(self.state)

    def reload(self) -> int:
        """Start anew at the end of the log, after :class:`ReadOvertaken`; return the version.

        Raises :class:`DamagedData`, also when the log ends before what was read of it, or is another table's.
        """
        loaded = journal_log.load(self.storage, self.app_id)
        with self._lock:
            journal_log.check_follows(self.log, self.state, loaded.state)
            self.loaded, self.state = loaded, loaded.state
            self._commits.clear()
        return self.version

    def since(self, version: int, end: int) -> list[JournalFile] | None:
        """Return the files that commits behind ``version`` added, up to ``end``; None when that is not known."""
        with self._lock:
            commits = [files for number, files in self._commits if version < number <= end]
        if len(commits) != end - version:
            return None
        return [file for files in commits for file in files]

    def files_at_end(self) -> tuple[int, list[JournalFile]]:
        """Return the newest version read, and its :meth:`live_files`."""
        with self._lock:
            return self.state.version, list(self.state.live.values())

    def live_files(self) -> list[JournalFile]:
        """Return the files of the table, oldest first; ``spans`` are their positions by stream."""
        return self.files_at_end()[1]

    def is_live(self, file: JournalFile) -> bool:
        """Whether the table has the file."""
        with self._lock:
            return file.name in self.state.live

    def holding(self, stream_id: int, seqs: Iterable[int]) -> list[tuple[JournalFile, list[int]]]:
        """Return the files that hold these sequences, each with its own, ascending."""
        with self._lock:
            held = self.state.streams.get(stream_id)
            places = [(held.holding(seq), seq) for seq in sorted(seqs)] if held is not None else []
        grouped = groupby(places, key=lambda place: place[0])
        return [(file, [seq for _, seq in group]) for file, group in grouped if file is not None]

    def ends(self) -> dict[str, tuple[int, int]]:
        """Return id and last sequence of the newest incarnation of each stream that has rows here."""
        with self._lock:
            last = {
                (span.stream, stream_id): span.last_seq
                for stream_id, held in self.state.streams.items()
                for span in held.files[-1].spans
                if span.stream_id == stream_id
            }
        return {stream: (stream_id, seq) for (stream, stream_id), seq in sorted(last.items())}
