"""A Delta log as readers need it: watermarks by version, and the files that may hold a row.

Pure: text of log entries in, values out. ``messages`` and ``journal`` are read by the same rules; fields that only one
of them has (partition values, the note with the watermarks) are empty for the other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from delta_store.entries import entry_seal
from delta_store.entries.entry_seal import Actions
from delta_store.entries.log_entry import LogEntry, Removed
from delta_store.entries.settled_claims import AddedRows, fault_of_entry, fault_of_step
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION
from delta_store.values.watermark import CommitNote, Watermarks

Int64s = npt.NDArray[np.int64]
_UNBOUNDED = (-(1 << 62), 1 << 62)
CRC_TAG: Final = "silt.crc"
"""Tag of an ``add`` action: the CRC-32 of the file's bytes, in hexadecimal digits."""


class DataFile(NamedTuple):
    """One data file with its statistics; unknown bounds are wide open."""

    path: str
    """Relative to the table, decoded."""
    size: int
    """Bytes."""
    rows: int
    stream: str | None
    """Partition value; None in the journal, whose files hold rows of many streams."""
    subject_partition: str | None
    seq: tuple[int, int]
    ts_ns: tuple[int, int]
    subject: tuple[str, str] | None
    """Lowest and highest subject; the highest may be truncated and rounded up."""
    streams: tuple[str, str] | None
    """Lowest and highest stream name of a journal file."""
    stream_ids: tuple[int, int]
    checksum: int | None = None
    """CRC-32 of the bytes of a file that Silt committed."""
    may_evict: bool = True
    """Whether a message in it may have evicted another one."""

    def may_hold(self, stream: str) -> bool:
        """Whether rows of this stream can be in the file."""
        if self.stream is not None:
            return self.stream == stream
        return self.streams is None or self.streams[0] <= stream <= self.streams[1]

    @property
    def events_only(self) -> bool:
        """Whether this is a settled file of event rows."""
        return self.subject_partition == EVENTS_PARTITION

    @property
    def consumers_only(self) -> bool:
        """Whether this is a settled file of consumers' rows."""
        return self.subject_partition == CONSUMERS_PARTITION

    @property
    def has_messages(self) -> bool:
        """Whether messages may be in it."""
        return not self.events_only and not self.consumers_only


MessagesEntry = LogEntry[DataFile, CommitNote | None]
"""A version of ``messages``; its note is None where the commit has none (vacuum, for one)."""


@dataclass(frozen=True)
class Snapshot:
    """The files of one version, immutable: threads may share it, and keep it while the table moves on."""

    version: int
    """-1 when there is no table yet."""
    files: Mapping[str, DataFile]
    watermarks: Watermarks

    @cached_property
    def rows(self) -> int:
        """Rows in all files."""
        return sum(file.rows for file in self.files.values())

    def confirmed_after(self, entry: MessagesEntry, *, file: str) -> "Snapshot":
        """Apply an entry of ``messages`` as :meth:`after`; raise :class:`DamagedData` if it contradicts its note."""
        after = self.after(entry)
        streams = {one.stream for one in entry.added if one.stream is not None}
        if fault := fault_of_step(entry.note, streams, self.watermarks, (self.rows, after.rows)):
            raise DamagedData(file, fault)
        return after

    def after(self, *entries: MessagesEntry) -> "Snapshot":
        """Return the snapshot after these entries, which are the next ones in order."""
        version, files, marks = self.version, dict(self.files), self.watermarks
        for entry in entries:
            version += 1
            assert entry.version == version
            for gone in entry.removed:
                files.pop(gone.name, None)
            files.update((file.path, file) for file in entry.added)
            marks = entry.note.watermarks if entry.note is not None else marks
        return Snapshot(version, files, marks)

    def of_stream(self, stream: str) -> list[DataFile]:
        """Return the files that may hold rows of the stream."""
        return list(self._group(stream).files)

    def holding(self, stream: str, seqs: Int64s, subjects: Iterable[str] | None = None) -> list[DataFile]:
        """Return the message files that may hold any of these ascending sequences (of these subjects, if given)."""
        group = self._group(stream)
        if not len(seqs) or not group.files:
            return []
        first = np.searchsorted(seqs, group.low)
        found = (first < len(seqs)) & (seqs[np.minimum(first, len(seqs) - 1)] <= group.high)
        files = [group.files[place] for place in np.flatnonzero(found) if group.files[place].has_messages]
        if subjects is None:
            return files
        wanted = sorted(subjects)
        return [file for file in files if may_hold_subjects(file, wanted)]

    def _group(self, stream: str) -> "_Group":
        group = self._by_stream.get(stream)
        if group is not None:
            return group
        shared = self._by_stream[None]
        return _Group.of([file for file in shared.files if file.may_hold(stream)])

    @cached_property
    def _by_stream(self) -> Mapping[str | None, "_Group"]:
        """Files by stream, computed on first use."""
        gathered: dict[str | None, list[DataFile]] = {None: []}
        for file in self.files.values():
            gathered.setdefault(file.stream, []).append(file)
        return {name: _Group.of(files) for name, files in gathered.items()}


