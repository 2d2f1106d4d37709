"""A table beside ``messages``: committed to by whoever owns ``messages``, one commit after the other.

It needs no claim of its own. A commit is planned on the state that it follows, and put under the next version if that
is free; who loses the version reads what is there and plans again, so two writers can't both go on from one state. An
owner of ``messages`` that was fenced stops as soon as it sees a commit of a newer epoch here.

A failure leaves nothing in doubt that matters: the next opening reads what is there, and what is missing is made again
out of ``messages``.
"""

import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Final, Self
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa

from conf.clock import Clock
from conf.limits import BESIDE_CHECKPOINT_COMMITS, BESIDE_COMMIT_TRIES, STAGED_KEPT_SECONDS
from delta_store.commits import commit_put
from delta_store.commits.commit_put import LostRace, Put, UnstampedLog
from delta_store.entries import beside_entry, beside_file
from delta_store.entries.beside_entry import BesideEntry, BesideFile, BesideState, Change, NewTable
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_name
from delta_store.log.delta_log import DeltaLog, path_of, refuse_end
from delta_store.log.log_cleanup import clean_log
from delta_store.storage.storage import Blob, Storage
from delta_store.values.journal_errors import Fenced, NotStored, ReadOvertaken, StorageFailed

_DATA: Final = ".parquet"
_TEMPORARY: Final = ".tmp"

Plan = Callable[[BesideState], Change | None]
"""What to commit to a state; None for nothing. Called again on a newer state when the version was lost."""


