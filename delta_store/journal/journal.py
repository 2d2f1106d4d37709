"""The journal's owner: one commit is one group of acknowledgements.

Invariant: :meth:`Journal.commit` returns only when the rows are durable and ordered. Claims, fencing and the outcome of
a commit are those of every table (:mod:`delta_store.commits.log_owner`).
"""

import os
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from threading import Lock
from typing import NamedTuple, Self
from uuid import NAMESPACE_URL, uuid5

from conf.clock import Clock
from conf.limits import (
    JOURNAL_LOG_KEEP_SECONDS,
    JOURNAL_REMOVE_GRACE_SECONDS,
    JOURNAL_REMOVES_PER_COMMIT_MAX,
)
from delta_store.commits import commit_put
from delta_store.commits.commit_put import LostRace, Put, UnstampedLog
from delta_store.commits.log_owner import LogOwner, Prepared
from delta_store.entries import journal_file, log_entry
from delta_store.entries.journal_file import EncodedFile
from delta_store.entries.journal_state import settled_files
from delta_store.entries.log_entry import (
    CLAIM,
    JournalEntry,
    JournalFile,
    JournalNote,
    LogEntry,
    Marks,
    Removed,
    Stamp,
    current_metadata,
    file_name,
    new_metadata,
)
from delta_store.entries.settle_lag import Volume
from delta_store.journal.journal_upkeep import JournalUpkeep
from delta_store.log import journal_log
from delta_store.log.journal_log import LoadedLog
from delta_store.log.journal_reader import JournalReader, app_id_of
from delta_store.storage.storage import Blob, Storage
from delta_store.values.records import Position, RowColumns


class _Content(NamedTuple):
    """The content of a commit."""

    operation: str
    encoded: EncodedFile | None = None
    """The data file of a group."""
    removed: Collection[JournalFile] = ()
    marks: Marks | None = None
    relies_on: int | None = None


class _OwnedJournal:
    """The journal's log, for its owner."""

    def __init__(self, reader: JournalReader) -> None:
        self.storage, self._reader = reader.storage, reader
        self.refresh, self.take = reader.refresh, reader.take

    def stamp(self) -> Stamp:
        return self._reader.state.stamp

    def stamp_of(self, version: int, raw: bytes) -> Stamp:
        log = self._reader.log
        return log_entry.decode(version, raw, self._reader.app_id, file=log.file_of(version)).note.stamp

    def is_history(self, version: int) -> bool:
        return self._reader.log.is_history(version)

    def newest_stamp(self) -> Stamp:
        return journal_log.load(self.storage, self._reader.app_id).state.stamp


