"""A stream that is being restored: what an archive holds becomes rows of the journal, out of sight until it is whole.

The stream is begun by a row that says so, and shown from the row on that says it is done. One that was begun and not
done is deleted: at once where its archive is refused, at the next start where the process ended meanwhile. Where its
sender gave a word by which it may go on, it is kept for a while if it breaks off; what comes then begins behind it.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from api.jetstream.archived_consumer import read_archived
from consumers.config.consumer_create_rules import Company
from consumers.engine.consumer_rows import config_data
from delta_store.archive.archived import ArchivedConsumer, ArchivedDeleted, ArchivedEnd, ArchivedState, Item
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun, entries_of, joined_entries
from delta_store.archive.sequence_set import Sequences
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.segments import Ints
from delta_store.reading.branch_base import BranchBase
from delta_store.streams import restores
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_sources import SourcePosition, positions_data, read_sourced
from delta_store.streams.stream_state import NewRun, StreamState
from delta_store.values.records import Kind
from delta_store.values.stream_message import MessageRun
from ingest.publishing.copied_messages import msg_id_of
from ingest.publishing.group import Gathering


class StreamRestore:
    """The stream that an archive becomes; all its rows go to the gathering group."""

    def __init__(self, catalog: Catalog, gathering: Gathering, config: StreamConfig, state: StreamState) -> None:
        """Go on with a stream that was begun and broke off."""
        self._catalog = catalog
        self._config = config
        self._gathering = gathering
        self._company = Company()
        self._last_seq = 0
        self._sources: dict[str, SourcePosition] = {}
        self._goes_on = True
        self.state = state

    @classmethod
    def begun(
        cls,
        catalog: Catalog,
        gathering: Gathering,
        config: StreamConfig,
        *,
        now_ns: int,
        has_deleted: bool = False,
        resume: str = "",
    ) -> Self:
        """Begin; ``has_deleted``: deleted messages come among the others, so that limits are applied at the end.

        ``resume`` is a word of the sender by which it may go on. Raises ``ApiRefusal`` where the name or a subject is
        taken, or nothing can be committed.
        """
        rows = gathering.group.rows
        state = restores.begin(catalog, config, now_ns=now_ns, rows=rows, resume=resume, limits_later=has_deleted)
        restore = cls(catalog, gathering, config, state)
        restore._goes_on = False
        return restore

    def take(self, items: Sequence[Item], now_ns: int) -> None:
        """Take what follows in the archive. Raises :class:`BadArchive`, and as :meth:`store`."""
        for item in items:
            if isinstance(item, ArchivedState):
                self.begin_at(item.first_seq, item.last_seq, now_ns)
            elif isinstance(item, ArchivedConsumer):
                self.add(item, now_ns)
        runs = [item for item in items if isinstance(item, EntryRun)]
        if runs:
            self._store(joined_entries(runs), now_ns)
        for item in items:
            if isinstance(item, ArchivedDeleted):
                self._delete(self._live(item.seqs), now_ns)
            elif isinstance(item, ArchivedEnd):
                self._take_end(item, now_ns)

    def begin_at(self, first_seq: int, last_seq: int, now_ns: int) -> None:
        """Begin with a sequence; ``last_seq`` is the last one, also where its message is gone."""
        self._last_seq = last_seq
        if self._goes_on:
            rows = self._gathering.group.rows
            for name in list(self.state.consumers):
                self.state.record_consumer(Kind.CONSUMER_DELETE, name=name, data=b"", now_ns=now_ns, rows=rows)
        elif first_seq > 1:
            self.state.index.restore_bounds(first_seq=first_seq, last_seq=first_seq - 1, last_ts=0)
            self.state.record_removal([], "skip", now_ns=now_ns, rows=self._gathering.group.rows)

    def rest_on(self, base: BranchBase, now_ns: int) -> None:
        """Begin with settled rows of another stream, which the settle job copies."""
        bounds = (base.first_seq, base.last_seq)
        restores.rest_on(self.state, base.as_json(), bounds, now_ns=now_ns, rows=self._gathering.group.rows)

    def add(self, consumer: ArchivedConsumer, now_ns: int) -> None:
        """Add a consumer. Raises :class:`BadArchive`."""
        state, rows = self.state, self._gathering.group.rows
        config, progress = read_archived(consumer, state.config, self._company)
        self._company.join(config, state.config)
        data = config_data(config, created_ns=now_ns + self._company.count)
        state.record_consumer(Kind.CONSUMER, name=config.name, data=data, now_ns=now_ns, rows=rows)
        state.record_consumer(Kind.CONSUMER_STATE, name=config.name, data=progress.encode(), now_ns=now_ns, rows=rows)

    def store(self, run: MessageRun, now_ns: int) -> None:
        """Store messages with the sequences and times that they have. Raises ``ApiRefusal`` where there is no room."""
        self._store(entries_of(run), now_ns)

    def _store(self, run: EntryRun, now_ns: int) -> None:
        state, group, headers = self.state, self._gathering.group, run.headers
        seqs = run.seqs.astype(np.int64)
        ids = list(map(msg_id_of, headers)) if headers is not None else None
        sid_of = {subject: state.index.table.intern(subject) for subject in dict.fromkeys(run.subjects)}
        sids = list(map(sid_of.__getitem__, run.subjects))
        new = NewRun(run.subjects, sids, headers, run.data, ids, seqs)
        state.store_run(new, now_ns=now_ns, rows=group.rows, ts_ns=run.ts_ns)
        if not self._catalog.account.has_room(state.config.storage, 0):
            raise api_errors.ACCOUNT_EXCEEDED.error
        group.bytes += int(run.sizes.sum())
        if headers is not None and ids is not None:
            state.dedup.restore(zip(ids, seqs.tolist(), run.ts_ns.tolist(), strict=True))
            if state.config.sources:
                self._sources.update(filter(None, map(read_sourced, filter(None, headers))))
        self._catalog.tidy(state)

    def _take_end(self, end: ArchivedEnd, now_ns: int) -> None:
        index, self._last_seq = self.state.index, end.last_seq
        seqs = index.live.sequences(index.first_seq, index.last_seq)
        self._delete(seqs[(seqs < end.first_seq) | end.deleted.has(seqs.astype(np.uint64))], now_ns)
        if end.messages not in (None, index.msgs):
            raise BadArchive(f"the archive has {index.msgs} messages, its state says {end.messages}")

    def _live(self, seqs: Sequences) -> Ints:
        """Return those of ascending sequences that are live."""
        index = self.state.index
        live = index.live.sequences(int(seqs[0]), min(int(seqs[-1]), index.last_seq))
        return live[np.isin(live, seqs.astype(np.int64))]

    def _delete(self, seqs: Ints, now_ns: int) -> None:
        """Delete messages that were deleted before the backup, from the past as well."""
        if len(seqs):
            self.state.index.remove_many(seqs)
            rows = self._gathering.group.rows
            self.state.record_removal(seqs.tolist(), "delete", erase=True, now_ns=now_ns, rows=rows)

    def finish(self, now_ns: int) -> None:
        """Keep what follows from all messages: the last sequence, also of one that is gone, and sources' positions."""
        state, rows = self.state, self._gathering.group.rows
        if state.index.last_seq < self._last_seq:
            state.index.restore_bounds(first_seq=0, last_seq=self._last_seq, last_ts=0)
            state.record_removal([], "skip", now_ns=now_ns, rows=rows)
        if self._sources and state.config.sources:
            data = positions_data(self._sources)
            state.record_consumer(Kind.SOURCE_STATE, name="", data=data, now_ns=now_ns, rows=rows)

    def show(self, now_ns: int) -> None:
        """Show the stream, all of whose rows are durable.

        Raises ``ApiRefusal`` where a subject is taken by now, or the account's room.
        """
        rows = self._gathering.group.rows
        restores.show(self._catalog, self.state, config=self._config, now_ns=now_ns, rows=rows)

    @property
    def may_go_on(self) -> bool:
        """Whether its sender has a word by which it can be gone on with."""
        return bool(self.state.resume)

    def park(self, now_ns: int) -> None:
        """Keep what is there for its sender."""
        restores.park(self._catalog, self.state, now_ns=now_ns)

    def drop(self, now_ns: int) -> None:
        """Leave nothing of the stream."""
        restores.drop(self._catalog, self.state, now_ns=now_ns, rows=self._gathering.group.rows)
