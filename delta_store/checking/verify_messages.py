"""Verification of ``messages``: every log entry against its note and the entry before, every file to the row.

Reads only, and may run beside a settle job: files that it compacts away and vacuums meanwhile are no finding.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from conf.data_location import DataLocation
from conf.limits import MIB
from delta_store.entries.checkpoint_table import is_files_name
from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.entries.journal_file import checksums
from delta_store.entries.log_entry import entry_name, version_of
from delta_store.entries.settled_claims import fault_of_append
from delta_store.entries.settled_log import NO_TABLE, DataFile, MessagesEntry, Snapshot, added_rows, parse_entry
from delta_store.log.delta_log import NO_END, path_of
from delta_store.log.torn_log import can_be_read, relied_version, whole_up_to
from delta_store.reading.settled import SettledTable
from delta_store.storage.arrow_filesystem import FileOpener, filesystem_of
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.values.copied_stream import is_copy
from delta_store.values.journal_errors import NotStored, StorageError
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Kind, RowColumns
from delta_store.values.schemas import LOG_FOLDER, MESSAGES_FOLDER
from delta_store.values.watermark import Op

_TABLE = MESSAGES_FOLDER
_CHECKED = ("seq", "subject", "headers", "data", "crc")


class MessagesPlace(NamedTuple):
    """The table, by what is verified of it."""

    data: DataLocation
    storage: Storage
    files: FileOpener
    root: str
    """The table's root for ``files``."""

    @classmethod
    def of(cls, data: DataLocation) -> Self:
        """Return the table in a data location."""
        place = data.table(MESSAGES_FOLDER)
        return cls(data, open_storage(place, data.options), *filesystem_of(place, data.options))

    def read_only(self) -> SettledTable:
        """Return the table as readers see it."""
        return SettledTable(self.data.table(MESSAGES_FOLDER), storage_options=self.data.options)


class MessagesLook(NamedTuple):
    """The outcome of verifying the log of ``messages``."""

    snapshot: Snapshot | None
    """The newest version; None when the log can't be relied on."""
    findings: list[Finding]
    entries: int
    named: frozenset[str]
    """Every file that an entry names."""
    end: int
    """The version up to which the table is whole; what is torn behind it can be settled again."""
    torn: frozenset[str]
    """The files that versions behind ``end`` added."""


def look_at_log(place: MessagesPlace) -> MessagesLook:
    """Verify every entry and checkpoint of the log, and the newest version as readers see it."""
    settled = place.read_only()
    entries: dict[int, MessagesEntry] = {}
    found = list(_entries(place, entries))
    replayed = _steps(place, settled, entries, found)
    torn = list(_checkpoints(place.storage, sound=not found and replayed is not None))
    try:
        snapshot: Snapshot | None = settled.refresh()
    except DamagedData as error:
        snapshot = replayed if torn and not found else None
        if snapshot is None:
            found.append(_damage(place, error))
    named = frozenset(file.path for entry in entries.values() for file in entry.added)
    named |= {gone.name for entry in entries.values() for gone in entry.removed}
    end = _whole_end(place.data)
    once = {one.file: _mended(one, end) for one in [*found, *torn][::-1]}
    behind = frozenset(file.path for version, entry in entries.items() if version > end for file in entry.added)
    return MessagesLook(snapshot, list(once.values())[::-1], len(entries), named, end, behind)


def look_at_file(place: MessagesPlace, file: DataFile, look: MessagesLook, mirrors: set[str]) -> Finding | None:
    """Verify one file: count its rows, verify its pages and every row's checksum.

    Adds the names of mirrors in its STREAM rows to ``mirrors``.
    """
    what = None
    rows = 0
    try:
        source = place.files.open_input_file(f"{place.root}/{file.path}")
        whole = file.checksum is None or _checksum(source) == file.checksum
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            for batch in parquet.iter_batches():
                rows += len(batch)
                what = what or _wrong_row(batch)
                if file.events_only and what is None and _tells_of_mirror(batch):
                    mirrors.add(file.stream or "")
    except FileNotFoundError:
        what = "missing"
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        what = f"not a readable Parquet file: {error}"
    else:
        if what is None and rows != file.rows:
            what = f"it has {rows} rows, its log entry says {file.rows}"
        if what is None and not whole:
            what = "its content does not match the checksum in its log entry"
    if what is None or not _is_live(place, file):
        return None
    return finding(Severity.REPAIRABLE if file.path in look.torn else Severity.DAMAGE, _TABLE, file.path, what)


def left_over(place: MessagesPlace, look: MessagesLook) -> Iterator[Finding]:
    """Find data files that neither the newest version nor an entry of the log names."""
    if look.snapshot is None:
        return
    for name in sorted(stored.name for stored in place.storage.walk() if stored.name.endswith(".parquet")):
        if name not in look.named and name not in look.snapshot.files:
            yield finding(Severity.LEFT_OVER, _TABLE, name, "no entry of the log names it")


def seen(look: MessagesLook) -> Seen:
    """Return how much was verified."""
    snapshot = look.snapshot or NO_TABLE
    return Seen(_TABLE, snapshot.version, look.entries, len(snapshot.files), snapshot.rows)


