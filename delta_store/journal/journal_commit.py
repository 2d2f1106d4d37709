"""One commit put into the log, and its outcome: landed, lost the race, or unknown; never guessed."""

from contextlib import suppress

from conf.limits import JOURNAL_PUT_TRIES
from delta_store.entries import log_entry
from delta_store.entries.log_entry import JournalEntry, entry_name
from delta_store.log.delta_log import path_of
from delta_store.storage.storage import Blob, Storage
from delta_store.values.journal_errors import CommitUnknown, EntryExists, NotStored, StorageError


class LostRace(Exception):
    """Another writer's commit has the version, or had it before it was cleaned up (``winner`` is then None)."""

    def __init__(self, winner: JournalEntry | None) -> None:
        super().__init__("another commit has the version")
        self.winner = winner


def put(storage: Storage, app_id: str, entry: JournalEntry, data: Blob | None) -> None:
    """Publish a commit; return when it is durable and has its version for itself.

    Raises :class:`LostRace` when it is not in the log and never will be, :class:`CommitUnknown` when that is not known,
    ``DamagedData`` for an unreadable winner, and :class:`StorageError` when nothing was published.
    """
    blob = Blob(path_of(entry_name(entry.version)), log_entry.encode(entry, app_id))
    try:
        _publish(storage, app_id, blob, data)
    except LostRace:
        _forget(storage, data)
        raise
    # An owner that finds the entry before this one deleted has slept through a cleanup: its version is history.
    if entry.version > 0 and not _exists(storage, entry.version - 1):
        _forget(storage, blob)
        _forget(storage, data)
        raise LostRace(None)


def _publish(storage: Storage, app_id: str, blob: Blob, data: Blob | None) -> None:
    try:
        storage.publish(blob, data)
    except EntryExists as error:
        _find_out(storage, app_id, blob, error)
    except StorageError as error:
        if error.published is False:
            raise
        _find_out(storage, app_id, blob, error)


def _find_out(storage: Storage, app_id: str, blob: Blob, error: StorageError) -> None:
    """Find the outcome of a put that had no clear answer, or whose name is taken.

    The entry there is read and compared. A name that is free after all (a store may say 409 or 412 for reasons of its
    own) or may be, is put again where that is allowed: it is the same bytes, and only one put can win.
    """
    taken = isinstance(error, EntryExists)
    version = log_entry.version_of(blob.name.rpartition("/")[2])
    assert version is not None
    for _ in range(2 * JOURNAL_PUT_TRIES):
        try:
            if taken:
                return _compare(storage, app_id, blob, version)
            if not storage.repeatable:
                break
            return storage.publish(blob)
        except EntryExists:
            taken = True
        except NotStored:
            taken = False
        except StorageError:
            continue
    raise CommitUnknown(version) from error


def _compare(storage: Storage, app_id: str, blob: Blob, version: int) -> None:
    """Return if the published entry is this one, to the byte; else raise :class:`LostRace`."""
    raw = storage.read(blob.name)
    if raw != blob.body:
        raise LostRace(log_entry.decode(version, raw, app_id, file=f"{storage.uri}/{blob.name}"))


def _exists(storage: Storage, version: int) -> bool:
    for _ in range(JOURNAL_PUT_TRIES - 1):
        with suppress(StorageError):
            return storage.exists(path_of(entry_name(version)))
    try:
        return storage.exists(path_of(entry_name(version)))
    except StorageError as error:
        raise CommitUnknown(version + 1) from error


def _forget(storage: Storage, blob: Blob | None) -> None:
    if blob is not None:
        with suppress(StorageError, NotStored):
            storage.delete([blob.name])
