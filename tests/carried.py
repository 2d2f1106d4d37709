"""Settling of unsettled rows with the bases of branches, without Spark: what the settle job does with both."""

from collections.abc import Iterable

from delta_store.entries.batch_layout import told_by
from delta_store.entries.batch_report import BatchReport
from delta_store.entries.staged_file import Writing
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.base_rows import with_bases
from delta_store.settling.staging import Staging
from delta_store.values.records import Kind, Row
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark
from tests.staged import stage


def unsettled(tail: JournalTail, owner: SettledOwner) -> list[Row]:
    """The rows of the journal that are not settled."""
    return [row for rows in rows_above(tail, tail.refresh(), owner.note.watermarks) for row in rows.rows()]


def settle_with_bases(owner: SettledOwner, rows: Iterable[Row], opened: str = "test") -> BatchReport:
    """Append rows, and what the branches among them begin with; return what was appended."""
    new = list(rows)
    writing = Writing(owner.epoch, owner.note.batch + 1)
    told = [told_by(row.position, row.stream, row.data) for row in new if row.kind == Kind.STREAM]
    report = BatchReport(tuple(stage(owner.storage, new, writing)), told=tuple(told))
    staging = Staging(owner.storage.uri, owner.storage.options, writing, frozenset(), opened)
    kept = with_bases(report, staging, owner.storage, owner.snapshot.files)
    marks = dict(owner.note.watermarks)
    for row in new:
        marks[row.stream] = Watermark(row.stream_id, row.seq, row.event_no, row.first_seq)
    number = sum(kept.added.values())
    claim = Claim(owner.snapshot.rows + number, kept.added, len(new) - number)
    owner.append(kept.files, CommitNote(Op.APPEND, marks, owner.note.batch + 1, claim))
    return kept
