"""The columns of journal files except payloads, in memory: every read of the past needs those of all unsettled rows.

A commit of one message is a file of its own, and an Arrow table takes as much memory as the metadata of a hundred
messages: tables of small files are concatenated. Files never change, so entries are only ever evicted.
"""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries.log_entry import file_version
from delta_store.entries.settled_log import DataFile
from delta_store.reading.settled_files import MessageFiles
from delta_store.values.lru import Lru
from delta_store.values.records import CONSUMER_KINDS, Kind

_METADATA: Final = ("stream", "stream_id", "seq", "event_no", "kind", "subject", "ts_ns", "first_seq", "evicts")
_EVENT: Final = ("stream", "stream_id", "seq", "event_no", "kind", "first_seq", "data", "ts_ns")
_NO_EVENT: Final = (Kind.MESSAGE.value, *sorted(kind.value for kind in CONSUMER_KINDS))
"""Rows that affect liveness only by their ``first_seq``; consumers' states are large."""
_FILE: Final = "file"
_ROWS_MAX: Final = 1_000_000
_TABLE_ROWS: Final = 128
"""Overhead of a table, in rows, about."""
_SMALL_ROWS: Final = 1_024
_SMALL_TABLES_MAX: Final = 64
"""Number of tables with fewer than :data:`_SMALL_ROWS` rows that are concatenated into one."""


class MetadataTables(NamedTuple):
    """The rows of some files without their data, and their event rows with it, as Arrow tables."""

    rows: Any
    events: Any | None


class _Kept(NamedTuple):
    paths: frozenset[str]
    found: MetadataTables
    """With the version of the file that each row is from."""

    @property
    def weight(self) -> int:
        return len(self.found.rows) + _TABLE_ROWS

    @property
    def joins(self) -> bool:
        """Whether it is small enough to be concatenated."""
        return len(self.found.rows) < _SMALL_ROWS

    def of(self, wanted: frozenset[str]) -> MetadataTables:
        """Return the rows of those files alone."""
        if self.paths <= wanted:
            return self.found
        numbers = pa.array([_number(path) for path in self.paths & wanted], pa.int64())
        return MetadataTables(
            *(None if one is None else one.filter(pc.is_in(one[_FILE], numbers)) for one in self.found)
        )


class JournalMetadata:
    """The metadata of journal files, least recently used evicted first. Thread-safe."""

    def __init__(self, files: MessageFiles, path_of: Callable[[DataFile], str]) -> None:
        self._files = files
        self._path_of = path_of
        self._lock = Lock()
        self._kept: Lru[str, _Kept] = Lru(_ROWS_MAX, lambda one: one.weight, least=1)
        """By the path of one of the table's files."""
        self._where: dict[str, str] = {}

    def of(self, files: Sequence[DataFile]) -> list[MetadataTables]:
        """Return the metadata of the files, in no particular order. Raises ``DamagedData`` or ``FileGone``."""
        wanted = frozenset(file.path for file in files)
        with self._lock:
            names = {self._where[path] for path in wanted if path in self._where}
            found = [kept for name in names if (kept := self._kept.get(name)) is not None]
        known: frozenset[str] = frozenset().union(*(one.paths for one in found))
        missing = [file for file in files if file.path not in known]
        for start in range(0, len(missing), _SMALL_TABLES_MAX):
            read = _together([self._read(file) for file in missing[start : start + _SMALL_TABLES_MAX]])
            found += read
            with self._lock:
                for one in read:
                    self._keep(one)
                self._tidy()
        return [one.of(wanted) for one in found]

    def _read(self, file: DataFile) -> _Kept:
        path = self._path_of(file)
        rows = self._files.columns(path, _METADATA)
        is_event = pc.invert(pc.is_in(rows["kind"], pa.array(_NO_EVENT)))
        events = self._files.columns(path, _EVENT).filter(is_event) if pc.any(is_event).as_py() else None
        number = _number(file.path)
        return _Kept(frozenset((file.path,)), MetadataTables(_numbered(rows, number), _numbered(events, number)))

    def _keep(self, one: _Kept) -> None:
        if one.paths.isdisjoint(self._where):
            name = min(one.paths)
            self._where.update(dict.fromkeys(one.paths, name))
            for gone in self._kept.put(name, one):
                self._forget(gone)

    def _forget(self, one: _Kept) -> None:
        for path in one.paths:
            del self._where[path]

    def _tidy(self) -> None:
        small = [(name, one) for name, one in self._kept.items() if one.joins]
        if len(small) >= _SMALL_TABLES_MAX:
            for name, one in small:
                self._kept.pop(name)
                self._forget(one)
            for joined in _together([one for _, one in small]):
                self._keep(joined)


def _together(parts: Sequence[_Kept]) -> list[_Kept]:
    """Concatenate the small ones."""
    small = [part for part in parts if part.joins]
    if len(small) < 2:
        return list(parts)
    events = [part.found.events for part in small if part.found.events is not None]
    found = MetadataTables(_as_one([part.found.rows for part in small]), _as_one(events) if events else None)
    joined = _Kept(frozenset().union(*(part.paths for part in small)), found)
    return [joined, *(part for part in parts if part.paths.isdisjoint(joined.paths))]


def _number(path: str) -> int:
    """Return the version that a file was written for."""
    version = file_version(path)
    assert version is not None
    return version


def _numbered(table: Any, number: int) -> Any:
    return None if table is None else table.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int64()), len(table)))


def _as_one(tables: list[Any]) -> Any:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
