"""Confirmation of settled rows before the journal is truncated: their commits did what their notes claim.

A watermark alone is only a claim. Here the footers of the Parquet files that the commits added, not the log's copy of
them, are checked against the notes and against the journal's files that are about to be removed.
"""

from collections.abc import Sequence

from delta_store.entries.journal_state import settled_files
from delta_store.entries.log_entry import JournalFile
from delta_store.entries.settled_claims import AddedRows, fault_of_append, settled_by
from delta_store.entries.settled_log import MessagesEntry, Snapshot
from delta_store.log.settled_durability import NotDurable
from delta_store.reading.settled import SettledTable
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.watermark import CommitNote, Op


def confirm_settled(settled: SettledTable, snapshot: Snapshot, journal: Sequence[JournalFile]) -> int:
    """Check every commit, up to a version of ``messages``, whose rows the journal still has.

    ``journal`` are its files, oldest first. Returns the number of commits checked; raises :class:`NotDurable`. Commits
    whose log entries cleanup has deleted are not checked.
    """
    files = settled_files(journal, {name: mark.position for name, mark in snapshot.watermarks.items()})
    if not files:
        return 0
    before, appends = _appends_since(settled, snapshot.version, files[0])
    shares = settled_by(files, [before, *(entry.note for entry in appends if entry.note is not None)])[1:]
    for entry, share in zip(appends, shares, strict=True):
        assert entry.note is not None
        if fault := fault_of_append(entry.note, _added(settled, entry), share):
            raise NotDurable(f"version {entry.version} of {settled.log.location} is damaged: {fault}")
    return len(appends)


def _appends_since(settled: SettledTable, newest: int, oldest: JournalFile) -> tuple[CommitNote, list[MessagesEntry]]:
    """Return the appends since the oldest of the journal's files was settled, oldest first, and the note before."""
    found: list[MessagesEntry] = []
    for version in range(newest, -1, -1):
        try:
            entry = settled.log.entry(version)
        except FileGone:
            first = found.pop() if found else None
            return (first.note if first is not None and first.note is not None else _NOTHING), found[::-1]
        if entry.note is None or entry.note.op is not Op.APPEND:
            continue
        if not settled_files([oldest], {name: mark.position for name, mark in entry.note.watermarks.items()}):
            return entry.note, found[::-1]
        found.append(entry)
    return _NOTHING, found[::-1]


def _added(settled: SettledTable, entry: MessagesEntry) -> dict[str, AddedRows]:
    """Count the rows of each stream in the files that a commit added, by their own footers."""
    found: dict[str, AddedRows] = {}
    for file in entry.added:
        path = settled.log.path_of(file)
        try:
            rows, last = settled.files.extent(path)
        except FileGone:  # compacted and vacuumed since: its log entry counts
            rows, last = file.rows, file.seq[1]
        except DamagedData as error:
            raise NotDurable(str(error)) from error
        if rows != file.rows:
            raise NotDurable(f"settled file {path} has {rows} rows, its log entry says {file.rows}")
        name = file.stream or ""
        before = found.get(name, AddedRows(0, 0))
        found[name] = AddedRows(before.rows + rows, max(before.last_seq or 0, last))
    return found


_NOTHING = CommitNote(Op.APPEND, {})
