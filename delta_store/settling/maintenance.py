"""Maintenance of ``messages``: dead rows deleted, small files merged, old files and log entries cleaned up.

It runs in the settle process, between batches, because ``messages`` has one committer. Checkpoints and log cleanup are
Delta's own, after every so many commits and by the table's retention, which is the history horizon.

Order of deletion: an evicting message never leaves the table before the message it evicted. Files that lie wholly below
a stream's first sequence may leave alone (all in them is dead by the watermark); all other dead rows go in one commit.
"""

from collections.abc import Sequence
from functools import partial

from conf.clock import Clock
from conf.log import log
from delta_store.settling.messages_table import FolderFiles, MessagesTable
from delta_store.settling.settle_batch import Progress, SettleBatch
from delta_store.settling.upkeep_pace import Schedule, UpkeepPace
from delta_store.transforms.consumer_rows import dead_consumer_rows
from delta_store.transforms.live_rows import dead_at
from delta_store.transforms.stream_heads import ended_incarnations, existing_streams, live_bounds, superseded_events
from delta_store.values.watermark import Claim, CommitNote, Op

SMALL_FILE_BYTES = 16 * 1024 * 1024
SMALL_FILES_MIN = 16
"""Least number of small files in a folder that are merged."""
FOLDERS_NAMED_MAX = 64
"""Folders that a merge names; if more are due, it covers the whole table."""


class Maintenance:
    """The maintenance job; each round is bounded by the table's size, and logged."""

    def __init__(self, table: MessagesTable, settle: SettleBatch, *, schedule: Schedule, clock: Clock) -> None:
        self._table = table
        self._settle = settle
        self._clock = clock
        self._pace = UpkeepPace(schedule, clock.monotonic())

    def run_due(self) -> None:
        """Wait for the running batch, then do what is due."""
        with self._settle.lock:
            progress = self._settle.progress()
            began = self._clock.monotonic()
            if self._pace.rests(began):
                return
            try:
                self._delete_dead(progress, all_of_it=self._pace.round_due(began))
                if self._pace.round_due(began):
                    self.compact(progress)
                if self._pace.vacuum_due(began):
                    self._table.vacuum()
            finally:
                self._pace.ended(began, self._clock.monotonic())

    def _delete_dead(self, progress: Progress, *, all_of_it: bool) -> None:
        debt = progress.debt
        if all_of_it or debt.front_pays:
            self.drop_dead_files(progress)
        if debt.scattered_pays or (all_of_it and debt.scattered):
            self.delete_dead_rows(progress)
        if debt.consumers_pay or (all_of_it and debt.consumer_rows):
            self.delete_consumer_rows(progress)

    def drop_dead_files(self, progress: Progress) -> int:
        """Remove the files of which every message is dead, without reading them; return how many rows they held."""
        live = {
            row["stream"] for row in self._table.event_rows().transform(existing_streams).select("stream").collect()
        }
        fronts = {
            stream: (mark.stream_id, mark.first_seq) if stream in live else (mark.stream_id + 1, 0)
            for stream, mark in progress.watermarks.items()
        }
        dropped = self._table.drop_message_files(fronts, partial(_note, progress, Op.LIMITS))
        progress.rows -= dropped
        progress.debt.note_dropped(dropped, progress.watermarks)
        if dropped:
            log.info("dead files dropped", rows=dropped)
        return dropped

    def delete_dead_rows(self, progress: Progress) -> None:
        """Apply every recorded effect up to the watermark, and delete events that nothing needs any more."""
        self.drop_dead_files(progress)
        rows, events = self._table.rows(), self._table.event_rows()
        bounds = events.transform(existing_streams).transform(live_bounds(None))
        dead = rows.transform(dead_at(bounds, events.transform(ended_incarnations)))
        old_ns = self._clock.now_ns() - round(2 * self._pace.schedule.horizon_seconds * 1e9)
        dead = dead.unionByName(events.transform(superseded_events(old_ns)))
        progress.rows -= self._table.delete_rows(dead, partial(_note, progress, Op.LIMITS))
        progress.debt.note_rewritten(progress.rows)
        log.info("dead rows deleted", rows_left=progress.debt.rows)

    def delete_consumer_rows(self, progress: Progress) -> None:
        """Delete superseded rows of consumers, reading no other files."""
        consumers = self._table.event_rows(of_consumers=True)
        dead = consumers.transform(dead_consumer_rows(self._table.event_rows()))
        progress.rows -= self._table.delete_rows(dead, partial(_note, progress, Op.LIMITS), of_consumers=True)
        progress.debt.note_consumers_rewritten()
        log.info("superseded consumer rows deleted")

    def compact(self, progress: Progress) -> int:
        """Merge the small files of folders that have many; return how many folders."""
        folders = [one for one in self._table.folders(SMALL_FILE_BYTES) if one.small_files >= SMALL_FILES_MIN]
        if folders:
            where = _choosing(folders) if len(folders) <= FOLDERS_NAMED_MAX else None
            self._table.compact(where, _note(progress, Op.COMPACT, 0))
            log.info("small files merged", folders=len(folders), files=sum(one.small_files for one in folders))
        return len(folders)


def _note(progress: Progress, op: Op, deleted: int) -> CommitNote:
    return CommitNote(op, progress.note.watermarks, progress.note.batch, Claim(progress.rows - deleted, {}))


def _choosing(folders: Sequence[FolderFiles]) -> str:
    return " OR ".join(
        f"(stream = {_quoted(one.stream)} AND subject_partition = {_quoted(one.subject_partition)})" for one in folders
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
