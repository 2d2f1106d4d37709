"""Verification of the journal: every log entry, checkpoint and file, against checksums and against each other.

Reads only, and may run beside a gateway: files that its cleanup deletes meanwhile are no finding.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from delta_store.entries import checkpoint_file, journal_file
from delta_store.entries.checkpoint_table import DamagedCheckpoint, checkpoint_version
from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.entries.journal_file import DamagedFile
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import CLAIM, JournalFile, entry_name, file_version
from delta_store.log import journal_log
from delta_store.log.delta_log import path_of
from delta_store.log.journal_log import JournalLog
from delta_store.log.journal_reader import app_id_of
from delta_store.storage.storage import Storage
from delta_store.values.copied_stream import is_copy
from delta_store.values.journal_errors import NotStored, StorageError
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Kind
from delta_store.values.schemas import JOURNAL_FOLDER

SHARD = "0"
_TABLE = JOURNAL_FOLDER


class JournalLook(NamedTuple):
    """The outcome of verifying the journal's log."""

    state: JournalState | None
    """None when the log can't be relied on."""
    findings: list[Finding]
    entries: int


def look_at_log(storage: Storage) -> JournalLook:
    """Verify every entry and checkpoint of the log; return the state at its end."""
    app_id = app_id_of(SHARD)
    entries = journal_log.log_of(storage, app_id)
    names, versions, _ = entries.listed()
    found: dict[str, Finding] = {}
    for version in versions:
        if one := _entry(entries, version):
            found[one.file] = one
    state = None
    try:
        state = journal_log.load(storage, app_id).state
    except DamagedData as error:
        one = _damage(storage, error)
        found.setdefault(one.file, one)
    oldest = _oldest(entries, versions)
    for version in sorted(set(range(oldest, versions[-1] if versions else 0)) - set(versions)):
        name = path_of(entry_name(version))
        one = finding(Severity.DAMAGE, _TABLE, name, "missing, and a later one is there")
        found.setdefault(one.file, one)
    for one in _checkpoints(storage, app_id, names, sound=state is not None):
        found.setdefault(one.file, one)
    return JournalLook(state, list(found.values()), len(versions))


def files_to_look_at(look: JournalLook) -> list[JournalFile]:
    """Return the files of the table."""
    return [] if look.state is None else list(look.state.live.values())


def look_at_file(storage: Storage, file: JournalFile, mirrors: set[str]) -> Finding | None:
    """Verify one file, to the byte and to the row; a file that was truncated away meanwhile is no finding.

    Adds the names of mirrors in its STREAM rows to ``mirrors``.
    """
    try:
        rows = journal_file.decode(storage.read(file.name), size=file.size, checksum=file.checksum)
    except NotStored:
        what = "missing"
    except (DamagedFile, StorageError) as error:
        what = str(error)
    else:
        for name, kind, told in zip(rows.stream, rows.kind, rows.data, strict=True):
            if kind == Kind.STREAM and is_copy(told):
                mirrors.add(name)
        return None
    return finding(Severity.DAMAGE, _TABLE, file.name, what) if _is_live(storage, file) else None


def left_over(storage: Storage, look: JournalLook, names: set[str]) -> Iterator[Finding]:
    """Find files of the table, among ``names`` from before the log was read, that no version needs."""
    if look.state is None:
        return
    for name in sorted(names - look.state.live.keys() - look.state.removed.keys()):
        version = file_version(name)
        if version is not None and storage.exists(name):
            yield finding(Severity.LEFT_OVER, _TABLE, name, "no entry of the log names it")


def seen(look: JournalLook) -> Seen:
    """Return how much was verified."""
    files = files_to_look_at(look)
    version = -1 if look.state is None else look.state.version
    return Seen(_TABLE, version, look.entries, len(files), sum(file.rows for file in files))


def _damage(storage: Storage, error: DamagedData) -> Finding:
    return finding(Severity.DAMAGE, _TABLE, error.file.removeprefix(f"{storage.uri}/"), error.reason)


def _entry(log: JournalLog, version: int) -> Finding | None:
    try:
        log.entry(version)
    except DamagedData as error:
        return _damage(log.storage, error)
    except NotStored:  # cleaned up meanwhile
        return None
    except StorageError as error:
        return finding(Severity.DAMAGE, _TABLE, error.name, str(error))
    return None


def _oldest(log: JournalLog, versions: list[int]) -> int:
    """Return the oldest version that is no claim: of older ones cleanup may have left any."""
    for version in versions:
        with suppress(NotStored, DamagedData, StorageError):
            if log.entry(version).note.operation != CLAIM:
                return version
    return versions[-1] if versions else 0


def _checkpoints(storage: Storage, app_id: str, names: Iterable[str], *, sound: bool) -> Iterator[Finding]:
    severity = Severity.REPAIRABLE if sound else Severity.DAMAGE
    for name in sorted(names):
        version = checkpoint_version(name)
        if version is None:
            continue
        try:
            checkpoint_file.decode(version, storage.read(path_of(name)), app_id=app_id, checksum=None)
        except DamagedCheckpoint as error:
            yield finding(severity, _TABLE, path_of(name), str(error))
        except NotStored:
            continue


def _is_live(storage: Storage, file: JournalFile) -> bool:
    try:
        return file.name in journal_log.load(storage, app_id_of(SHARD)).state.live
    except (DamagedData, StorageError):
        return True
