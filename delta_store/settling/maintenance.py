"""Maintenance of ``messages``: dead rows deleted, small files merged, old files and log entries cleaned up.

It runs in the settle process, between batches, and commits as they do: files leave the table, others come. Rows are
never changed in place.

Order of deletion: an evicting message never leaves the table before the message it evicted. Files that lie wholly below
a stream's first sequence may leave alone (all in them is dead by the watermark); all other dead rows go in one commit.
What leaves was dead a while ago: whoever reads ``heads`` now, and the other tables a little later, finds all that it
tells of.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from conf.clock import Clock
from conf.log import log
from delta_store.entries.settled_log import DataFile
from delta_store.reading.settled_events import existing_in, told_in
from delta_store.settled.settled_before import Stood
from delta_store.settling.settle_batch import Progress, SettleBatch
from delta_store.settling.spark_session import is_remote
from delta_store.settling.staging import REWRITE_SCHEMA, Rewriting, staged
from delta_store.settling.upkeep_choice import dead_files, small_files
from delta_store.settling.upkeep_pace import Schedule, UpkeepPace
from delta_store.transforms.batch_rows import up_to
from delta_store.transforms.consumer_rows import dead_consumer_rows
from delta_store.transforms.live_rows import dead_at
from delta_store.transforms.row_order import ROW_KEY
from delta_store.transforms.stream_heads import ended_incarnations, existing_streams, live_bounds, superseded_events
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION
from delta_store.values.watermark import Op


class Maintenance:
    """The maintenance job; each round is bounded by the table's size, and logged."""

    def __init__(self, spark: SparkSession, settle: SettleBatch, *, schedule: Schedule, clock: Clock) -> None:
        self._spark = spark
        self._settle = settle
        self._clock = clock
        self._pace = UpkeepPace(schedule, clock.monotonic())
        self._grace_seconds = schedule.grace_seconds
        self._batch_seen = -1
        """The last batch of which all is deleted, where the batches run in another process, which knows their debt."""

    def run_due(self) -> None:
        """Wait for the running batch, then do what is due."""
        with self._settle.lock, self._settle.guarded():
            progress = self._settle.progress()
            progress.owner.upkeep()
            progress.heads.maintain()
            progress.typed.maintain()
            began = self._clock.monotonic()
            if self._pace.rests(began):
                return
            try:
                self._delete_dead(progress, all_of_it=self._pace.round_due(began))
                if self._pace.round_due(began):
                    self.compact(progress)
                if self._pace.vacuum_due(began):
                    progress.owner.vacuum()
                    progress.heads.vacuum()
                    progress.typed.vacuum()
            finally:
                self._pace.ended(began, self._clock.monotonic())

    def finish(self) -> None:
        """Bring the tables beside ``messages`` to where it is, before the process ends."""
        with self._settle.lock, self._settle.guarded():
            self._settle.progress().typed.finish()

    def is_due(self) -> bool:
        """Whether it is time for a round, or to vacuum."""
        now = self._clock.monotonic()
        return self._pace.round_due(now) or self._pace.vacuum_due(now)

    def _delete_dead(self, progress: Progress, *, all_of_it: bool) -> None:
        debt, newest = progress.debt, (progress.watermarks, progress.owner.snapshot.version)
        if all_of_it or debt.front_pays(newest[0]) or debt.scattered_pays(newest[1]):
            then = self._stood(progress)
            if then is not None and (all_of_it or debt.front_pays(then.marks)):
                self.drop_dead_files(progress)
            if then is not None and (debt.scattered_pays(then.version) or (all_of_it and self._any_scattered(then))):
                self.delete_dead_rows(progress)
        if debt.consumers_pay or (all_of_it and debt.consumer_rows):
            self.delete_consumer_rows(progress)

    def _any_scattered(self, then: Stood) -> bool:
        """Whether there may be dead rows; of those of batches that other processes settle, this one knows no debt."""
        if is_remote(self._spark):
            seen, self._batch_seen = self._batch_seen, then.batch
            return seen != then.batch
        return self._settle.progress().debt.scattered(then.version) > 0

    def _stood(self, progress: Progress) -> Stood | None:
        """Return where the table stood when what was dead may be deleted now; None when that is not known."""
        owner = progress.owner
        if not self._grace_seconds:
            return Stood(owner.snapshot.version, owner.note.batch, progress.watermarks)
        return progress.before.ago(self._grace_seconds, newest=owner.snapshot.version)

    def drop_dead_files(self, progress: Progress) -> int:
        """Remove the files of which every message is dead, without reading them; return how many rows they held."""
        events = self._settle.events(progress)
        live = existing_in(events)
        progress.owner.horizons.know((one.stream, one.history_ns) for one in told_in(events) if one.stream in live)
        then = self._stood(progress)
        if then is None:
            return 0
        marks = then.marks
        live = existing_in(one for one in events if one.stream in marks and one.position <= marks[one.stream].position)
        fronts = {
            stream: (mark.stream_id, mark.first_seq) if stream in live else (mark.stream_id + 1, 0)
            for stream, mark in marks.items()
        }
        dead = dead_files(progress.owner.snapshot.files.values(), fronts)
        dropped = sum(file.rows for file in dead)
        if dead:
            progress.owner.rewrite(Op.LIMITS, {file.path for file in dead}, deleted=dropped)
            log.info("dead files dropped", rows=dropped)
        progress.debt.note_dropped(dropped, marks)
        return dropped

    def delete_dead_rows(self, progress: Progress) -> None:
        """Apply every effect that was recorded a while ago, and delete events that nothing needs any more."""
        then = self._stood(progress)
        if then is None:
            return
        self.drop_dead_files(progress)
        rows = self._settle.rows(self._spark)
        known = rows if then.marks == progress.watermarks else rows.transform(up_to(then.marks))
        events = known.where(sf.col("subject_partition") == EVENTS_PARTITION)
        bounds = events.transform(existing_streams).transform(live_bounds(None))
        dead = known.transform(dead_at(bounds, events.transform(ended_incarnations)))
        old_ns = self._clock.now_ns() - round(2 * progress.owner.horizons.longest * 1e9)
        dead = dead.unionByName(events.transform(superseded_events(old_ns)))
        self._delete(progress, rows.where(sf.col("subject_partition") != CONSUMERS_PARTITION), dead)
        progress.debt.note_rewritten(progress.owner.snapshot.rows, version=then.version)
        progress.heads.maintain(applied=then.version)
        log.info("dead rows deleted", rows_left=progress.debt.rows)

    def delete_consumer_rows(self, progress: Progress) -> None:
        """Delete superseded rows of consumers, reading no other files."""
        rows = self._settle.rows(self._spark)
        events = rows.where(sf.col("subject_partition") == EVENTS_PARTITION)
        consumers = rows.where(sf.col("subject_partition") == CONSUMERS_PARTITION)
        self._delete(progress, consumers, consumers.transform(dead_consumer_rows(events)))
        progress.debt.note_consumers_rewritten()
        log.info("superseded consumer rows deleted")

    def compact(self, progress: Progress) -> int:
        """Merge the small files of folders that have many, recent messages into their subjects'; return how many."""
        chosen = small_files(progress.owner.snapshot.files.values())
        if chosen:
            named = [{"file": PurePosixPath(file.path).name, "dead": []} for file in chosen]
            work = self._spark.createDataFrame(pa.Table.from_pylist(named, REWRITE_SCHEMA))
            self._rewrite(progress, Op.COMPACT, chosen, work)
            log.info("small files merged", files=len(chosen))
        return len(chosen)

    def _delete(self, progress: Progress, rows: DataFrame, dead: DataFrame) -> None:
        """Delete the rows with these keys in one commit; each is there once, which rewriting checks."""
        place = sf.struct("stream_id", "seq", "event_no")
        named = rows.select(*ROW_KEY, sf.col("_metadata.file_name").alias("file"))
        held = named.join(dead, on=list(ROW_KEY), how="left_semi").groupBy("file").agg(
            sf.collect_list(place).alias("dead")
        )  # fmt: skip
        work = held if is_remote(self._spark) else held.persist()  # serverless compute has no cache
        try:
            names = {row["file"] for row in work.select("file").collect()}
            files = progress.owner.snapshot.files.values()
            if gone := [file for file in files if PurePosixPath(file.path).name in names]:
                self._rewrite(progress, Op.LIMITS, gone, work)
        finally:
            if work.is_cached:
                work.unpersist()

    def _rewrite(self, progress: Progress, op: Op, gone: Iterable[DataFile], work: DataFrame) -> None:
        """Replace files by what is left of their rows."""
        files = {PurePosixPath(file.path).name: file for file in gone}
        staging = self._settle.staging(progress)
        if op is Op.COMPACT:
            staging = staging._replace(spread_rows_min=1)
        places = {name: (file.path, file.stream or "", file.subject_partition or "") for name, file in files.items()}
        added = staged(work, Rewriting(staging, places)).files
        deleted = sum(file.rows for file in files.values()) - sum(file.rows for file in added)
        progress.owner.rewrite(op, {file.path for file in files.values()}, added, deleted=deleted)
