"""Follows the ``messages`` table read-only: opened once, then only new log entries are read.

The first look goes through delta-rs (it knows checkpoints); from then on each refresh reads the entries that came
since. Old versions are opened through delta-rs again and kept, a few of them. Nothing here writes.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final

import pyarrow as pa
from pyarrow import fs as pa_fs

from delta_store.entries.settled_claims import fault_of_table
from delta_store.entries.settled_log import NO_TABLE, DataFile, LogEntry, Snapshot, data_file, parse_entry
from delta_store.log.log_replay import replay
from delta_store.storage.arrow_filesystem import filesystem_of
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.watermark import CommitNote

_LOG: Final = "_delta_log"
_ENTRIES_KEPT: Final = 256
_SNAPSHOTS_KEPT: Final = 8
_OPEN_TRIES: Final = 4
_NO_END: Final = 1 << 62


class LogFollower:
    """One table's log. Thread-safe: readers hold snapshots, which never change."""

    def __init__(
        self,
        location: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        whole_up_to: Callable[[], int] | None = None,
    ) -> None:
        """``location`` is a folder or an object store's URL; the table need not exist yet.

        ``whole_up_to`` tells the newest version that is not torn, where a power cut can tear one: what is behind it is
        not there, until it has been written again.
        """
        self.location = location
        self._whole_up_to = whole_up_to
        self._torn = False
        """Whether there was a torn version when the log was last looked at."""
        self._options = dict(storage_options or {})
        self.filesystem, self.root = filesystem_of(location, self._options)
        self._lock = Lock()
        self._snapshot = NO_TABLE
        self._entries: OrderedDict[int, LogEntry] = OrderedDict()
        self._past: OrderedDict[int, Snapshot] = OrderedDict()

    @property
    def snapshot(self) -> Snapshot:
        """The newest version seen by :meth:`refresh`."""
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Read what was committed since; opens the table the first time.

        Raises :class:`DamagedData` for a log that can't be trusted: nothing past the damage is served.
        """
        with self._lock:
            snapshot = self._snapshot
            # An entry that was there, and is not, went with log cleanup, and so maybe those behind it.
            if snapshot.version < 0 or self._read(snapshot.version) is None:
                self._snapshot = self._reopened()
                return self._snapshot
            end = self._whole_end() if self._torn else _NO_END
            while snapshot.version < end and (text := self._read(snapshot.version + 1)) is not None:
                file = self._entry_path(snapshot.version + 1)
                entry = parse_entry(snapshot.version + 1, text, file=file)
                self._remember(entry)
                snapshot = snapshot.confirmed_after(entry, file=file)
            behind = snapshot.version + 1
            if not self._torn and self._read(behind + 1) is not None and self._read(behind) is None:
                if self._read(snapshot.version) is not None:
                    raise DamagedData(self._entry_path(behind), "missing, and a later one is there")
                snapshot = self._reopened()
            self._snapshot = snapshot
            return snapshot

    def entry(self, version: int) -> LogEntry:
        """One version's entry. Raises :class:`FileGone` when log cleanup has taken it."""
        with self._lock:
            kept = self._entries.get(version)
        if kept is not None:
            return kept
        text = self._read(version)
        if text is None:
            raise FileGone(self._entry_path(version))
        entry = parse_entry(version, text, file=self._entry_path(version))
        with self._lock:
            self._remember(entry)
        return entry

    def at(self, version: int) -> Snapshot:
        """The files of an older version. Raises :class:`FileGone` when it can no longer be put together."""
        with self._lock:
            if version == self._snapshot.version:
                return self._snapshot
            kept = self._past.get(version)
        if kept is not None:
            return kept
        snapshot = self._load(version)
        with self._lock:
            self._past[version] = snapshot
            while len(self._past) > _SNAPSHOTS_KEPT:
                self._past.popitem(last=False)
        return snapshot

    def oldest_entry(self) -> int:
        """The oldest version whose entry is still there."""
        return min(_listed(self.filesystem, self.root), default=0)

    def path_of(self, file: DataFile) -> str:
        """Where the file system finds a data file."""
        return f"{self.root}/{file.path}"

    def _reopened(self) -> Snapshot:
        """The newest version; raises :class:`DamagedData` when that is older than what was there before."""
        seen, snapshot = self._snapshot.version, self._open()
        if snapshot.version < seen:
            why = f"ends at version {snapshot.version}, and was at {seen} before"
            raise DamagedData(f"{self.location}/{_LOG}", why)
        return snapshot

    def _open(self) -> Snapshot:
        """The newest version; tried again when log cleanup was faster than the reader."""
        for _ in range(_OPEN_TRIES - 1):
            before = _listed(self.filesystem, self.root).keys()
            try:
                return self._open_once()
            except DamagedData:
                if _listed(self.filesystem, self.root).keys() == before:
                    raise
        return self._open_once()

    def _open_once(self) -> Snapshot:
        end = self._whole_end()
        sizes = _listed(self.filesystem, self.root)
        if not sizes or end < 0:
            return NO_TABLE
        for version, size in sizes.items():
            if size == 0 and version <= end:
                raise DamagedData(self._entry_path(version), "it is empty")
        try:
            return self._load(end if self._torn else None)
        except (DamagedData, FileGone):
            if self._whole_up_to is None:
                raise
            return self._confirmed(end, replay(Path(self.root), end))

    def _whole_end(self) -> int:
        """The newest version that readers may use; notes whether a torn one follows."""
        last = max(_listed(self.filesystem, self.root), default=-1)
        end = last if self._whole_up_to is None else self._whole_up_to()
        self._torn = end < last
        return end

    def _load(self, version: int | None) -> Snapshot:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.location, version=version, storage_options=self._options or None)
            files = [_from_actions(row) for row in pa.table(table.get_add_actions(flatten=True)).to_pylist()]
            found = table.version()
        except (DeltaError, OSError) as error:
            if version is not None:
                raise FileGone(f"{self.location} version {version}") from error
            raise DamagedData(f"{self.location}/{_LOG}", str(error)) from error
        return self._confirmed(found, {file.path: file for file in files})

    def _confirmed(self, version: int, files: Mapping[str, DataFile]) -> Snapshot:
        """The snapshot of a version with these files; raises :class:`DamagedData` unless its note bears it out."""
        note = self._newest_note(version)
        snapshot = Snapshot(version, files, note.watermarks if note is not None else {})
        if fault := fault_of_table(note, snapshot.rows):
            raise DamagedData(f"{self.location}/{_LOG}", fault)
        return snapshot

    def _newest_note(self, version: int) -> CommitNote | None:
        """That of the newest entry at or before ``version`` that has any."""
        for earlier in range(version, -1, -1):
            text = self._read(earlier)
            if text is None:
                break
            entry = parse_entry(earlier, text, file=self._entry_path(earlier))
            if entry.note is not None:
                return entry.note
        return None

    def _remember(self, entry: LogEntry) -> None:
        self._entries[entry.version] = entry
        while len(self._entries) > _ENTRIES_KEPT:
            self._entries.popitem(last=False)

    def _entry_path(self, version: int) -> str:
        return f"{self.root}/{_LOG}/{version:020d}.json"

    def _read(self, version: int) -> bytes | None:
        path = self._entry_path(version)
        try:
            with self.filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None


def _from_actions(row: Mapping[str, Any]) -> DataFile:
    low = {name.removeprefix("min."): value for name, value in row.items() if name.startswith("min.")}
    high = {name.removeprefix("max."): value for name, value in row.items() if name.startswith("max.")}
    partition = (row.get("partition.stream"), row.get("partition.subject_partition"))
    return data_file(row["path"], rows=row.get("num_records") or 0, partition=partition, low=low, high=high)


def _listed(filesystem: pa_fs.FileSystem, root: str) -> dict[int, int]:
    """Versions whose entries are there, and their sizes."""
    selector = pa_fs.FileSelector(f"{root}/{_LOG}", allow_not_found=True)
    return {
        int(info.base_name[:20]): info.size
        for info in filesystem.get_file_info(selector)
        if info.is_file and len(info.base_name) == 25 and info.base_name.endswith(".json")
        if info.base_name[:20].isdigit()
    }
