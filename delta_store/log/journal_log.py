"""The journal's log opened: the state at its end, checked against the files of the table.

Invariant: the newest entry missing while its file exists is read as a crash before the acknowledgement; everything else
that is not as it was written is damage.
"""

from typing import NamedTuple

from delta_store.entries.checkpoint_table import checkpoint_name
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import JournalEntry, file_version
from delta_store.log.delta_log import DeltaLog, JournalFormat, refuse_end
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER

JournalLog = DeltaLog[JournalEntry, JournalState]


class LoadedLog(NamedTuple):
    """The state at the end of the log, and what upkeep needs of the rest."""

    state: JournalState
    oldest_entry: int
    """Oldest version from which on all log entries exist."""
    left_claims: tuple[int, ...]
    """Older claims, ascending: cleanup leaves them, so that no owner that slept can win their versions."""
    checkpoints: tuple[int, ...]
    """Versions of the checkpoints, ascending, without those found damaged."""
    damaged: tuple[str, ...]
    """Names of damaged checkpoints that older ones and log entries made up for."""


def log_of(storage: Storage, app_id: str) -> JournalLog:
    """Return the log of the journal in a storage."""
    return DeltaLog(storage, JournalFormat(app_id), claims_stay=True)


def load(storage: Storage, app_id: str) -> LoadedLog:
    """Return the state at the end of the log; version -1 when there is no journal. Raises :class:`DamagedData`."""
    log = log_of(storage, app_id)
    return log.looked(lambda: _load(log))


def check_follows(log: JournalLog, before: JournalState, now: JournalState) -> None:
    """Raise :class:`DamagedData` unless a log that was read anew continues what was read before."""
    if before.version < 0:
        return
    if now.version < before.version:
        why = f"ends at version {now.version}, and was at {before.version} before"
        raise DamagedData(log.named(LOG_FOLDER), why)
    if now.metadata["id"] != before.metadata["id"]:
        raise DamagedData(log.named(LOG_FOLDER), "another table is in its place")


def _load(log: JournalLog) -> LoadedLog:
    pointed = log.pointed()
    early = log.storage.sizes("")
    listing = log.listed()
    found, damaged = log.newest_checkpoint(listing, pointed=pointed)
    state = found or JournalState()
    # Entries below the checkpoint are not applied; they are verified for readers by version.
    oldest = listing.start
    state.claims |= log.verify(version for version in listing.versions if oldest <= version <= state.version)
    try:
        for entry in log.entries(range(state.version + 1, listing.last + 1)):
            state.apply(entry, file=log.file_of(entry.version))
    except NotStored as error:
        raise log.missing(error, damaged) from error
    refuse_end(log, state.version, pointed)
    _check_files(log, state, early)
    whole = tuple(version for version in listing.checkpoints if checkpoint_name(version) not in damaged)
    left = tuple(version for version in listing.versions if version < oldest)
    return LoadedLog(state, oldest, left, whole, tuple(damaged))


def _check_files(log: JournalLog, state: JournalState, early: dict[str, int]) -> None:
    """Check that each file of the table is whole, and that none was written for a version behind the log's end."""
    sizes = log.storage.sizes("")
    for file in state.live.values():
        found = sizes.get(file.name)
        if found is None:
            raise DamagedData(log.named(file.name), "missing")
        if found != file.size:
            raise DamagedData(log.named(file.name), f"{found} bytes, its log entry says {file.size}")
    for name in early:
        version = file_version(name)
        if version is not None and version > state.version + 1:
            why = f"ends at version {state.version}, but {name} was written after that"
            raise DamagedData(log.named(LOG_FOLDER), why)
