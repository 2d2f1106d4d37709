"""The log of ``messages`` opened for its owner: the state at its end, and what upkeep needs of the rest."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from delta_store.entries import messages_checkpoint
from delta_store.entries.checkpoint_table import checkpoint_version
from delta_store.entries.entry_seal import Actions
from delta_store.entries.messages_state import MessagesState
from delta_store.entries.settled_claims import fault_of_table
from delta_store.entries.settled_log import NO_TABLE, actions_in, read_entry
from delta_store.log.delta_log import DeltaLog, Listing, path_of, refuse_end
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored, ReadOvertaken
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import CommitNote


class VersionActions(NamedTuple):
    """A version's entry, parsed and verified, not yet interpreted."""

    version: int
    actions: Actions
    size: int
    """Bytes."""


class OwnerFormat:
    """The format of ``messages`` for its owner, who needs every action whole."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Parse the entry's actions."""
        del version
        actions_in(raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> VersionActions:
        """See :func:`delta_store.entries.settled_log.actions_in`."""
        return VersionActions(version, actions_in(raw, file=file), len(raw))

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> MessagesState:
        """See :func:`delta_store.entries.messages_checkpoint.decode`."""
        return messages_checkpoint.decode(version, body, checksum=checksum)


OwnedLog = DeltaLog[VersionActions, MessagesState]


class LoadedMessages(NamedTuple):
    """The state at the end of the log, and what upkeep needs of the rest."""

    state: MessagesState
    checkpoint: int
    """Version of the newest whole checkpoint; -1 without any."""
    damaged: tuple[str, ...] = ()
    """Names of damaged checkpoints that older ones and log entries made up for."""
    log_bytes: int = 0
    """Bytes of the entries behind the checkpoint."""


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


def newest_note(version: int, note_of: Callable[[int], CommitNote | None]) -> CommitNote | None:
    """Return the newest note of the entries up to ``version``, None if there never was one; :class:`NotStored`."""
    return next((note for earlier in range(version, -1, -1) if (note := note_of(earlier)) is not None), None)


def _load(log: OwnedLog) -> LoadedMessages:
    """Return the state by the checkpoint that is pointed to, without listing the log, or else by what is listed."""
    pointed = log.pointed()
    loaded = _from_pointer(log, pointed) or _listed(log, pointed)
    state = loaded.state
    refuse_end(log, state.version, pointed)
    if fault := fault_of_table(state.note, state.snapshot.rows):
        raise DamagedData(log.named(LOG_FOLDER), fault)
    return loaded


def _from_pointer(log: OwnedLog, pointed: tuple[int, str] | None) -> LoadedMessages | None:
    state = log.at_pointer(pointed)
    if state is not None:
        with suppress(NotStored, ReadOvertaken):
            return _continued(log, state, log.since(state.version + 1))
    return None


def _listed(log: OwnedLog, pointed: tuple[int, str] | None) -> LoadedMessages:
    listing = log.listed()
    found, damaged = log.newest_checkpoint(listing, pointed=pointed)
    state = found or MessagesState(NO_TABLE)
    try:
        loaded = _continued(log, state, log.entries(range(state.version + 1, listing.last + 1)))
    except NotStored as error:
        raise _missing(log, listing, log.missing(error, damaged)) from error
    return loaded._replace(damaged=tuple(damaged))


def _continued(log: OwnedLog, state: MessagesState, since: Iterable[VersionActions]) -> LoadedMessages:
    """Complete the state of a checkpoint by its note, and by the entries since; raise :class:`NotStored`."""
    start, size = state.version, 0
    if start >= 0:
        _take_note(state, newest_note(start, partial(_note_of, log)))
    for entry in since:
        apply_to(state, log, entry)
        size += entry.size
    return LoadedMessages(state, start, (), size)


def _take_note(state: MessagesState, note: CommitNote | None) -> None:
    """Complete the state of a checkpoint by its newest note."""
    if note is not None:
        state.note, state.snapshot = note, replace(state.snapshot, watermarks=note.watermarks)


def _note_of(log: OwnedLog, version: int) -> CommitNote | None:
    return read_entry(version, log.entry(version).actions, file=log.file_of(version)).note


def _missing(log: OwnedLog, listing: Listing, error: DamagedData) -> DamagedData:
    """Return the error for a missing entry; it says so if only a checkpoint of a kind that is not read can help."""
    other = sorted(name for name in listing.sizes if ".checkpoint." in name and checkpoint_version(name) is None)
    if other:
        return DamagedData(log.named(path_of(other[-1])), "a checkpoint in parts, which Silt does not read")
    return error
