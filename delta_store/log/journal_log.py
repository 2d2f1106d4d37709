"""Reads the journal's log: the state at its end, and what is committed after it.

Invariant: a log that was cut, holed or altered is reported by the name of the file that is wrong; what can't be told
from a crash before the acknowledgement (the newest entry missing, its file there) is read as that.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from delta_store.entries import checkpoint_file, log_entry
from delta_store.entries.checkpoint_file import LAST_CHECKPOINT, DamagedCheckpoint, checkpoint_version
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import DamagedEntry, LogEntry, entry_name, file_version, version_of
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import JournalDamaged, NotStored, ReadOvertaken
from delta_store.values.schemas import LOG_FOLDER

_LOAD_TRIES: Final = 3
"""A reader may meet the owner's cleanup; what is missing then is not missing in a newer look."""


class LoadedLog(NamedTuple):
    """The end of the log, and what upkeep wants to know about the rest."""

    state: JournalState
    oldest_entry: int
    """Oldest version whose log entry is there."""
    checkpoints: tuple[int, ...]
    """Versions of the whole checkpoints, ascending, as far as they were looked at, and all older ones."""
    damaged: tuple[str, ...]
    """Names of damaged checkpoints that older ones and log entries made up for."""


def path_of(name: str) -> str:
    """A file of the log folder as storage names it."""
    return f"{LOG_FOLDER}/{name}"


def load(storage: Storage, app_id: str) -> LoadedLog:
    """The state at the end of the log; version -1 when there is no journal. Raises :class:`JournalDamaged`."""
    for _ in range(_LOAD_TRIES - 1):
        with suppress(JournalDamaged):
            return _load(storage, app_id)
    return _load(storage, app_id)


def decode_entry(name: str, raw: bytes, app_id: str) -> LogEntry:
    """An entry from its bytes; ``name`` as storage names it. Raises :class:`JournalDamaged`."""
    version = version_of(name.rpartition("/")[2])
    assert version is not None
    try:
        return log_entry.decode(version, raw, app_id)
    except DamagedEntry as error:
        raise JournalDamaged(name, str(error)) from error


def read_entry(storage: Storage, app_id: str, version: int) -> LogEntry:
    """One version's entry; raises :class:`NotStored`, :class:`JournalDamaged`."""
    name = path_of(entry_name(version))
    return decode_entry(name, storage.read(name), app_id)


def entries_from(storage: Storage, app_id: str, version: int) -> Iterator[LogEntry]:
    """The entries from ``version`` to the end of the log, which is looked up as they are taken.

    Raises :class:`ReadOvertaken` when cleanup has taken ``version``, :class:`JournalDamaged` for a hole.
    """
    while True:
        try:
            entry = read_entry(storage, app_id, version)
        except NotStored:
            _at_the_end(storage, version)
            return
        # Cleanup deletes upwards: while the entry before is there, this one is the one that was written first.
        if version > 0 and not storage.exists(path_of(entry_name(version - 1))):
            raise ReadOvertaken(version)
        yield entry
        version += 1


def _at_the_end(storage: Storage, version: int) -> None:
    """Tell the end of the log from a hole in it."""
    if version > 0 and not storage.exists(path_of(entry_name(version - 1))):
        raise ReadOvertaken(version)
    name = path_of(entry_name(version))
    if storage.exists(path_of(entry_name(version + 1))) and not storage.exists(name):
        raise JournalDamaged(name, "missing, and a later one is there")


def _load(storage: Storage, app_id: str) -> LoadedLog:
    hint = None
    with suppress(NotStored):
        hint = checkpoint_file.pointed(storage.read(path_of(LAST_CHECKPOINT)))
    early = storage.sizes("")
    names = storage.sizes(LOG_FOLDER)
    versions = sorted(version for name in names if (version := version_of(name)) is not None)
    points = sorted(version for name in names if (version := checkpoint_version(name)) is not None)
    state, damaged = _newest_checkpoint(storage, app_id, points, hint)
    last = versions[-1] if versions else -1
    _check_behind(storage, app_id, [version for version in versions if version <= state.version])
    try:
        for version in range(state.version + 1, last + 1):
            apply(state, read_entry(storage, app_id, version))
    except NotStored as error:
        if damaged:
            raise JournalDamaged(path_of(damaged[0]), "damaged, and the log before it is gone") from error
        raise JournalDamaged(error.name, "missing, and a later one is there") from error
    if hint is not None and hint[0] > state.version:
        raise JournalDamaged(LOG_FOLDER, f"ends at version {state.version}, a checkpoint was made at {hint[0]}")
    _check_files(storage, state, early)
    whole = tuple(version for version in points if checkpoint_file.checkpoint_name(version) not in damaged)
    return LoadedLog(state, versions[0] if versions else 0, whole, tuple(damaged))


def _check_behind(storage: Storage, app_id: str, versions: Iterable[int]) -> None:
    """Entries that a checkpoint makes up for say nothing here: those who read the journal by version need them."""
    for version in versions:
        with suppress(NotStored):  # cleaned up meanwhile
            read_entry(storage, app_id, version)


def _newest_checkpoint(
    storage: Storage, app_id: str, points: list[int], hint: tuple[int, str] | None
) -> tuple[JournalState, list[str]]:
    damaged: list[str] = []
    if hint is not None and hint[0] not in points:
        damaged.append(checkpoint_file.checkpoint_name(hint[0]))
    for version in reversed(points):
        name = checkpoint_file.checkpoint_name(version)
        checksum = hint[1] if hint is not None and hint[0] == version else None
        try:
            body = storage.read(path_of(name))
            return checkpoint_file.decode(version, body, app_id=app_id, checksum=checksum), damaged
        except (DamagedCheckpoint, NotStored):
            damaged.append(name)
    return JournalState(), damaged


def apply(state: JournalState, entry: LogEntry) -> None:
    """Advance a state by an entry that was read; raises :class:`JournalDamaged` when it does not follow."""
    try:
        state.apply(entry)
    except DamagedEntry as error:
        raise JournalDamaged(path_of(entry_name(entry.version)), str(error)) from error


def check_follows(before: JournalState, now: JournalState) -> None:
    """Raise :class:`JournalDamaged` unless a log that was read anew goes on from what was read before."""
    if before.version < 0:
        return
    if now.version < before.version:
        raise JournalDamaged(LOG_FOLDER, f"ends at version {now.version}, and was at {before.version} before")
    if now.metadata["id"] != before.metadata["id"]:
        raise JournalDamaged(LOG_FOLDER, "another table is in its place")


def _check_files(storage: Storage, state: JournalState, early: dict[str, int]) -> None:
    """Each file of the table is there and whole; no file was written for a version that the log does not reach."""
    sizes = storage.sizes("")
    for file in state.live.values():
        found = sizes.get(file.name)
        if found is None:
            raise JournalDamaged(file.name, "missing")
        if found != file.size:
            raise JournalDamaged(file.name, f"{found} bytes, its log entry says {file.size}")
    for name in early:
        version = file_version(name)
        if version is not None and version > state.version + 1:
            raise JournalDamaged(LOG_FOLDER, f"ends at version {state.version}, but {name} was written after that")
