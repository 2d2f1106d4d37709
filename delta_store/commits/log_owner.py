"""The owner of a table's log, of either table: the right to commit, claimed by a commit and lost for good.

Theory of operation. The log's next version is put if absent, so versions have one writer each. Every commit carries its
owner's epoch; a claim is a commit with the next epoch, and an owner that then loses the race for a version to a newer
epoch is fenced. An owner that slept while its versions were cleaned up could win a version that is long history. Not
where cleanup leaves claims (the journal): an owner's next version is free, or is its successor's claim, so only a claim
itself is looked after. Elsewhere the entry before must still be there after each put (cleanup deletes upwards, oldest
first).

Invariant: after a failure that leaves the disk in doubt nothing is committed any more (a new process reads what is
there); an outcome is read, never guessed.
"""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Generic, NamedTuple, Protocol, TypeVar

from conf.limits import JOURNAL_CLAIM_TRIES
from delta_store.commits import commit_put
from delta_store.commits.commit_put import LostRace, Put
from delta_store.entries.log_entry import Stamp
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import Fenced, JournalError, JournalPoisoned, NotOwner, StorageError
from delta_store.values.read_errors import DamagedData

_Entry = TypeVar("_Entry")
_Entry_contra = TypeVar("_Entry_contra", contravariant=True)


class Prepared(NamedTuple, Generic[_Entry]):
    """A commit that is about to be put."""

    put: Put
    entry: _Entry
    """The same for :meth:`OwnedTable.take`."""


class OwnedTable(Protocol[_Entry_contra]):
    """A table's state as its owner holds it."""

    storage: Storage

    def stamp(self) -> Stamp:
        """Return the stamp of the newest commit that was read."""
        ...

    def refresh(self) -> object:
        """Read what others have committed."""

    def take(self, entry: _Entry_contra) -> object:
        """Apply an own commit."""

    def stamp_of(self, version: int, raw: bytes) -> Stamp | None:
        """Return the stamp of a version's entry; None for another program's. Raises ``DamagedData``."""
        ...

    def is_history(self, version: int) -> bool:
        """Whether a version that has just been put was written before and cleaned up."""
        ...

    def newest_stamp(self) -> Stamp:
        """Return the stamp at the end of the log, read anew."""
        ...


class LogOwner(Generic[_Entry]):
    """One process's right to commit to ``table``. Thread-safe."""

    def __init__(self, table: OwnedTable[_Entry]) -> None:
        self._table = table
        self._stamp: Stamp | None = None
        """Stamp of the last attempt to commit; None before the claim."""
        self._failure: JournalError | DamagedData | None = None
        self.lock = Lock()
        """Held during each commit."""

    @property
    def epoch(self) -> int:
        """The epoch under which this owner commits; raises :class:`NotOwner` before the claim."""
        if self._stamp is None:
            raise NotOwner
        return self._stamp.epoch

    def claim(self, prepare: Callable[[Stamp], Prepared[_Entry]]) -> int:
        """Become the owner by a commit with the next epoch, which fences all older ones; return the epoch.

        Whatever is read from here on is durable: the claim's fsyncs cover the log up to it. Raises as :meth:`commit`.
        """
        with self.lock:
            for _ in range(JOURNAL_CLAIM_TRIES):
                self._table.refresh()
                self._stamp = Stamp(self._table.stamp().epoch + 1, 0)
                try:
                    self._put(prepare)
                except LostRace:
                    continue
                except (JournalError, DamagedData) as error:
                    self._stamp = None
                    raise self._stop(error) from error
                return self._stamp.epoch
            self._stamp = None
            raise Fenced(0, self._table.stamp().epoch)

    def commit(self, prepare: Callable[[Stamp], Prepared[_Entry]]) -> _Entry:
        """Commit what ``prepare`` makes of the next stamp, and return it. It is then durable, with its version.

        Raises :class:`Fenced`, :class:`CommitUnknown`, :class:`JournalPoisoned`, :class:`NotOwner`,
        :class:`StorageFull` and :class:`StorageFailed`; if ``retryable``, nothing was written.
        """
        with self.lock:
            self.check()
            try:
                return self._put(prepare)
            except LostRace as lost:
                raise self._stop(self._overtaken(lost)) from None
            except (JournalError, DamagedData) as error:
                raise self._stop(error) from error

    def check(self) -> None:
        """Raise :class:`JournalPoisoned` or :class:`NotOwner` where a commit would."""
        if self._failure is not None:
            raise JournalPoisoned(self._failure)
        if self._stamp is None:
            raise NotOwner

    def _put(self, prepare: Callable[[Stamp], Prepared[_Entry]]) -> _Entry:
        """Try once to put the next version, under the next stamp."""
        assert self._stamp is not None
        self._stamp = self._stamp.next()
        put, entry = prepare(self._stamp)
        commit_put.put(self._table.storage, put, self._table)
        self._table.take(entry)
        return entry

    def _stop(self, error: JournalError | DamagedData) -> JournalError | DamagedData:
        """Commit no more after ``error``, unless it left nothing behind; return it."""
        if not error.retryable:
            self._failure = error
        return error

    def _overtaken(self, lost: LostRace) -> JournalError | DamagedData:
        """Return the error of an owner that lost a version: fenced, or damage."""
        found = lost.winner.epoch if lost.winner is not None else self._newest_epoch()
        if found <= self.epoch:
            return DamagedData(self._table.storage.uri, f"two writers in epoch {found}")
        return Fenced(self.epoch, found)

    def _newest_epoch(self) -> int:
        with suppress(DamagedData, StorageError):
            return max(self.epoch + 1, self._table.newest_stamp().epoch)
        return self.epoch + 1
