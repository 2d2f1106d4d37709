"""The owner of ``messages``: one commit settles one batch, or takes out what limits and compaction replaced.

Staged files are durable before they are committed, so a commit is one log entry. Each entry is checked as its readers
will check it, against its note and the commit before, and only then published: what the owner commits is never damage
to a reader. Claims, fencing and outcomes are those of every table (:mod:`delta_store.commits.log_owner`).
"""

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import Any, NamedTuple, Self
from uuid import NAMESPACE_URL, uuid5

from conf.clock import Clock
from delta_store.commits import commit_put
from delta_store.commits.commit_put import LostRace, Put, UnstampedLog
from delta_store.commits.log_owner import LogOwner, Prepared
from delta_store.entries import settled_entry
from delta_store.entries.entry_seal import actions_of
from delta_store.entries.log_entry import Stamp
from delta_store.entries.messages_checkpoint import snapshot_of
from delta_store.entries.messages_state import MessagesState, NextVersion
from delta_store.entries.settled_entry import (
    SettledCommit,
    TableFile,
    changed_metadata,
    new_metadata,
    no_rows,
    terms_of,
)
from delta_store.entries.settled_log import Snapshot, actions_in
from delta_store.entries.staged_file import StagedFile
from delta_store.log import messages_log
from delta_store.log.messages_log import LoadedMessages, apply_to
from delta_store.settled.settled_upkeep import SettledUpkeep, Vacuumed
from delta_store.storage.storage import Storage
from delta_store.values.horizons import Horizons
from delta_store.values.journal_errors import ReadOvertaken
from delta_store.values.read_errors import DamagedData
from delta_store.values.watermark import Claim, CommitNote, Op


class _Change(NamedTuple):
    """The content of a commit."""

    note: CommitNote
    operation: str = ""
    metadata: Mapping[str, Any] | None = None
    added: Sequence[StagedFile] = ()
    removed: Sequence[TableFile] = ()


_Plan = Callable[[MessagesState], _Change]
"""What to commit to a state; raises ``ValueError``."""


class _OwnedMessages:
    """The log of ``messages``, for its owner."""

    def __init__(self, storage: Storage, loaded: LoadedMessages) -> None:
        self.storage, self.log, self.state = storage, messages_log.log_of(storage), loaded.state

    def stamp(self) -> Stamp:
        return self.state.stamp

    def refresh(self) -> None:
        try:
            for entry in self.log.since(self.state.version + 1):
                apply_to(self.state, self.log, entry)
        except ReadOvertaken:
            self.state = messages_log.load(self.storage).state

    def take(self, step: NextVersion) -> None:
        self.state.take(step)

    def stamp_of(self, version: int, raw: bytes) -> Stamp | None:
        file = self.log.file_of(version)
        try:
            return terms_of(actions_in(raw, file=file)).stamp
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedData(file, str(error)) from error

    def is_history(self, version: int) -> bool:
        return self.log.is_history(version)

    def newest_stamp(self) -> Stamp:
        return messages_log.load(self.storage).state.stamp


