"""Repairs of a data folder that lose nothing; the caller holds both locks.

A damaged checkpoint is made anew from the log, and a torn end of ``messages`` that the journal does not rely on is set
aside, because the journal still has every row of it. Whatever is taken out of a table is kept beside it. A lost journal
is begun anew only on request: what it held beyond ``messages`` is lost.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from conf.clock import Clock
from delta_store.journal.journal import Journal
from delta_store.log import journal_log
from delta_store.log.journal_reader import app_id_of
from delta_store.log.log_repair import ASIDE, repair_messages, torn_of_log
from delta_store.log.torn_log import SHARD, can_be_read, listed, relied_version, whole_up_to
from delta_store.reading.settled import SettledTable
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER


class Step(NamedTuple):
    """One planned repair."""

    table: str
    what: str
    why: str
    do: Callable[[], object]


def plan_repair(data: Path, clock: Clock, *, accept_lost_journal: bool) -> list[Step]:
    """Return the possible repairs, in their order, and do none. Damage that stays is not included."""
    return [*_for_journal(data, clock, accept_lost=accept_lost_journal), *_for_messages(data, clock)]


def _for_journal(data: Path, clock: Clock, *, accept_lost: bool) -> list[Step]:
    storage = LocalStorage(data / JOURNAL_FOLDER)

    def claim() -> None:
        Journal.open(storage, shard=SHARD, clock=clock).claim()

    try:
        log = journal_log.load(storage, app_id_of(SHARD))
    except DamagedData:
        return []
    if log.state.version < 0:
        lost = accept_lost and listed(data / MESSAGES_FOLDER) and SettledTable(str(data / MESSAGES_FOLDER)).refresh()
        why = "the journal is gone: what was acknowledged and not settled is lost, and its sequences are given anew"
        return [Step(JOURNAL_FOLDER, "begin a new journal", why, claim)] if lost else []
    if log.damaged:
        why = f"damaged: {', '.join(log.damaged)}; the log's entries make up for it"
        return [Step(JOURNAL_FOLDER, "write a new checkpoint", why, claim)]
    return []


def _for_messages(data: Path, clock: Clock) -> list[Step]:
    table = data / MESSAGES_FOLDER
    if not table.is_dir():
        return []
    relied = relied_version(data)
    try:
        end = whole_up_to(table, relied, can_be_read)
    except DamagedData:
        return []
    if end < 0 and relied is None:
        return []
    torn = [table] if end < 0 else torn_of_log(table, end)
    if not torn:
        return []
    why = f"whole up to version {end}; the journal has every row behind it, which is settled again"
    names = ", ".join(path.name for path in reversed(torn))
    what = f"set aside {names} in {ASIDE}"
    return [Step(MESSAGES_FOLDER, what, why, lambda: repair_messages(data, now_ns=clock.now_ns()))]