class _Group(NamedTuple):
    files: list[DataFile]
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, files: list[DataFile]) -> "_Group":
        return cls(
            files,
            np.array([file.seq[0] for file in files], dtype=np.int64),
            np.array([file.seq[1] for file in files], dtype=np.int64),
        )


NO_TABLE = Snapshot(-1, {}, {})


def may_hold_subjects(file: DataFile, wanted: Sequence[str]) -> bool:
    """Whether the file's statistics admit any of these ascending subjects."""
    if file.subject is None:
        return True
    low, high = file.subject
    return any(low <= subject <= high for subject in wanted)


def parse_entry(version: int, text: bytes, *, file: str) -> MessagesEntry:
    """Parse one log entry. Raises :class:`DamagedData` for an empty, truncated or NUL-filled one.

    An empty entry is a torn write, not an empty commit: engines that skip it lose its rows silently.
    """
    return read_entry(version, actions_in(text, file=file), file=file)


def actions_in(text: bytes, *, file: str) -> Actions:
    """Return the actions of an entry of any writer, a sealed one verified to the byte; raise :class:`DamagedData`."""
    if entry_seal.is_sealed(text):
        entry_seal.verify(text, file=file)
    try:
        actions = entry_seal.actions_of(text)
    except (ValueError, AttributeError) as error:
        raise DamagedData(file, str(error)) from error
    if not actions:
        raise DamagedData(file, "it is empty")
    return actions


def read_entry(version: int, actions: Actions, *, file: str) -> MessagesEntry:
    """Return the entry with these actions, its note checked against its files; raise :class:`DamagedData`."""
    try:
        added = tuple(map(file_added, actions.get("add", ())))
        removed = tuple(map(_file_removed, actions.get("remove", ())))
        infos: Sequence[dict[str, Any]] = actions.get("commitInfo", ({},))
        [info] = infos
        note = read_note(info)
        silt = info.get("silt", {})
        entry = LogEntry(
            version, info.get("timestamp", 0), note, added, removed, base=silt.get("base"), files=silt.get("files")
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedData(file, str(error)) from error
    if note is not None and (fault := fault_of_entry(note, added_rows(added))):
        raise DamagedData(file, fault)
    return entry


def added_rows(files: Iterable[DataFile]) -> dict[str, AddedRows]:
    """Sum up, by statistics, the rows of each stream in files of ``messages``."""
    found: dict[str, AddedRows] = {}
    for file in files:
        rows, last = found.get(file.stream or "", AddedRows(0, 0))
        highest = None if file.seq == _UNBOUNDED or last is None else max(last, file.seq[1])
        found[file.stream or ""] = AddedRows(rows + file.rows, highest)
    return found


def read_note(info: Mapping[str, Any]) -> CommitNote | None:
    """Return the note in a commit's ``userMetadata``; None when the commit has none or one that is not ours."""
    text = info.get("userMetadata")
    if not isinstance(text, str) or '"watermarks"' not in text:
        return None
    return CommitNote.from_json(text)


def path_of(url: str) -> str:
    """Return the path in an action, decoded."""
    return unquote(url)


def file_added(add: Mapping[str, Any]) -> DataFile:
    """Return the file of an ``add`` action, whose partition values are a mapping."""
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    values, digits = add.get("partitionValues") or {}, (add.get("tags") or {}).get(CRC_TAG)
    file = data_file(
        add["path"],
        size=add.get("size") or 0,
        rows=stats.get("numRecords", 0),
        partition=(values.get("stream"), values.get("subject_partition")),
        low=stats.get("minValues") or {},
        high=stats.get("maxValues") or {},
    )
    checksum = None if digits is None else int(digits, 16)
    return file._replace(checksum=checksum, may_evict=(stats.get("maxValues") or {}).get("evicts") != 0)


def data_file(
    path: str,
    *,
    size: int,
    rows: int,
    partition: tuple[str | None, str | None],
    low: Mapping[str, Any],
    high: Mapping[str, Any],
) -> DataFile:
    """Return a file from its log fields: percent-encoded path, partition values, minimum and maximum column values."""

    def ints(name: str) -> tuple[int, int]:
        if low.get(name) is None or high.get(name) is None:
            return _UNBOUNDED
        return int(low[name]), int(high[name])

    def texts(name: str) -> tuple[str, str] | None:
        if low.get(name) is None or high.get(name) is None:
            return None
        return low[name], high[name]

    path, subjects, streams = path_of(path), texts("subject"), texts("stream")
    return DataFile(path, size, rows, *partition, ints("seq"), ints("ts_ns"), subjects, streams, ints("stream_id"))


def _file_removed(remove: Mapping[str, Any]) -> Removed:
    return Removed(path_of(remove["path"]), remove.get("size") or 0, remove.get("deletionTimestamp") or 0)
