"""Both tables behind one interface, for tests of what their owners have in common: one message after another."""

from collections.abc import Callable
from typing import Any, NamedTuple

from conf.clock import Clock
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import JournalReader
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.storage import Storage
from tests.groups import SHARD, group, live_rows, message, sequences, settled_to
from tests.staged import settle

HORIZON_SECONDS = 100.0


class OwnedTable(NamedTuple):
    """One of the tables; an owner is a ``Journal`` or a ``SettledOwner``."""

    name: str
    open: Callable[[Storage, Clock], Any]
    """Open without a claim."""
    commit: Callable[[Any, int], int]
    """Commit the message with this sequence."""
    read: Callable[[Storage], list[int]]
    """Return the sequences in the table."""
    checkpoint: Callable[[Any], Any]
    clean: Callable[[Any], Any]
    """Delete the log entries that nobody needs after 100 seconds."""

    def claimed(self, storage: Storage, clock: Clock) -> Any:
        """Open and claim."""
        owner = self.open(storage, clock)
        owner.claim()
        return owner


def _open_journal(storage: Storage, clock: Clock) -> Journal:
    return Journal.open(storage, shard=SHARD, clock=clock)


def _clean_journal(journal: Journal) -> None:
    journal.truncate(settled_to(1 << 40))
    journal.cleanup()


def _open_messages(storage: Storage, clock: Clock) -> SettledOwner:
    return SettledOwner.open(storage, clock=clock, horizon_seconds=HORIZON_SECONDS)


def _read_messages(storage: Storage) -> list[int]:
    settled = SettledTable(storage.uri, storage_options=storage.options)
    found = settled.columns(settled.refresh().files.values(), ["seq"])
    return [] if found is None else sorted(found["seq"].to_pylist())


TABLES = (
    OwnedTable(
        "journal",
        _open_journal,
        lambda journal, seq: journal.commit(group(seq)),
        lambda storage: sequences(live_rows(JournalReader.read_only(storage, shard=SHARD))),
        lambda journal: journal.checkpoint(),
        _clean_journal,
    ),
    OwnedTable(
        "messages",
        _open_messages,
        lambda owner, seq: settle(owner, [message(seq)]),
        _read_messages,
        lambda owner: owner.upkeep(),
        lambda owner: owner.vacuum(),
    ),
)
