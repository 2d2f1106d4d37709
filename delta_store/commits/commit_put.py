"""One commit put into a log, and its outcome: landed, lost the race, or unknown; never guessed."""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

from conf.limits import JOURNAL_PUT_TRIES
from delta_store.entries.log_entry import Stamp, entry_name
from delta_store.log.delta_log import path_of
from delta_store.storage.storage import Blob, Storage
from delta_store.values.journal_errors import CommitUnknown, EntryExists, NotStored, StorageError


class LostRace(Exception):
    """Another writer's commit has the version, or had it before it was cleaned up (``winner`` is then None)."""

    def __init__(self, winner: Stamp | None) -> None:
        super().__init__("another commit has the version")
        self.winner = winner


class Put(NamedTuple):
    """A commit as bytes."""

    version: int
    entry: bytes
    data: Blob | None = None
    """The data file that is written with it."""
    may_be_history: bool = True
    """Whether a clear success is not enough: the version may have been written, and cleaned up, before.

    Not where log cleanup leaves claims and this is no claim: the version is free, or is the successor's claim.
    """


class CommittedLog(Protocol):
    """What a put asks of the log that it goes to."""

    def stamp_of(self, version: int, raw: bytes) -> Stamp | None:
        """Return the stamp of a version's entry; None for another program's. Raises ``DamagedData``."""
        ...

    def is_history(self, version: int) -> bool:
        """Whether the version, which has just been put, was written before and cleaned up."""
        ...


class UnstampedLog(NamedTuple):
    """A log whose commits' stamps nobody asks for."""

    is_history: Callable[[int], bool] = lambda _: False

    def stamp_of(self, version: int, raw: bytes) -> None:
        """Return None."""
        del version, raw


def put(storage: Storage, commit: Put, log: CommittedLog) -> None:
    """Publish a commit; return when it is durable and has its version for itself.

    Raises :class:`LostRace` when it is not in the log and never will be, :class:`CommitUnknown` when that is not known,
    ``DamagedData`` for an unreadable winner, and :class:`StorageError` when nothing was published.
    """
    blob = Blob(path_of(entry_name(commit.version)), commit.entry)
    attempt = _Attempt(storage, commit.version, blob, log)
    try:
        clear = attempt.publish(commit.data)
    except LostRace:
        _forget(storage, commit.data)
        raise
    if (commit.may_be_history or not clear) and _is_history(log, commit.version):
        _forget(storage, blob)
        _forget(storage, commit.data)
        raise LostRace(None)


class _Attempt(NamedTuple):
    """The put of one entry."""

    storage: Storage
    version: int
    blob: Blob
    log: CommittedLog

    def publish(self, data: Blob | None) -> bool:
        """Put it, and find out what became of it; return whether that was clear at once."""
        try:
            self.storage.publish(self.blob, data)
        except EntryExists as error:
            self._find_out(error)
        except StorageError as error:
            if error.published is False:
                raise
            self._find_out(error)
        else:
            return True
        return False

    def _find_out(self, error: StorageError) -> None:
        """Find the outcome of a put that had no clear answer, or whose name is taken.

        The entry there is read and compared. A name that is free after all (a store may say 409 or 412 for reasons of
        its own) or may be, is put again where that is allowed: it is the same bytes, and only one put can win.
        """
        taken = isinstance(error, EntryExists)
        for _ in range(2 * JOURNAL_PUT_TRIES):
            try:
                if taken:
                    return self._compare()
                if not self.storage.repeatable:
                    break
                return self.storage.publish(self.blob)
            except EntryExists:
                taken = True
            except NotStored:
                taken = False
            except StorageError:
                continue
        raise CommitUnknown(self.version) from error

    def _compare(self) -> None:
        """Return if the published entry is this one, to the byte; else raise :class:`LostRace`."""
        raw = self.storage.read(self.blob.name)
        if raw != self.blob.body:
            raise LostRace(self.log.stamp_of(self.version, raw))


def _is_history(log: CommittedLog, version: int) -> bool:
    for _ in range(JOURNAL_PUT_TRIES - 1):
        with suppress(StorageError):
            return log.is_history(version)
    try:
        return log.is_history(version)
    except StorageError as error:
        raise CommitUnknown(version) from error


def _forget(storage: Storage, blob: Blob | None) -> None:
    if blob is not None:
        with suppress(StorageError, NotStored):
            storage.delete([blob.name])