class BesideFormat:
    """The format of the log of a table beside ``messages``."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Decode the entry."""
        beside_entry.decode(version, raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> BesideEntry:
        """See :func:`delta_store.entries.beside_entry.decode`."""
        return beside_entry.decode(version, raw, file=file)

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> BesideState:
        """See :func:`delta_store.entries.beside_entry.decode_checkpoint`."""
        return beside_entry.decode_checkpoint(version, body, checksum=checksum)


BesideLog = DeltaLog[BesideEntry, BesideState]


def log_of(storage: Storage) -> BesideLog:
    """Return the log of the table in a storage."""
    return DeltaLog(storage, BesideFormat())


def read_state(storage: Storage) -> BesideState:
    """Return the table's state at the end of its log; version -1 without one. Raises ``DamagedData``."""
    return _read(log_of(storage))[0]


def write_file(
    storage: Storage,
    rows: pa.Table,
    *,
    epoch: int,
    names: Sequence[str],
    partition: Sequence[tuple[str, str]] = (),
    numbered: Collection[str] = (),
) -> BesideFile:
    """Write rows, at least one, as a durable file that no commit has yet; see :func:`beside_file.encode`."""
    folders = [f"{name}={value}" for name, value in partition]
    path = "/".join((*folders, f"part-{epoch:06d}-{secrets.token_hex(16)}{_DATA}"))
    file, body = beside_file.encode(rows, path, names=names, partition=partition, numbered=numbered)
    storage.write(Blob(path, body))
    return file


class BesideTable:
    """The table as the owner of ``messages`` sees it. Not thread-safe; waits for IO."""

    def __init__(self, storage: Storage, *, epoch: int, clock: Clock, horizon_seconds: float) -> None:
        self.storage, self.state = storage, BesideState()
        self._log = log_of(storage)
        self._epoch, self._clock, self._horizon_seconds = epoch, clock, horizon_seconds
        self._checkpoint = -1
        """Version of the newest checkpoint."""

    @classmethod
    def open(
        cls, storage: Storage, new: NewTable | None = None, *, epoch: int, clock: Clock, horizon_seconds: float
    ) -> Self:
        """Open for writing by the owner of ``messages`` with this epoch; make the table from ``new`` if there is none.

        ``horizon_seconds`` is how long other engines shall keep past versions. Raises ``DamagedData``,
        :class:`StorageError`, :class:`Fenced`.
        """
        table = cls(storage, epoch=epoch, clock=clock, horizon_seconds=horizon_seconds)
        table.refresh()
        if table.state.version < 0 and new is not None:
            table.commit(lambda state: table.creation(new) if state.version < 0 else None)
        return table

    def creation(self, new: NewTable) -> Change:
        """Return the change that makes the table, or gives it columns and properties anew."""
        now_ms = self._now_ms()
        table_id = uuid5(NAMESPACE_URL, f"{self.storage.uri}#{secrets.token_hex(16)}")
        metadata = new.metadata(self.state.metadata.get("id") or str(table_id), now_ms, self._horizon_seconds)
        return Change(metadata=metadata, operation="CREATE TABLE", data_change=False)

    def refresh(self) -> None:
        """Read what others have committed."""
        if self.state.version >= 0:
            with suppress(ReadOvertaken):
                for entry in self._log.since(self.state.version + 1):
                    self.state = self.state.after(entry, file=self._log.file_of(entry.version))
                return
        self.state, self._checkpoint = _read(self._log)

    def commit(self, plan: Plan) -> int | None:
        """Commit what ``plan`` makes of the newest state, durably; return the version, None when that is nothing.

        Raises :class:`Fenced`, :class:`CommitUnknown`, :class:`StorageFull` and :class:`StorageFailed`. After any of
        them but a retryable one the table must be opened again.
        """
        for _ in range(BESIDE_COMMIT_TRIES):
            if self.state.epoch > self._epoch:
                raise Fenced(self._epoch, self.state.epoch)
            change = plan(self.state)
            if change is None:
                return None
            with suppress(LostRace):
                return self._put(change)
            self.refresh()
        raise StorageFailed(self.storage.uri, "others keep committing to this table", retryable=True)

    def _put(self, change: Change) -> int:
        state, version = self.state, self.state.version + 1
        now_ms = max(self._now_ms(), state.timestamp_ms)
        if version == 0:
            self.storage.prepare(secrets.token_hex(8))
        raw = beside_entry.encode(version, change, state, timestamp_ms=now_ms, epoch=self._epoch)
        file = self._log.file_of(version)
        after = state.after(beside_entry.decode(version, raw, file=file), file=file)
        commit_put.put(self.storage, Put(version, raw), UnstampedLog(self._log.is_history))
        self.state = after
        return version

    def upkeep(self) -> int | None:
        """Write a checkpoint if one is due; return its version."""
        state = self.state
        if state.version - self._checkpoint < BESIDE_CHECKPOINT_COMMITS:
            return None
        body = beside_entry.encode_checkpoint(state)
        self.storage.write(Blob(path_of(checkpoint_name(state.version)), body))
        self.storage.write(Blob(path_of(LAST_CHECKPOINT), beside_entry.checkpoint_pointer(state, body)))
        self._checkpoint = state.version
        return state.version

    def vacuum(self, horizon_seconds: float) -> int:
        """Delete files and log entries that no version within a horizon needs; return the number of data files.

        A file that was written and is in no version is given an hour to be committed.
        """
        now_ms, state = self._now_ms(), self.state
        limit_ms = now_ms - round(horizon_seconds * 1000)
        expired = {path for path, one in state.removed.items() if one.at_ms <= limit_ms}
        known = state.files.keys() | state.removed.keys()
        kept_ms = now_ms - STAGED_KEPT_SECONDS * 1000
        abandoned = {
            file.name
            for file in self.storage.walk()
            if file.name not in known and file.name.endswith((_DATA, _TEMPORARY)) and file.modified_ms < kept_ms
        }
        self.storage.delete(expired | abandoned)
        self.state = state.without_removed(expired)
        clean_log(self.storage, newest_checkpoint=self._checkpoint, limit_ms=limit_ms, time_of=self._time_of)
        return len(expired | abandoned)

    def _time_of(self, version: int) -> int:
        return self._log.entry(version).timestamp_ms

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _read(log: BesideLog) -> tuple[BesideState, int]:
    """Return the state at the end of the log, and the version of the newest whole checkpoint."""
    return log.looked(lambda: _from_listing(log))


def _from_listing(log: BesideLog) -> tuple[BesideState, int]:
    pointed = log.pointed()
    listing = log.listed()
    found, damaged = log.newest_checkpoint(listing, pointed=pointed)
    state = found or BesideState()
    checkpoint = state.version
    try:
        for entry in log.entries(range(state.version + 1, listing.last + 1)):
            state = state.after(entry, file=log.file_of(entry.version))
    except NotStored as error:
        raise log.missing(error, damaged) from error
    refuse_end(log, state.version, pointed)
    return state, checkpoint
