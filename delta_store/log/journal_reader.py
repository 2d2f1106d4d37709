"""The journal's state at the end of its log, and what is committed after it. Holds no lock on anything.

Many may read while one commits. A reader never goes past damage, and says so when cleanup has overtaken it.
"""

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

SHARD: Final = "0"
"""The only shard there is: the journal is one total order."""


def app_id_of(shard: str) -> str:
    """The ``appId`` of a shard's commits."""
    return f"silt/{shard}"


class JournalReader:
    """The journal as it was at the last :meth:`refresh`, and on from there. Thread-safe."""

    def __init__(self, storage: Storage, app_id: str, loaded: LoadedLog) -> None:
        self.storage = storage
        self.log = journal_log.log_of(storage, app_id)
        self.app_id = app_id
        self.loaded = loaded
        """As it was found; :meth:`reload` finds it anew."""
        self.state = loaded.state
        """Changed by :meth:`take` alone."""
        self._lock = Lock()

    @classmethod
    def read_only(cls, storage: Storage, *, shard: str) -> Self:
        """Open for reading; the journal need not exist yet. Raises :class:`DamagedData`, :class:`StorageError`."""
        return cls(storage, app_id_of(shard), journal_log.load(storage, app_id_of(shard)))

    @property
    def version(self) -> int:
        """The newest version known here; -1 when there is no journal."""
        return self.state.version

    @property
    def relies_on(self) -> int | None:
        """The version of ``messages`` that holds all that the journal has forgotten.

        -1 when it has forgotten nothing, None when it does not say.
        """
        return self.state.relies_on

    def refresh(self) -> int:
        """Take in what was committed since; returns the newest version. Raises as :meth:`follow`."""
        for _ in self.follow():
            pass
        return self.version

    def follow(self) -> Iterator[JournalEntry]:
        """:meth:`refresh`, giving each entry that it takes in.

        Raises :class:`DamagedData`, and :class:`ReadOvertaken` when cleanup has taken what comes next: then
        :meth:`reload`, and rebuild from ``messages`` and the live files.
        """
        for entry in self.log.since(self.version + 1):
            self.take(entry)
            yield entry

    def take(self, entry: JournalEntry) -> None:
        """Take in the entry that comes next; one that is known already is passed over."""
        with self._lock:
            if entry.version == self.state.version + 1:
                self.state.apply(entry, file=self.log.file_of(entry.version))

    def forget_removed(self, names: Iterable[str]) -> None:
        """Forget files that left the table and lie in its folder no more."""
        with self._lock:
            for name in names:
                self.state.removed.pop(name, None)

    def snapshot(self) -> JournalSnapshot:
        """A copy of the state, for a checkpoint."""
        with self._lock:
            return checkpoint_file.snapshot_of(self.state)

    def reload(self) -> int:
        """Start anew at the end of the log, after :class:`ReadOvertaken`; returns the version.

        Raises :class:`DamagedData`, also when the log ends before what was read of it, or is another table's.
        """
        loaded = journal_log.load(self.storage, self.app_id)
        with self._lock:
            journal_log.check_follows(self.log, self.state, loaded.state)
            self.loaded, self.state = loaded, loaded.state
        return self.version

    def files_at_end(self) -> tuple[int, list[JournalFile]]:
        """The newest version known here, and its :meth:`live_files`."""
        with self._lock:
            return self.state.version, list(self.state.live.values())

    def live_files(self) -> list[JournalFile]:
        """The files of the table, oldest first; their ``spans`` say which positions of which streams they hold."""
        return self.files_at_end()[1]

    def is_live(self, file: JournalFile) -> bool:
        """Whether the table has the file."""
        with self._lock:
            return file.name in self.state.live

    def holding(self, stream_id: int, seqs: Iterable[int]) -> list[tuple[JournalFile, list[int]]]:
        """The files that hold these sequences, each with its own, ascending."""
        with self._lock:
            held = self.state.streams.get(stream_id)
            places = [(held.holding(seq), seq) for seq in sorted(seqs)] if held is not None else []
        grouped = groupby(places, key=lambda place: place[0])
        return [(file, [seq for _, seq in group]) for file, group in grouped if file is not None]