class SettledOwner:
    """The table as its owner sees it. Commits are made by one thread at a time, upkeep by another; both wait for IO."""

    def __init__(
        self, storage: Storage, loaded: LoadedMessages, *, clock: Clock, horizon_seconds: float, writer: str
    ) -> None:
        self.storage = storage
        self._table = _OwnedMessages(storage, loaded)
        self._owner: LogOwner[NextVersion] = LogOwner(self._table)
        self._clock, self._writer = clock, writer
        self.horizons = Horizons(horizon_seconds)
        """How long what has left the table stays readable."""
        self._upkeep = SettledUpkeep(storage, loaded, clock, self.horizons)
        self._upkeep_lock = Lock()
        self._damaged = loaded.damaged

    @classmethod
    def open(cls, storage: Storage, *, clock: Clock, horizon_seconds: float, writer: str | None = None) -> Self:
        """Open for writing; create the table when there is none. ``writer`` must differ from process to process.

        ``horizon_seconds`` is how long the past of streams that don't say it stays readable. Raises
        :class:`UnsafeStore`, ``DamagedData``, :class:`StorageError`.
        """
        writer = writer or secrets.token_hex(8)
        storage.prepare(f"{os.getpid()}-{writer}")
        loaded = messages_log.load(storage)
        if loaded.state.version < 0:
            now_ms = clock.now_ns() // 1_000_000
            table_id = uuid5(NAMESPACE_URL, f"{storage.uri}#{writer}#{now_ms}")
            properties = settled_entry.PROPERTIES | settled_entry.retention(horizon_seconds)
            metadata = new_metadata(str(table_id), now_ms, properties)
            note = CommitNote(Op.COMPACT, {}, claim=Claim(0, {}))
            first = SettledCommit(0, now_ms, Stamp(0, 0), writer, -1, note, settled_entry.CREATE, metadata)
            with suppress(LostRace):
                commit_put.put(storage, Put(0, settled_entry.encode(first)), UnstampedLog())
            loaded = messages_log.load(storage)
        return cls(storage, loaded, clock=clock, horizon_seconds=horizon_seconds, writer=writer)

    @property
    def epoch(self) -> int:
        """The epoch under which this owner commits; raises :class:`NotOwner` before the claim."""
        return self._owner.epoch

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that was read or committed; immutable."""
        return self._table.state.snapshot

    @property
    def note(self) -> CommitNote:
        """The newest note: how far each stream is settled."""
        return self._table.state.told()

    def claim(self) -> int:
        """Become the owner by a commit with the next epoch, which fences all older ones; return the epoch.

        The commit also puts right what properties the table has. Raises as :meth:`append`.
        """
        with self._upkeep_lock:
            epoch = self._owner.claim(
                partial(self._prepared, _configured(settled_entry.CLAIM, settled_entry.PROPERTIES))
            )
            self._upkeep.start()
            self._upkeep.repair(snapshot_of(self._table.state), self._damaged)
            return epoch

    def append(self, files: Sequence[StagedFile], note: CommitNote) -> int:
        """Commit the files of a batch, which are durable; return the version.

        ``note`` is that of the batch after the last one: each is appended once. Raises ``ValueError`` for a note that
        contradicts the table or the files, :class:`Fenced`, :class:`CommitUnknown`, :class:`JournalPoisoned`,
        :class:`StorageFull` and :class:`StorageFailed`; if ``retryable`` (and after ``ValueError``) nothing was
        written, and the same call can be made again.
        """

        def plan(state: MessagesState) -> _Change:
            if note.op is not Op.APPEND or note.batch != state.told().batch + 1:
                raise ValueError(f"{note.op} of batch {note.batch} after batch {state.told().batch}")
            return _Change(note, added=files)

        return self._commit(plan)

    def rewrite(self, op: Op, gone: AbstractSet[str], added: Sequence[StagedFile] = (), *, deleted: int = 0) -> int:
        """Replace files of the table, by path, in one commit; return the version.

        ``op`` is ``LIMITS`` when rows leave, ``deleted`` of them, or ``COMPACT``. Raises as :meth:`append`, and
        ``ValueError`` for a path that is not in the table.
        """

        def plan(state: MessagesState) -> _Change:
            if op is Op.APPEND or not gone <= state.live.keys():
                raise ValueError(f"{op} of files that are not in the table")
            before = no_rows(state.told())
            claim = Claim(state.snapshot.rows - deleted, {})
            note = CommitNote(op, before.watermarks, before.batch, claim)
            return _Change(note, added=added, removed=[state.live[path] for path in gone])

        return self._commit(plan)

    def upkeep(self) -> int | None:
        """Write a checkpoint or a list of live files if one is due; return a checkpoint's version. No commit waits."""
        with self._upkeep_lock:
            self._owner.check()
            with self._owner.lock:
                version = self._table.state.version
                if not self._upkeep.is_due(version) and not self._upkeep.list_is_due(version):
                    return None
                snapshot = snapshot_of(self._table.state)
            written = self._upkeep.checkpoint(snapshot) if self._upkeep.is_due(version) else None
            if snapshot.removed:
                self._upkeep.list_files(snapshot)
            return written

    def vacuum(self) -> Vacuumed:
        """Delete files and log entries that no version within the horizon needs, and staged files without a commit.

        A staged file of this owner is given an hour to be committed.
        """
        with self._upkeep_lock:
            self._owner.check()
            self._keep_for(self.horizons.longest)
            with self._owner.lock:
                state = self._table.state
                removed = {path: one.at_ms for path, one in state.removed.items()}
                known = state.live.keys() | removed.keys()
            expired = self._upkeep.expired(removed)
            files = self._upkeep.delete(expired)
            files += self._upkeep.delete(list(self._upkeep.abandoned(known, self.epoch)))
            with self._owner.lock:
                self._table.state.forget_removed(expired)
            return Vacuumed(files, *self._upkeep.clean_log())

    def _keep_for(self, horizon_seconds: float) -> None:
        """Tell other engines the longest horizon, which streams that come and go change."""
        properties = settled_entry.retention(horizon_seconds)
        if changed_metadata(self._table.state.metadata, properties) is not None:
            self._commit(_configured(settled_entry.SET_PROPERTIES, properties))

    def _commit(self, plan: _Plan) -> int:
        return self._owner.commit(partial(self._prepared, plan)).entry.version

    def _prepared(self, plan: _Plan, stamp: Stamp) -> Prepared[NextVersion]:
        """Return the next commit, checked as its readers will check it. Commit lock held."""
        state = self._table.state
        now_ms = max(self._clock.now_ns() // 1_000_000, state.timestamp_ms)
        base, files = self._upkeep.newest_checkpoint, self._upkeep.newest_files
        commit = SettledCommit(state.version + 1, now_ms, stamp, self._writer, base, *plan(state), files=files)
        raw = settled_entry.encode(commit)
        self._upkeep.note_entry(len(raw))
        try:
            step = state.step(commit.version, actions_of(raw), file=self._table.log.file_of(commit.version))
        except DamagedData as error:
            raise ValueError(error.reason) from error
        return Prepared(Put(commit.version, raw), step)


def _configured(operation: str, properties: Mapping[str, str]) -> _Plan:
    """Return the plan of a commit that changes no row, and puts right which properties the table has."""

    def plan(state: MessagesState) -> _Change:
        return _Change(no_rows(state.told()), operation, changed_metadata(state.metadata, properties))

    return plan
