"""The log of ``messages`` opened for its owner: the state at its end, and what upkeep needs of the rest."""

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from delta_store.entries import checkpoint_table, messages_checkpoint
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_name, checkpoint_version
from delta_store.entries.entry_seal import Actions
from delta_store.entries.log_entry import entry_name
from delta_store.entries.messages_state import MessagesState
from delta_store.entries.settled_claims import fault_of_table
from delta_store.entries.settled_log import NO_TABLE, actions_in, read_entry
from delta_store.log.delta_log import DeltaLog, Listing, path_of
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import CommitNote


class VersionActions(NamedTuple):
    """A version's entry, parsed and verified, not yet interpreted."""

    version: int
    actions: Actions


class OwnerFormat:
    """The format of ``messages`` for its owner, who needs every action whole."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Parse the entry's actions."""
        del version
        actions_in(raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> VersionActions:
        """See :func:`delta_store.entries.settled_log.actions_in`."""
        return VersionActions(version, actions_in(raw, file=file))

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> MessagesState:
        """See :func:`delta_store.entries.messages_checkpoint.decode`."""
        return messages_checkpoint.decode(version, body, checksum=checksum)


OwnedLog = DeltaLog[VersionActions, MessagesState]


class LoadedMessages(NamedTuple):
    """The state at the end of the log, and what upkeep needs of the rest."""

    state: MessagesState
    checkpoints: tuple[int, ...]
    """Versions of the checkpoints, ascending, without those found damaged."""
    damaged: tuple[str, ...]
    """Names of damaged checkpoints that older ones and log entries made up for."""
    log_bytes: int
    """Bytes of the entries behind the newest whole checkpoint."""
    checkpoint_bytes: int
    """Bytes of that checkpoint; 0 without any."""


def log_of(storage: Storage) -> OwnedLog:
    """Return the log of the table in a storage, for its owner."""
    return DeltaLog(storage, OwnerFormat())


def load(storage: Storage) -> LoadedMessages:
    """Return the state at the end of the log; version -1 when there is no table. Raises :class:`DamagedData`."""
    log = log_of(storage)
    return log.looked(lambda: _load(log))


def apply_to(state: MessagesState, log: OwnedLog, entry: VersionActions) -> None:
    """Advance a state by the next entry; raise :class:`DamagedData`."""
    state.take(state.step(entry.version, entry.actions, file=log.file_of(entry.version)))


def _load(log: OwnedLog) -> LoadedMessages:
    pointed = None
    with suppress(NotStored):
        pointed = checkpoint_table.pointed(log.storage.read(path_of(LAST_CHECKPOINT)))
    listing = log.listed()
    found, damaged = log.newest_checkpoint(listing, pointed=pointed)
    state = found or MessagesState(NO_TABLE)
    start = state.version
    try:
        if start >= 0:
            _take_note(state, _newest_note(log, start))
        for entry in log.entries(range(start + 1, listing.last + 1)):
            apply_to(state, log, entry)
    except NotStored as error:
        raise _missing(log, listing, log.missing(error, damaged)) from error
    if pointed is not None and pointed[0] > state.version:
        why = f"ends at version {state.version}, a checkpoint was made at {pointed[0]}"
        raise DamagedData(log.named(LOG_FOLDER), why)
    if fault := fault_of_table(state.note, state.snapshot.rows):
        raise DamagedData(log.named(LOG_FOLDER), fault)
    whole = tuple(version for version in listing.checkpoints if checkpoint_name(version) not in damaged)
    behind = sum(listing.sizes[entry_name(version)] for version in listing.versions if version > start)
    size = listing.sizes[checkpoint_name(start)] if start >= 0 else 0
    return LoadedMessages(state, whole, tuple(damaged), behind, size)


def _take_note(state: MessagesState, note: CommitNote | None) -> None:
    """Complete the state of a checkpoint by its newest note."""
    if note is not None:
        state.note, state.snapshot = note, replace(state.snapshot, watermarks=note.watermarks)


def _newest_note(log: OwnedLog, version: int) -> CommitNote | None:
    """Return the newest note of the entries up to ``version``, None if there never was one; :class:`NotStored`."""
    for earlier in range(version, -1, -1):
        found = read_entry(earlier, log.entry(earlier).actions, file=log.file_of(earlier)).note
        if found is not None:
            return found
    return None


def _missing(log: OwnedLog, listing: Listing, error: DamagedData) -> DamagedData:
    """Return the error for a missing entry; it says so if only a checkpoint of a kind that is not read can help."""
    other = sorted(name for name in listing.sizes if ".checkpoint." in name and checkpoint_version(name) is None)
    if other:
        return DamagedData(log.named(path_of(other[-1])), "a checkpoint in parts, which Silt does not read")
    return error
