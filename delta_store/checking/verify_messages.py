"""Verification of ``messages``: every log entry against its note and the entry before, every file to the row.

Reads only, and may run beside a settle job: files that it compacts away and vacuums meanwhile are no finding.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.entries.journal_file import checksums
from delta_store.entries.log_entry import entry_name, version_of
from delta_store.entries.settled_claims import fault_of_append
from delta_store.entries.settled_log import NO_TABLE, DataFile, MessagesEntry, Snapshot, added_rows, parse_entry
from delta_store.log.torn_log import can_be_read, relied_version, whole_up_to
from delta_store.reading.settled import SettledTable
from delta_store.streams.event_rows import read_stream
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.records import Kind, RowColumns
from delta_store.values.schemas import LOG_FOLDER, MESSAGES_FOLDER
from delta_store.values.watermark import Op

_TABLE = MESSAGES_FOLDER
_NO_END = 1 << 62
_CHECKED = ("seq", "subject", "headers", "data", "crc")


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


def look_at_log(data: Path) -> MessagesLook:
    """Verify every entry and checkpoint of the log, and the newest version as readers see it."""
    settled = SettledTable(str(data / MESSAGES_FOLDER))
    entries: dict[int, MessagesEntry] = {}
    found = list(_entries(data, entries))
    replayed = _steps(data, settled, entries, found)
    torn = list(_checkpoints(data / MESSAGES_FOLDER / LOG_FOLDER, sound=not found and replayed is not None))
    try:
        snapshot: Snapshot | None = settled.refresh()
    except DamagedData as error:
        snapshot = replayed if torn and not found else None
        if snapshot is None:
            found.append(_damage(data, error))
    named = frozenset(file.path for entry in entries.values() for file in entry.added)
    named |= {gone.name for entry in entries.values() for gone in entry.removed}
    end = _whole_end(data)
    once = {one.file: _mended(one, end) for one in [*found, *torn][::-1]}
    behind = frozenset(file.path for version, entry in entries.items() if version > end for file in entry.added)
    return MessagesLook(snapshot, list(once.values())[::-1], len(entries), named, end, behind)


def look_at_file(data: Path, file: DataFile, look: MessagesLook, mirrors: set[str]) -> Finding | None:
    """Verify one file: count its rows, verify its pages and every row's checksum.

    Adds the names of mirrors in its STREAM rows to ``mirrors``.
    """
    path = data / MESSAGES_FOLDER / file.path
    what = None
    rows = 0
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
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
    if what is None or not _is_live(data, file):
        return None
    return finding(Severity.REPAIRABLE if file.path in look.torn else Severity.DAMAGE, _TABLE, file.path, what)


def left_over(data: Path, look: MessagesLook) -> Iterator[Finding]:
    """Find data files that neither the newest version nor an entry of the log names."""
    table = data / MESSAGES_FOLDER
    if look.snapshot is None:
        return
    for path in sorted(table.rglob("*.parquet")):
        name = str(path.relative_to(table))
        if not name.startswith(LOG_FOLDER) and name not in look.named and name not in look.snapshot.files:
            yield finding(Severity.LEFT_OVER, _TABLE, name, "no entry of the log names it")


def seen(look: MessagesLook) -> Seen:
    """Return how much was verified."""
    snapshot = look.snapshot or NO_TABLE
    return Seen(_TABLE, snapshot.version, look.entries, len(snapshot.files), snapshot.rows)


def _entries(data: Path, entries: dict[int, MessagesEntry]) -> Iterator[Finding]:
    """Read every entry into ``entries``; find those that can't be read, or are missing between others."""
    log = data / MESSAGES_FOLDER / LOG_FOLDER
    versions = sorted(version for path in log.glob("*.json") if (version := version_of(path.name)) is not None)
    for version in versions:
        path = log / entry_name(version)
        try:
            entries[version] = parse_entry(version, path.read_bytes(), file=str(path))
            _check_append(entries[version], str(path))
        except FileNotFoundError:  # cleaned up meanwhile
            continue
        except (DamagedData, OSError) as error:
            yield _damage(data, error if isinstance(error, DamagedData) else DamagedData(str(path), str(error)))
    for earlier, later in pairwise(versions):
        for version in range(earlier + 1, later):
            name = f"{LOG_FOLDER}/{entry_name(version)}"
            yield finding(Severity.DAMAGE, _TABLE, name, "missing, and a later one is there")


def _checkpoints(log: Path, *, sound: bool) -> Iterator[Finding]:
    severity = Severity.REPAIRABLE if sound else Severity.DAMAGE
    for path in sorted(log.glob("*.checkpoint*.parquet")):
        if what := _unreadable(path):
            yield finding(severity, _TABLE, f"{LOG_FOLDER}/{path.name}", what)


def _steps(
    data: Path, settled: SettledTable, entries: dict[int, MessagesEntry], found: list[Finding]
) -> Snapshot | None:
    """Check each entry against the version before it, as far as they are consecutive; return the last version."""
    snapshot: Snapshot | None = NO_TABLE
    for version in sorted(entries):
        if snapshot is None or snapshot.version + 1 != version:
            snapshot = _at(settled, version)
            continue
        entry, file = entries[version], str(data / MESSAGES_FOLDER / LOG_FOLDER / entry_name(version))
        try:
            snapshot = snapshot.confirmed_after(entry, file=file)
        except DamagedData as error:
            found.append(_damage(data, error))
            snapshot = snapshot.after(entry)
    return snapshot


def _at(settled: SettledTable, version: int) -> Snapshot | None:
    try:
        return settled.log.at(version)
    except (FileGone, DamagedData):
        return None


def _whole_end(data: Path) -> int:
    """Return the version up to which the table is whole, if the journal makes up for what is behind it."""
    relied = relied_version(data)
    try:
        return _NO_END if relied is None else whole_up_to(data / MESSAGES_FOLDER, relied, can_be_read)
    except DamagedData:
        return _NO_END


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


def _damage(data: Path, error: DamagedData) -> Finding:
    return finding(Severity.DAMAGE, _TABLE, error.file.removeprefix(f"{data}/"), error.reason)


def _unreadable(path: Path) -> str | None:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for _ in file.iter_batches():
                pass
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as error:
        return f"not a readable Parquet file: {error}"
    return None


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
    configs = (read_stream(body)[0] for kind, body in zip(kinds, told, strict=True) if kind == Kind.STREAM)
    return any(config.mirror is not None for config in configs)


def _plain(batch: pa.RecordBatch, name: str) -> pa.DataType:
    kind = batch.schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_live(data: Path, file: DataFile) -> bool:
    """Whether the newest version still has the file: a settle job may have merged it away."""
    try:
        return file.path in SettledTable(str(data / MESSAGES_FOLDER)).refresh().files
    except DamagedData:
        return True
