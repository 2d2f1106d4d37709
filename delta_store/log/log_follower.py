"""A read-only follower of the log of ``messages``: opened once, then only new log entries are read.

Older versions are replayed from the log on demand, and a few are cached; how long the log is makes no difference. A
checkpoint that a power cut tore is skipped: Spark fsyncs none, and log cleanup waits until one has been fsynced.
Nothing here writes.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Final

from delta_store.entries import checkpoint_table, messages_checkpoint
from delta_store.entries.checkpoint_table import LAST_FILES, DamagedCheckpoint, checkpoint_name, files_name
from delta_store.entries.log_entry import entry_name
from delta_store.entries.settled_claims import fault_of_table
from delta_store.entries.settled_log import NO_TABLE, DataFile, MessagesEntry, Snapshot
from delta_store.log.delta_log import (
    NO_END,
    DeltaLog,
    Listing,
    MessagesFormat,
    oldest_entry,
    path_of,
    storage_as_os_error,
)
from delta_store.log.messages_log import newest_note
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Stored
from delta_store.values.journal_errors import NotStored, ReadOvertaken
from delta_store.values.lru import Lru
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import CommitNote

_ENTRIES_KEPT: Final = 256
_SNAPSHOTS_KEPT: Final = 8


class LogFollower:
    """One table's log. Thread-safe: readers hold snapshots, which are immutable."""

    def __init__(
        self,
        location: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        whole_up_to: Callable[[], int] | None = None,
    ) -> None:
        """Follow the log in ``location``, a folder or an object store's URL; the table need not exist yet.

        ``whole_up_to`` returns the newest version that is not torn, where a power cut can tear one: versions behind it
        are ignored until they have been written again.
        """
        self.location = location
        self._whole_up_to = whole_up_to
        self._torn = False
        """Whether the log ended in a torn version when it was last read."""
        options = dict(storage_options or {})
        self.filesystem, self.root = filesystem_of(location, options)
        self._storage = open_storage(location, options)
        self._log = DeltaLog(self._storage, MessagesFormat())
        self._lock = Lock()
        self._snapshot = NO_TABLE
        self._entries: Lru[int, MessagesEntry] = Lru(_ENTRIES_KEPT)
        self._snapshots: Lru[int, Snapshot] = Lru(_SNAPSHOTS_KEPT)

    @property
    def snapshot(self) -> Snapshot:
        """The newest version read by :meth:`refresh`."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Read what was committed since; open the table the first time.

        Raises :class:`DamagedData` for a log that can't be trusted, nothing past the damage is served; and ``OSError``.
        """
        with self._lock, storage_as_os_error(self.location):
            seen, snapshot = self._snapshot, NO_TABLE
            with suppress(ReadOvertaken):
                snapshot = self._followed(seen)
            if snapshot.version < 0:
                snapshot = self._log.looked(self._open)
            if snapshot.version < seen.version:
                why = f"ends at version {snapshot.version}, and was at {seen.version} before"
                raise DamagedData(self._log.named(LOG_FOLDER), why)
            self._snapshot = snapshot
            return snapshot

    def entry(self, version: int) -> MessagesEntry:
        """Return one version's entry. Raises :class:`FileGone` when log cleanup has deleted it."""
        with self._lock:
            kept = self._entries.get(version)
        if kept is not None:
            return kept
        with storage_as_os_error(self.location):
            try:
                entry = self._log.entry(version)
            except NotStored:
                raise FileGone(self._log.file_of(version)) from None
        with self._lock:
            self._entries.put(version, entry)
        return entry

    def at(self, version: int) -> Snapshot:
        """Return the files of an older version. Raises :class:`FileGone` when it can no longer be replayed."""
        with self._lock:
            if version == self._snapshot.version:
                return self._snapshot
            kept = self._snapshots.get(version)
        if kept is not None:
            return kept
        with storage_as_os_error(self.location):
            try:
                snapshot = self._past(version) or self._replayed(self._log.listed(), version, [])
            except NotStored as error:
                raise FileGone(f"{self.location} version {version}") from error
        with self._lock:
            self._snapshots.put(version, snapshot)
        return snapshot

    def oldest_entry(self) -> int:
        """Return the oldest version whose entry still exists."""
        with storage_as_os_error(self.location):
            return oldest_entry(self._storage, self._snapshot.version)

    def stored(self) -> list[Stored]:
        """Return all files in the table's folder but those of its log. Raises ``OSError``."""
        with storage_as_os_error(self.location):
            return list(self._storage.walk())

    def path_of(self, file: DataFile) -> str:
        """Return a data file's path in the file system."""
        return f"{self.root}/{file.path}"

    def _followed(self, snapshot: Snapshot) -> Snapshot:
        """Advance a version by what was committed since."""
        if snapshot.version >= 0:
            end = self._end(self._log.listed()) if self._torn else NO_END
            for entry in self._log.since(snapshot.version + 1, end):
                self._entries.put(entry.version, entry)
                snapshot = snapshot.confirmed_after(entry, file=self._log.file_of(entry.version))
        return snapshot

    def _open(self) -> Snapshot:
        """Return the newest version that readers may use."""
        snapshot = self._from_pointer()
        if snapshot is not None:
            return snapshot
        listing = self._log.listed()
        end = self._end(listing)
        if end < 0:
            return NO_TABLE
        for version in listing.versions:
            if version <= end and not listing.sizes[entry_name(version)]:
                raise DamagedData(self._log.file_of(version), "it is empty")
        damaged: list[str] = []
        try:
            return self._replayed(listing, end, damaged)
        except NotStored as error:
            raise self._log.missing(error, damaged) from error

    def _from_pointer(self) -> Snapshot | None:
        """Return the newest version of a log whose end Silt has committed, without listing it; else None.

        Nothing of that end can be torn: each entry was durable before the next. What is damaged all the same is judged
        with the whole log in view.
        """
        start = self._listed_files() or self._log.at_pointer(self._log.pointed())
        if start is not None:
            with suppress(ReadOvertaken, DamagedData):
                entries = list(self._log.since(start.version + 1))
                if all(entry.base is not None for entry in entries):
                    return self._continued(start, entries)
        return None

    def _end(self, listing: Listing) -> int:
        """Return the newest version that readers may use; record whether a torn one follows."""
        last = listing.last
        end = last if self._whole_up_to is None else self._whole_up_to()
        self._torn = end < last
        return min(end, last)

    def _listed_files(self) -> Snapshot | None:
        """Return the newest version whose live files are listed apart; None without one."""
        with suppress(NotStored, DamagedCheckpoint):
            found = checkpoint_table.pointed(self._storage.read(path_of(LAST_FILES)))
            if found is not None:
                body = self._storage.read(path_of(files_name(found[0])))
                return messages_checkpoint.read_files(found[0], body, checksum=found[1])
        return None

    def _past(self, version: int) -> Snapshot | None:
        """Return a version by the list of files or the checkpoint that its entry names, without listing the log.

        None if both are gone.
        """
        entry = self._log.entry(version)
        for base, name_of in ((entry.files, files_name), (entry.base, checkpoint_name)):
            if base is not None:
                with suppress(NotStored, DamagedCheckpoint):
                    start = NO_TABLE
                    if base >= 0:
                        body = self._storage.read(path_of(name_of(base)))
                        start = messages_checkpoint.read_files(base, body, checksum=None)
                    return self._continued(start, self._log.entries(range(base + 1, version + 1)))
        return None

    def _replayed(self, listing: Listing, version: int, damaged: list[str]) -> Snapshot:
        """Return a version by the checkpoint before it and the entries since; add damaged checkpoints to ``damaged``.

        Raises :class:`NotStored` for a missing entry, :class:`DamagedData` when the newest note contradicts the files.
        """
        base, passed = self._log.newest_checkpoint(listing, version)
        damaged += passed
        start = base or NO_TABLE
        return self._continued(start, self._log.entries(range(start.version + 1, version + 1)))

    def _continued(self, start: Snapshot, since: Iterable[MessagesEntry]) -> Snapshot:
        """Return a version by an earlier one and the entries since. Raises as :meth:`_replayed`."""
        entries = list(since)
        notes = [entry.note for entry in entries if entry.note is not None]
        note = notes[-1] if notes else self._note_before(start.version)
        snapshot = replace(start.after(*entries), watermarks=note.watermarks if note is not None else {})
        if fault := fault_of_table(note, snapshot.rows):
            raise DamagedData(self._log.named(LOG_FOLDER), fault)
        return snapshot

    def _note_before(self, version: int) -> CommitNote | None:
        """Return the newest note of the entries up to ``version`` that are still there, or None."""
        with suppress(NotStored):
            return newest_note(version, lambda earlier: self._log.entry(earlier).note)
        return None
