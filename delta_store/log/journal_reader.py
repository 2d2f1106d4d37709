"""Reads the journal: its end, what is committed after it, its files, single messages. Holds no lock on anything.

Many may read while one commits. A reader never serves past damage, and says so when cleanup has overtaken it.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from threading import Lock
from typing import Final, Self

from conf.limits import JOURNAL_FETCH_CACHE_BYTES
from delta_store.entries.log_entry import JournalFile, LogEntry
from delta_store.log import journal_log
from delta_store.log.journal_log import LoadedLog
from delta_store.log.journal_rows import FileCache, read_rows
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import JournalDamaged, NotStored, ReadOvertaken
from delta_store.values.records import Row, RowColumns
from delta_store.values.stored_message import StoredMessage

SHARD: Final = "0"
"""The only shard there is: the journal is one total order."""


def app_id_of(shard: str) -> str:
    """The ``appId`` of a shard's commits."""
    return f"silt/{shard}"


class JournalReader:
    """The journal as it was at the last :meth:`refresh`, and on from there. Thread-safe."""

    def __init__(self, storage: Storage, app_id: str, log: LoadedLog) -> None:
        self.storage = storage
        self._app_id = app_id
        self._log = log
        self._state = log.state
        self._lock = Lock()
        self._cache = FileCache(storage, JOURNAL_FETCH_CACHE_BYTES)

    @classmethod
    def read_only(cls, storage: Storage, *, shard: str) -> Self:
        """Open for reading; the journal need not exist yet. Raises :class:`JournalDamaged`, :class:`StorageError`."""
        return cls(storage, app_id_of(shard), journal_log.load(storage, app_id_of(shard)))

    @property
    def version(self) -> int:
        """The newest version known here; -1 when there is no journal."""
        return self._state.version

    @property
    def relies_on(self) -> int | None:
        """The version of ``messages`` that holds all that the journal has forgotten.

        -1 when it has forgotten nothing, None when it does not say.
        """
        return self._state.relies_on

    def refresh(self) -> int:
        """Take in what was committed since; returns the newest version. Raises as :meth:`tail`."""
        for _ in self.follow():
            pass
        return self.version

    def follow(self) -> Iterator[LogEntry]:
        """:meth:`refresh`, giving each entry that it takes in."""
        return self._entries(self.version + 1)

    def reload(self) -> int:
        """Start anew at the end of the log, after :class:`ReadOvertaken`; returns the version.

        Raises :class:`JournalDamaged`, also when the log ends before what was read of it, or is another table's.
        """
        log = journal_log.load(self.storage, self._app_id)
        with self._lock:
            journal_log.check_follows(self._state, log.state)
            self._log, self._state = log, log.state
        return self.version

    def files_at_end(self) -> tuple[int, list[JournalFile]]:
        """The newest version known here, and its :meth:`live_files`."""
        with self._lock:
            return self._state.version, list(self._state.live.values())

    def tail(self, from_version: int) -> Iterator[tuple[int, RowColumns]]:
        """The groups committed at ``from_version`` and later, with their versions, up to the end of the log.

        Commits without rows are passed over. Raises :class:`JournalDamaged`, and :class:`ReadOvertaken` when cleanup
        or truncation has taken what comes next: then :meth:`reload`, rebuild from ``messages`` and
        :meth:`live_rows`, and go on from :attr:`version` + 1.
        """
        for entry in self._entries(from_version):
            if entry.file is not None:
                yield entry.version, self._rows(entry.file)

    def live_files(self) -> list[JournalFile]:
        """The files of the table, oldest first; their ``spans`` say which positions of which streams they hold."""
        with self._lock:
            return list(self._state.live.values())

    def live_rows(self) -> Iterator[tuple[int, RowColumns]]:
        """All rows of the table, commit by commit with its version: what a rebuild replays. Raises as :meth:`tail`."""
        for file in self.live_files():
            yield file.version, self._rows(file)

    def fetch(self, stream_id: int, seqs: Iterable[int]) -> dict[int, Row]:
        """Messages of a stream by sequence; those not in the journal are left out. Raises as :meth:`tail`."""
        found: dict[int, Row] = {}
        for file, part in self._places(stream_id, seqs):
            found |= self._fetch(file, stream_id, part)
        return found

    def fetch_messages(self, stream_id: int, seqs: Iterable[int]) -> dict[int, StoredMessage]:
        """:meth:`fetch` as readers see messages, without what only the journal needs."""
        found: dict[int, StoredMessage] = {}
        for file, part in self._places(stream_id, seqs):
            try:
                found |= self._cache.messages(file, stream_id, part)
            except NotStored as error:
                raise self._missing(file) from error
        return found

    def _places(self, stream_id: int, seqs: Iterable[int]) -> list[tuple[JournalFile, list[int]]]:
        """The files that hold these sequences, each with its own."""
        with self._lock:
            held = self._state.streams.get(stream_id)
            places = [(held.holding(seq), seq) for seq in sorted(seqs)] if held is not None else []
        grouped = groupby(places, key=lambda place: place[0])
        return [(file, [seq for _, seq in group]) for file, group in grouped if file is not None]

    def _entries(self, from_version: int) -> Iterator[LogEntry]:
        for entry in journal_log.entries_from(self.storage, self._app_id, from_version):
            with self._lock:
                if entry.version == self._state.version + 1:
                    journal_log.apply(self._state, entry)
            yield entry

    def _fetch(self, file: JournalFile, stream_id: int, seqs: list[int]) -> dict[int, Row]:
        try:
            return self._cache.fetch(file, stream_id, seqs)
        except NotStored as error:
            raise self._missing(file) from error

    def _rows(self, file: JournalFile) -> RowColumns:
        try:
            return read_rows(self.storage, file)
        except NotStored as error:
            raise self._missing(file) from error

    def _missing(self, file: JournalFile) -> ReadOvertaken | JournalDamaged:
        """A file is gone: by right if the table no longer has it."""
        if file.name in journal_log.load(self.storage, self._app_id).state.live:
            return JournalDamaged(file.name, "missing")
        return ReadOvertaken(file.version)