class Journal:
    """The journal as its owner sees it. ``commit`` is called by one thread, upkeep by another; both may wait for IO.

    A claimed journal is up to date: its ``reader`` needs no refresh.
    """

    def __init__(self, storage: Storage, app_id: str, loaded: LoadedLog, *, clock: Clock, writer: str) -> None:
        self.reader = JournalReader(storage, app_id, loaded)
        self._storage, self._clock, self._writer = storage, clock, writer
        self._owner: LogOwner[JournalEntry] = LogOwner(_OwnedJournal(self.reader))
        self.written = Volume()
        """Volume that this owner has committed."""
        self._upkeep = JournalUpkeep(storage, app_id, clock)
        self._upkeep_lock = Lock()

    @classmethod
    def open(cls, storage: Storage, *, shard: str, clock: Clock, writer: str | None = None) -> Self:
        """Open for writing; create the table when there is none. ``writer`` must differ from process to process.

        Raises :class:`UnsafeStore`, ``DamagedData``, :class:`StorageError`.
        """
        writer = writer or secrets.token_hex(8)
        storage.prepare(f"{os.getpid()}-{writer}")
        storage.set_aside()
        app_id = app_id_of(shard)
        loaded = journal_log.load(storage, app_id)
        if loaded.state.version < 0:
            now_ms = clock.now_ns() // 1_000_000
            table_id = uuid5(NAMESPACE_URL, f"{storage.uri}#{shard}#{writer}#{now_ms}")
            note = JournalNote(Stamp(0, 0), writer, "CREATE", metadata=new_metadata(str(table_id), now_ms))
            created = Put(0, log_entry.encode(LogEntry(0, now_ms, note), app_id))
            with suppress(LostRace):
                commit_put.put(storage, created, UnstampedLog())
            loaded = journal_log.load(storage, app_id)
        return cls(storage, app_id, loaded, clock=clock, writer=writer)

    @property
    def epoch(self) -> int:
        """The epoch under which this owner commits; raises :class:`NotOwner` before the claim."""
        return self._owner.epoch

    def claim(self) -> int:
        """Become the owner by a commit with the next epoch, which fences all older ones; return the epoch.

        Whatever is read from here on is durable: the claim's fsyncs cover the log up to it. Raises as :meth:`commit`.
        """
        with self._upkeep_lock:
            epoch = self._owner.claim(lambda stamp: self._prepare(stamp, _Content(CLAIM)))
            reader = self.reader
            waiting = self._upkeep.start(reader.loaded, reader.state.live, frozenset(reader.state.claims))
            reader.forget_removed(reader.state.removed.keys() - waiting)
            self._upkeep.repair(reader.snapshot(), reader.loaded.damaged)
            return epoch

    def commit(self, rows: RowColumns, watermarks: Marks | None = None) -> int:
        """Make a group durable and return its version; only then may it be acknowledged. ``rows`` is not empty.

        Raises :class:`Fenced`, :class:`CommitUnknown`, :class:`JournalPoisoned`, :class:`StorageFull` and
        :class:`StorageFailed`; if ``retryable``, nothing was written and the same rows can be committed again.
        """
        entry = self._commit(_Content("WRITE", journal_file.encode(rows), marks=watermarks))
        [file] = entry.added
        done = self.written
        self.written = Volume(done.rows + file.rows, done.bytes + file.size, done.files + 1)
        return entry.version

    def truncate(self, settled: Mapping[str, Position], *, relies_on: int | None = None) -> int:
        """Remove from the table the files whose every row is settled; return their number.

        A file is settled when each of its streams is settled up to its last row in it.
        The caller has made the settled rows durable; ``relies_on`` is the version of ``messages`` that holds them,
        which the commit records: what is torn above it may be settled again. The files themselves stay until
        :meth:`delete_removed`. Raises as :meth:`commit`.
        """
        with self._upkeep_lock:
            files = settled_files(self.reader.live_files(), settled)
            for start in range(0, len(files), JOURNAL_REMOVES_PER_COMMIT_MAX):
                chunk = files[start : start + JOURNAL_REMOVES_PER_COMMIT_MAX]
                self._commit(_Content("TRUNCATE", removed=chunk, relies_on=relies_on))
                self._upkeep.doom(file.name for file in chunk)
            return len(files)

    @property
    def has_room(self) -> bool:
        """Whether new groups may be decided; False when commits take their space from the reserve of a full disk."""
        with self._owner.lock:
            return self._storage.has_room

    @property
    def checkpoint_is_due(self) -> bool:
        """Whether enough was committed since the last checkpoint for another one."""
        return self._upkeep.is_due(self.reader.version, len(self.reader.state.live))

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version, without holding up commits; return its version."""
        with self._upkeep_lock:
            self._owner.check()
            return self._upkeep.checkpoint(self.reader.snapshot())

    def cleanup(self, *, keep_from: int | None = None, min_age_seconds: float = JOURNAL_LOG_KEEP_SECONDS) -> int:
        """Delete log entries behind the checkpoint before the newest; return their number.

        Never those of files that are still in the table: a settle job that lags is not overtaken. ``keep_from`` is the
        oldest version whose entry another reader needs; ``min_age_seconds`` the least age of the checkpoint that makes
        up for the deleted entries.
        """
        with self._upkeep_lock:
            self._owner.check()
            version, files = self.reader.files_at_end()
            oldest = files[0].version - 1 if files else version
            keep_from = oldest if keep_from is None else min(keep_from, oldest)
            return self._upkeep.clean_log(keep_from=keep_from, min_age_seconds=min_age_seconds)

    def delete_removed(self, *, grace_seconds: float = JOURNAL_REMOVE_GRACE_SECONDS) -> int:
        """Delete files that left the table, or never got into it, that long ago; return their number."""
        with self._upkeep_lock:
            self._owner.check()
            names = self._upkeep.delete_removed(grace_seconds)
            self.reader.forget_removed(names)
            return len(names)

    def _commit(self, content: _Content) -> JournalEntry:
        return self._owner.commit(lambda stamp: self._prepare(stamp, content))

    def _prepare(self, stamp: Stamp, content: _Content) -> Prepared[JournalEntry]:
        """Return the commit of this content under a stamp. Commit lock held."""
        state = self.reader.state
        version, now_ms = state.version + 1, max(self._clock.now_ns() // 1_000_000, state.timestamp_ms)
        added: tuple[JournalFile, ...] = ()
        data = None
        if content.encoded is not None:
            parts, size, rows, checksum, spans, stats = content.encoded
            name = file_name(version, stamp)
            added = (JournalFile(name, version, size, rows, checksum, spans, stats, now_ms),)
            data = Blob(name, parts[0], parts[1:])
        gone = tuple(Removed(each.name, each.size, now_ms) for each in content.removed)
        is_claim = content.operation == CLAIM
        metadata = current_metadata(state.metadata) if is_claim else None
        note = JournalNote(stamp, self._writer, content.operation, content.marks, metadata, content.relies_on)
        entry = LogEntry(version, now_ms, note, added, gone)
        raw = log_entry.encode(entry, self.reader.app_id)
        return Prepared(Put(version, raw, data, may_be_history=is_claim), entry)
