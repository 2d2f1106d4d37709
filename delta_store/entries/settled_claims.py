"""Rules that check a commit to ``messages`` against its note, for readers and before the journal is truncated. Pure.

A note claims how many rows its commit adds, stream by stream, how many the table has then, and up to where each stream
is settled. It is checked against the ``add`` actions of the entry, the table's files and the commit before. Each rule
returns the fault as text, or None. Invariant: nothing that a healthy settle job of any version writes is a fault; a
note without claims is checked by the other rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from delta_store.entries.journal_state import settled_files
from delta_store.entries.log_entry import JournalFile
from delta_store.values.watermark import CommitNote, Op, Watermarks


class AddedRows(NamedTuple):
    """The rows of one stream in the files that a commit added."""

    rows: int
    last_seq: int | None
    """The highest sequence among them; None without statistics."""


Added = Mapping[str, AddedRows]


def fault_of_entry(note: CommitNote, added: Added) -> str | None:
    """Check the files that an entry adds against its note."""
    if note.claim is None or note.op is not Op.APPEND:
        return None
    if {name: one.rows for name, one in added.items()} != note.claim.added:
        found, claimed = sum(one.rows for one in added.values()), sum(note.claim.added.values())
        return f"it adds {found} rows ({_streams(added)}) where its note says {claimed} ({_streams(note.claim.added)})"
    return None if note.claim.repeats else _ahead_of_rows(note, added)


def fault_of_step(
    note: CommitNote | None, streams: Iterable[str], marks: Watermarks, rows: tuple[int, int]
) -> str | None:
    """Check a commit against the one before it.

    ``streams`` are those that it adds rows of, ``marks`` the watermarks before it, ``rows`` the number of the table's
    rows before and after it.
    """
    before, after = rows
    if note is None:
        return None if before == after else f"it takes the table from {before} rows to {after} and has no note"
    if fault := _fault_of_marks(note, set(streams), marks):
        return fault
    if note.claim is not None and note.claim.rows != after:
        return f"the table has {after} rows after it where its note says {note.claim.rows}"
    if (note.op is Op.COMPACT and before != after) or (note.op is Op.LIMITS and before < after):
        return f"it takes the table from {before} rows to {after}, which is not what {note.op.value} does"
    return None


def fault_of_table(note: CommitNote | None, rows: int) -> str | None:
    """Check the number of rows of a table at some version against its newest note."""
    if note is None or note.claim is None or note.claim.rows == rows:
        return None
    return f"its files have {rows} rows where its newest note says {note.claim.rows}"


def fault_of_append(note: CommitNote, added: Added, journal: Sequence[JournalFile]) -> str | None:
    """Check the files of an append, by their own content, against the journal files that it settled.

    ``journal`` are those of the files that are still there. Called before they are truncated.
    """
    claim = note.claim
    if fault := fault_of_entry(note, added):
        return fault
    repeats = claim is not None and claim.repeats > 0
    if not repeats and (fault := _ahead_of_rows(note, added)):
        return fault
    left_out = claim.left_out if claim is not None else 0
    found, expected = sum(one.rows for one in added.values()), sum(file.rows for file in journal)
    if found + left_out < expected:
        return f"it settled {expected} rows of the journal and its files have {found}"
    return None


def settled_by(files: Sequence[JournalFile], notes: Sequence[CommitNote]) -> list[list[JournalFile]]:
    """Return the journal files that each commit settled: the first commit whose watermarks cover a file.

    Both are in order, oldest first: whole files are settled, in the order of the journal.
    """
    shares: list[list[JournalFile]] = []
    start = 0
    for note in notes:
        settled = {name: mark.position for name, mark in note.watermarks.items()}
        stop = start
        while stop < len(files) and settled_files(files[stop : stop + 1], settled):
            stop += 1
        shares.append(list(files[start:stop]))
        start = stop
    return shares


def _fault_of_marks(note: CommitNote, streams: AbstractSet[str], marks: Watermarks) -> str | None:
    for name, mark in marks.items():
        now = note.watermarks.get(name)
        if now is None or now.position < mark.position:
            return f"its watermark of stream {name!r} is behind the one before it"
    moved = {name for name, mark in note.watermarks.items() if name not in marks or mark != marks[name]}
    if moved and note.op is not Op.APPEND:
        return f"it moves the watermark of stream {min(moved)!r} and appends nothing"
    if note.claim is not None and not note.claim.repeats and moved - streams:
        return f"it moves the watermark of stream {min(moved - streams)!r} and adds no row of it"
    return None


def _ahead_of_rows(note: CommitNote, added: Added) -> str | None:
    """Check that no watermark is beyond the last row that the commit adds of its stream."""
    for name, one in added.items():
        mark = note.watermarks.get(name)
        if mark is None:
            return f"it adds rows of stream {name!r} and has no watermark of it"
        if one.last_seq is not None and one.last_seq < mark.seq:
            return f"its watermark of stream {name!r} is {mark.seq}, the rows that it adds end at {one.last_seq}"
    return None


def _streams(named: Iterable[str]) -> str:
    names = sorted(named)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
