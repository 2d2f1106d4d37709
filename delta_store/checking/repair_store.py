"""Repairs of a store that lose nothing; the caller holds the rights of gateway and settle job.

A damaged checkpoint is made anew from the log, and, in a folder, a torn end of ``messages`` that the journal does not
rely on is set aside, because the journal still has every row of it. Whatever is taken out of a table is kept beside it.
A lost journal is begun anew only on request: what it held beyond ``messages`` is lost.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from conf.clock import Clock
from conf.data_location import DataLocation
from delta_store.checking.verify_heads import look_at_heads
from delta_store.checking.verify_messages import unreadable
from delta_store.checking.verify_typed import look_at_typed
from delta_store.entries.checkpoint_table import is_files_name
from delta_store.entries.findings import Finding
from delta_store.heads.head_tables import HeadTables
from delta_store.journal.journal import Journal
from delta_store.log import journal_log, messages_log
from delta_store.log.delta_log import path_of
from delta_store.log.journal_reader import SHARD, app_id_of
from delta_store.log.log_repair import ASIDE, repair_messages, torn_of_log
from delta_store.log.torn_log import can_be_read, relied_version, whole_up_to
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Storage
from delta_store.typed.table_folders import DEAD_LETTERS
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import HEADS_FOLDER, JOURNAL_FOLDER, LOG_FOLDER, MESSAGES_FOLDER, REMOVED_FOLDER


class Step(NamedTuple):
    """One planned repair."""

    table: str
    what: str
    why: str
    do: Callable[[], object]


class Planner(NamedTuple):
    """What repairs need to know."""

    data: DataLocation
    clock: Clock
    horizon_seconds: float

    def plan(self, *, accept_lost_journal: bool) -> list[Step]:
        """Return the possible repairs, in their order, and do none. Damage that stays is not included."""
        of_messages = self._in_folder if self.data.is_local else self._in_store
        return [
            *self._for_journal(accept_lost=accept_lost_journal),
            *of_messages(),
            *self._for_heads(),
            *self._for_typed(),
        ]

    def _storage(self, table: str) -> Storage:
        return open_storage(self.data.table(table), self.data.options)

    def _for_journal(self, *, accept_lost: bool) -> Iterator[Step]:
        storage = self._storage(JOURNAL_FOLDER)
        claim = partial(_claim_journal, storage, self.clock)
        try:
            log = journal_log.load(storage, app_id_of(SHARD))
        except DamagedData:
            return
        if log.state.version < 0:
            messages = SettledTable(self.data.table(MESSAGES_FOLDER), storage_options=self.data.options)
            if accept_lost and messages.refresh().version >= 0:
                why = "the journal is gone: what was acknowledged and not settled is lost, its sequences are given anew"
                yield Step(JOURNAL_FOLDER, "begin a new journal", why, claim)
        elif log.damaged:
            yield Step(JOURNAL_FOLDER, "write a new checkpoint", _made_up_for(log.damaged), claim)

    def _in_folder(self) -> Iterator[Step]:
        table = self.data.folder / MESSAGES_FOLDER
        if not table.is_dir():
            return
        relied = relied_version(self.data.folder)
        try:
            end = whole_up_to(table, relied, can_be_read)
        except DamagedData:
            return
        if end < 0 and relied is None:
            return
        torn = [table] if end < 0 else torn_of_log(table, end)
        if torn:
            why = f"whole up to version {end}; the journal has every row behind it, which is settled again"
            names = ", ".join(path.name for path in reversed(torn))
            set_aside = partial(_set_aside, self.data.folder, self.clock)
            yield Step(MESSAGES_FOLDER, f"set aside {names} in {ASIDE}", why, set_aside)

    def _in_store(self) -> Iterator[Step]:
        storage = self._storage(MESSAGES_FOLDER)
        try:
            log = messages_log.load(storage)
        except DamagedData:
            return
        if log.damaged:
            claim = partial(_claim_messages, storage, self.clock, self.horizon_seconds)
            yield Step(MESSAGES_FOLDER, "write a new checkpoint", _made_up_for(log.damaged), claim)
        lists = [path_of(name) for name in storage.sizes(LOG_FOLDER) if is_files_name(name)]
        if damaged := tuple(name for name in lists if unreadable(storage, name)):
            yield Step(
                MESSAGES_FOLDER, "delete lists of files", _made_up_for(damaged), partial(storage.delete, damaged)
            )

    def _for_heads(self) -> Iterator[Step]:
        """Make both tables anew where one is damaged; ``messages`` must be whole by then."""
        if findings := look_at_heads(self.data).findings:
            why = f"{findings[0].file}: {findings[0].what}; both are made of messages"
            make = partial(_make_heads, self.data, self.clock, self.horizon_seconds)
            yield Step(HEADS_FOLDER, f"make it anew, with {REMOVED_FOLDER}", why, make)

    def _for_typed(self) -> Iterator[Step]:
        """Delete damaged typed tables, which the settle job makes anew; ``messages`` must be whole by then."""
        damaged: dict[str, Finding] = {}
        for one in look_at_typed(self.data).findings:
            damaged.setdefault(one.table.removesuffix(DEAD_LETTERS), one)
        for folder, one in damaged.items():
            why = f"{one.file}: {one.what}; the settle job makes it anew out of messages"
            delete = partial(_delete, self.data, folder, folder + DEAD_LETTERS)
            yield Step(folder, "delete it, with its dead letters", why, delete)


def _make_heads(data: DataLocation, clock: Clock, horizon_seconds: float) -> None:
    _delete(data, HEADS_FOLDER, REMOVED_FOLDER)
    owner = SettledOwner.open(
        open_storage(data.table(MESSAGES_FOLDER), data.options), clock=clock, horizon_seconds=horizon_seconds
    )
    owner.claim()
    HeadTables.open(owner, clock=clock).follow()


def _delete(data: DataLocation, *tables: str) -> None:
    """Delete tables, their newest log entries first."""
    for name in tables:
        storage = open_storage(data.table(name), data.options)
        storage.delete(sorted((path_of(entry) for entry in storage.sizes(LOG_FOLDER)), reverse=True))
        storage.delete([file.name for file in storage.walk()])


def _made_up_for(damaged: tuple[str, ...]) -> str:
    return f"damaged: {', '.join(damaged)}; the log's entries make up for it"


def _claim_journal(storage: Storage, clock: Clock) -> None:
    Journal.open(storage, shard=SHARD, clock=clock).claim()


def _claim_messages(storage: Storage, clock: Clock, horizon_seconds: float) -> None:
    SettledOwner.open(storage, clock=clock, horizon_seconds=horizon_seconds).claim()


def _set_aside(folder: Path, clock: Clock) -> None:
    repair_messages(folder, now_ns=clock.now_ns())