def _entries(place: MessagesPlace, entries: dict[int, MessagesEntry]) -> Iterator[Finding]:
    """Read every entry into ``entries``; find those that can't be read, or are missing between others."""
    listed = place.storage.sizes(LOG_FOLDER)
    versions = sorted(version for name in listed if (version := version_of(name)) is not None)
    for version in versions:
        name = path_of(entry_name(version))
        try:
            entries[version] = parse_entry(version, place.storage.read(name), file=name)
            _check_append(entries[version], name)
        except NotStored:  # cleaned up meanwhile
            continue
        except DamagedData as error:
            yield _damage(place, error)
        except StorageError as error:
            yield finding(Severity.DAMAGE, _TABLE, name, error.reason)
    for earlier, later in pairwise(versions):
        for version in range(earlier + 1, later):
            name = f"{LOG_FOLDER}/{entry_name(version)}"
            yield finding(Severity.DAMAGE, _TABLE, name, "missing, and a later one is there")


def _checkpoints(storage: Storage, *, sound: bool) -> Iterator[Finding]:
    severity = Severity.REPAIRABLE if sound else Severity.DAMAGE
    for name in sorted(storage.sizes(LOG_FOLDER)):
        listing = (".checkpoint" in name and name.endswith(".parquet")) or is_files_name(name)
        if listing and (what := unreadable(storage, path_of(name))):
            yield finding(severity, _TABLE, path_of(name), what)


def _steps(
    place: MessagesPlace, settled: SettledTable, entries: dict[int, MessagesEntry], found: list[Finding]
) -> Snapshot | None:
    """Check each entry against the version before it, as far as they are consecutive; return the last version."""
    snapshot: Snapshot | None = NO_TABLE
    for version in sorted(entries):
        if snapshot is None or snapshot.version + 1 != version:
            snapshot = _at(settled, version)
            continue
        entry = entries[version]
        try:
            snapshot = snapshot.confirmed_after(entry, file=path_of(entry_name(version)))
        except DamagedData as error:
            found.append(_damage(place, error))
            snapshot = snapshot.after(entry)
    return snapshot


def _at(settled: SettledTable, version: int) -> Snapshot | None:
    try:
        return settled.log.at(version)
    except (FileGone, DamagedData):
        return None


def _whole_end(data: DataLocation) -> int:
    """Return the version up to which the table is whole, if the journal makes up for what is behind it.

    In an object store nothing is torn: what it has taken it keeps.
    """
    relied = relied_version(data.folder) if data.is_local else None
    try:
        return NO_END if relied is None else whole_up_to(data.folder / MESSAGES_FOLDER, relied, can_be_read)
    except DamagedData:
        return NO_END


def _mended(one: Finding, end: int) -> Finding:
    """Turn a finding in an entry behind the end into a repairable one."""
    version = version_of(one.file.rpartition("/")[2])
    if version is None or version <= end:
        return one
    return finding(Severity.REPAIRABLE, _TABLE, one.file, one.what)


def _check_append(entry: MessagesEntry, file: str) -> None:
    if entry.note is not None and entry.note.op is Op.APPEND:
        fault = fault_of_append(entry.note, added_rows(entry.added), ())
        if fault is not None:
            raise DamagedData(file, fault)


def _damage(place: MessagesPlace, error: DamagedData) -> Finding:
    return finding(Severity.DAMAGE, _TABLE, error.file.removeprefix(f"{place.data}/"), error.reason)


def unreadable(storage: Storage, name: str) -> str | None:
    """Return why a Parquet file can't be read; None when it can, or is gone."""
    try:
        with pq.ParquetFile(pa.BufferReader(storage.read(name)), page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except NotStored:
        return None
    except (StorageError, OSError, pa.ArrowException) as error:
        return f"not a readable Parquet file: {error}"
    return None


def _checksum(source: pa.NativeFile) -> int:
    found = 0
    while part := source.read(MIB):
        found = crc32(part, found)
    source.seek(0)
    return found


def _wrong_row(batch: pa.RecordBatch) -> str | None:
    """Return the first row whose checksum does not match, as text."""
    columns = {name: batch.column(name).cast(_plain(batch, name)).to_pylist() for name in _CHECKED}
    sums = checksums(RowColumns(**{name: columns[name] for name in _CHECKED[:-1]}))
    for seq, found, written in zip(columns["seq"], sums, columns["crc"], strict=True):
        if found != written:
            return f"the checksum of sequence {seq} does not match"
    return None


def _tells_of_mirror(batch: pa.RecordBatch) -> bool:
    kinds, told = (batch.column(name).cast(_plain(batch, name)).to_pylist() for name in ("kind", "data"))
    return any(is_copy(body) for kind, body in zip(kinds, told, strict=True) if kind == Kind.STREAM)


def _plain(batch: pa.RecordBatch, name: str) -> pa.DataType:
    kind = batch.schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_live(place: MessagesPlace, file: DataFile) -> bool:
    """Whether the newest version still has the file: a settle job may have merged it away."""
    try:
        return file.path in place.read_only().refresh().files
    except DamagedData:
        return True
