"""Verification of a whole store, in a folder or an object store; writes nothing and takes no lock.

Both tables are pinned as readers pin them, the journal first, so it may run beside a gateway and a settle job.
"""

from collections.abc import Callable, Iterator

from conf.data_location import DataLocation
from delta_store.checking import verify_journal, verify_messages
from delta_store.checking.verify_heads import look_at_heads
from delta_store.checking.verify_journal import JournalLook
from delta_store.checking.verify_messages import MessagesLook, MessagesPlace
from delta_store.checking.verify_typed import look_at_typed
from delta_store.entries.findings import Finding, Report, Severity, finding
from delta_store.entries.tables_agree import fault_between, fault_of_chain, fault_of_lost_journal, held_by
from delta_store.storage.open_storage import open_storage
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER

Told = Callable[[str, int, int], None]
"""Called with what is being verified, the number of files done, and of all files."""
_LOST = "bring it back from a backup, or go on without it: silt repair --accept-lost-journal"


def verify_store(data: DataLocation, told: Told = lambda *_: None) -> Report:
    """Verify all tables. Raises ``OSError``, ``StorageError`` or ``StoreAway`` where they can't be read at all."""
    told("log of the journal", 0, 1)
    storage, place = open_storage(data.table(JOURNAL_FOLDER), data.options), MessagesPlace.of(data)
    names = {name for name in storage.sizes("") if name.endswith(".parquet")}
    journal = verify_journal.look_at_log(storage)
    told("log of messages", 0, 1)
    messages = verify_messages.look_at_log(place)
    found, mirrors = [*journal.findings, *messages.findings], set[str]()
    files = verify_journal.files_to_look_at(journal)
    for number, file in enumerate(files):
        told("journal", number, len(files))
        found += _some(verify_journal.look_at_file(storage, file, mirrors))
    settled = [] if messages.snapshot is None else list(messages.snapshot.files.values())
    for number, one in enumerate(settled):
        told("messages", number, len(settled))
        found += _some(verify_messages.look_at_file(place, one, messages, mirrors))
    found += _between(journal, messages, mirrors)
    found += verify_journal.left_over(storage, journal, names)
    found += verify_messages.left_over(place, messages)
    told("heads and removed", 0, 1)
    heads = look_at_heads(data)
    told("typed tables", 0, 1)
    typed = look_at_typed(data)
    seen = (verify_journal.seen(journal), verify_messages.seen(messages), *heads.seen, *typed.seen)
    return Report(seen, (*found, *heads.findings, *typed.findings))


def _between(journal: JournalLook, messages: MessagesLook, mirrors: set[str]) -> Iterator[Finding]:
    """Find faults between the tables, if both can be relied on."""
    if journal.state is None or messages.snapshot is None:
        return
    marks = messages.snapshot.watermarks
    if fault_of_lost_journal(journal.state.version, marks):
        what = f"it is gone, while messages holds what was settled of {len(marks)} streams"
        yield finding(Severity.DAMAGE, JOURNAL_FOLDER, "", what, advice=_LOST)
        return
    files = verify_journal.files_to_look_at(journal)
    for table, fault in (
        (MESSAGES_FOLDER, fault_between(marks, held_by(files), skipping=mirrors)),
        (JOURNAL_FOLDER, fault_of_chain(files, skipping=mirrors)),
    ):
        if fault is not None:
            yield finding(Severity.DAMAGE, table, "", fault)


def _some(one: Finding | None) -> list[Finding]:
    return [] if one is None else [one]
