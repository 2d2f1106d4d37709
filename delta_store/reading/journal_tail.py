"""The unsettled rows, for readers: by the journal's own log, verified as its owner does.

The journal's files hold rows of many streams in commit order and stay few, because settled ones are truncated. A file
that a pinned version names may be truncated under the reader: ``FileGone`` says so, and a fresh view helps. Invariant:
every version that is returned here has passed :mod:`delta_store.log.delta_log`; nothing past damage is.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conf.data_location import DataLocation
from delta_store.entries.log_entry import JournalFile
from delta_store.entries.settled_log import NO_TABLE, DataFile, Snapshot, data_file
from delta_store.log.delta_log import storage_as_os_error
from delta_store.log.followed_journal import FollowedJournal
from delta_store.log.journal_reader import JournalReader
from delta_store.reading.journal_metadata import JournalMetadata
from delta_store.reading.settled import CACHE_BYTES as SETTLED_CACHE_BYTES
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_files import MessageFiles
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.read_errors import DamagedData, FileGone, StoreAway
from delta_store.values.records import Position
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER
from delta_store.values.stream_message import StreamMessage

CACHE_BYTES: Final = 32 * 1024 * 1024


class JournalTail:
    """The journal's live rows, read-only and thread-safe."""

    def __init__(
        self,
        location: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        cache_bytes: int = CACHE_BYTES,
        owner: JournalReader | None = None,
    ) -> None:
        """Read the journal in ``location``, a folder or URL; the table need not exist yet.

        ``owner``, where given, knows all that was committed, and is read instead of the log.
        """
        self.location = location
        filesystem, self._root = filesystem_of(location, dict(storage_options or {}))
        self.files = MessageFiles(filesystem, cache_bytes=cache_bytes)
        self._metadata = JournalMetadata(self.files, self.path_of)
        self._lock = Lock()
        self._owner = owner
        self._log = FollowedJournal(location, storage_options)
        self._snapshot = NO_TABLE

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that :meth:`refresh` has read."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Read the new log entries. Raises ``DamagedData``, and ``OSError`` where files can't be read."""
        with self._lock:
            version, files = self._newest().files_at_end()
            if version != self._snapshot.version:
                known = self._snapshot.files
                shown = {file.name: known.get(file.name) or _as_data_file(file) for file in files}
                self._snapshot = Snapshot(version, shown, {})
            return self._snapshot

    def follow(self, owner: JournalReader) -> None:
        """Read the journal's owner, which knows all that was committed, instead of the log from now on."""
        with self._lock:
            self._owner = owner

    def ends(self) -> dict[str, tuple[int, int]]:
        """Return id and last sequence of each stream with rows here, as of the newest version. Raises as refresh."""
        with self._lock:
            return self._newest().ends()

    def relies_on(self) -> int | None:
        """Return the version of ``messages`` that the journal relies on now; None when not recorded or not readable.

        Reads only the new entries, so it may be called before every reading of ``messages``.
        """
        with self._lock, suppress(DamagedData, StoreAway, OSError):
            reader = self._newest()
            return reader.relies_on if reader.version >= 0 else None
        return None

    def since(self, version: int, pinned: Snapshot) -> list[tuple[int, DataFile]]:
        """Return the files that commits behind ``version`` added, up to ``pinned``, each with its commit's version.

        Raises ``FileGone`` when these are no longer known.
        """
        with self._lock:
            added = (self._owner or self._log.known()).since(version, pinned.version)
        if added is None:
            raise FileGone(f"{self.location} version {version + 1}")
        return [(file.version, pinned.files.get(file.name) or _as_data_file(file)) for file in added]

    def path_of(self, file: DataFile) -> str:
        """Return a data file's path in the file system."""
        return f"{self._root}/{file.path}"

    def _newest(self) -> JournalReader:
        """Return the owner, or the reader of the log, up to date. Lock held."""
        if self._owner is not None:
            return self._owner
        with storage_as_os_error(self.location):
            return self._log.newest()

    def rows_of(self, snapshot: Snapshot, stream: str, *, above: Position | None) -> Any:
        """Return the stream's rows behind ``above`` (or all) without payloads, as an Arrow table; None without files.

        Rows come in no particular order, and of all incarnations of the stream that the journal still has.
        """
        tables = []
        for table, _ in self._metadata.of(snapshot.of_stream(stream)):
            chosen = pc.equal(table["stream"], stream)
            if above is not None:
                chosen = pc.and_(chosen, behind(table, above))
            tables.append(table.filter(chosen))
        return pa.concat_tables(tables).unify_dictionaries() if tables else None

    def events_of(self, snapshot: Snapshot, stream: str) -> list[Any]:
        """Return the stream's event rows with their data, except consumers', as Arrow tables in no particular order."""
        tables = [found.events for found in self._metadata.of(snapshot.of_stream(stream))]
        return [table.filter(pc.equal(table["stream"], stream)) for table in tables if table is not None]

    def all_events(self, snapshot: Snapshot) -> list[Any]:
        """Return the event rows of all streams as :meth:`events_of`."""
        found = self._metadata.of(list(snapshot.files.values()))
        return [tables.events for tables in found if tables.events is not None]

    def fetch(self, snapshot: Snapshot, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StreamMessage]:
        """Return messages by sequence; those that the version does not hold are omitted."""
        wanted = np.unique(np.asarray(seqs, dtype=np.int64))
        found: dict[int, StreamMessage] = {}
        for file in snapshot.holding(stream, wanted):
            for run in self.files.fetch(self.path_of(file), stream, stream_id, wanted):
                found.update(zip(run.seqs, run, strict=True))
        return found

    def current(self, stream: str, stream_id: int, seqs: Sequence[int]) -> dict[int, StreamMessage]:
        """Return messages as :meth:`fetch` from the newest version; those just truncated are omitted: try again.

        Raises ``DamagedData``, also for a missing file that is live.
        """
        with self._lock:
            places = self._newest().holding(stream_id, seqs)
        found: dict[int, StreamMessage] = {}
        for file, part in places:
            path = f"{self._root}/{file.name}"
            try:
                for run in self.files.fetch(path, stream, stream_id, np.asarray(part, dtype=np.int64)):
                    found.update(zip(run.seqs, run, strict=True))
            except FileGone as error:
                with self._lock:
                    if self._newest().is_live(file):
                        raise DamagedData(path, "missing") from error
        return found


def _as_data_file(file: JournalFile) -> DataFile:
    stats = json.loads(file.stats)
    low, high = stats["minValues"], stats["maxValues"]
    return data_file(file.name, size=file.size, rows=file.rows, partition=(None, None), low=low, high=high)


def behind(table: Any, above: Position) -> Any:
    """Return which rows stand behind a position; compared column by column, most significant first."""
    names = ("stream_id", "seq", "event_no")
    further = pc.greater(table[names[2]], above.event_no)
    for name, value in zip(names[1::-1], above[1::-1], strict=True):
        equal = pc.equal(table[name], value)
        further = pc.or_(pc.greater(table[name], value), pc.and_(equal, further))
    return further


def open_tables(
    location: DataLocation, *, cache_bytes: int = SETTLED_CACHE_BYTES, journal_cache_bytes: int = CACHE_BYTES
) -> tuple[SettledTable, JournalTail]:
    """Open both tables of a store with caches of these sizes; nothing is read yet."""
    options, messages = location.options, location.table(MESSAGES_FOLDER)
    tail = JournalTail(location.table(JOURNAL_FOLDER), storage_options=options, cache_bytes=journal_cache_bytes)
    return SettledTable(messages, storage_options=options, cache_bytes=cache_bytes, relied_on=tail.relies_on), tail
