"""The sink of the settle job: one batch of journal rows into ``messages``.

The position is the watermark in ``messages``, never Spark's checkpoint: rows at or below it are skipped, rows behind a
gap stop the job, and a batch is appended once, whatever is killed between. Invariant: a commit's watermark covers
exactly the rows that are in the table after it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from conf.limits import SETTLE_ROWS_PER_TASK
from conf.log import log
from delta_store.entries.settled_claims import fault_of_table
from delta_store.settling.messages_table import MessagesTable
from delta_store.settling.msg_id_guard import Int64s, MsgIdGuard, as_int64s
from delta_store.settling.settle_debt import Debt
from delta_store.transforms.batch_rows import above, gaps_behind, once, summarise_runs
from delta_store.transforms.consumer_rows import newest_of_consumers
from delta_store.transforms.msg_id_window import dedup_window
from delta_store.transforms.row_order import is_kind, position
from delta_store.transforms.settled_rows import laid_out, settled_columns
from delta_store.values.folder_layout import FolderLayout
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Kind
from delta_store.values.schemas import CONSUMERS_PARTITION
from delta_store.values.watermark import Care, Claim, CommitNote, JournalGap, Op, Run, Watermark, advance, care_for

FOLDER_BYTES_MAX = 240
"""Longest percent-encoded stream name that can be a folder on any file system."""


class DamagedRows(Exception):
    """Rows of the journal do not match their checksums: they are not settled."""


@dataclass(slots=True)
class Progress:
    """The state of settling; read from the table at the start and after every error."""

    note: CommitNote
    layout: FolderLayout
    debt: Debt
    windows_ns: dict[str, int]
    """Each stream's ``duplicate_window``."""
    rows: int = 0
    """Rows in the table."""
    mirrors: set[str] = field(default_factory=set)
    """The streams whose sequences may have gaps."""
    guard: MsgIdGuard = field(default_factory=MsgIdGuard)

    @property
    def watermarks(self) -> dict[str, Watermark]:
        """How far each stream is settled."""
        return dict(self.note.watermarks)

    def learn(self, told: "Sequence[_Told]") -> None:
        """Apply the settings of STREAM rows, in their order."""
        self.windows_ns |= {one.stream: one.window_ns for one in told}
        for one in told:
            (self.mirrors.add if one.is_mirror else self.mirrors.discard)(one.stream)


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One stream incarnation in a batch, see :func:`delta_store.transforms.batch_rows.summarise_runs`."""

    run: Run
    events: int
    evictions: int
    removals: int
    ids: int
    damaged: int
    consumer_rows: int
    consumer_keys: int
    consumer_bytes: int
    subjects: tuple[int, ...]

    @property
    def superseded(self) -> int:
        """About how many rows of consumers later ones of the batch supersede."""
        return self.consumer_rows - self.consumer_keys


class SettleBatch:
    """The ``foreachBatch`` function: settles one batch after the other, holding ``lock``."""

    def __init__(self, table: MessagesTable) -> None:
        self._table = table
        self._progress: Progress | None = None
        self._paused = False
        self.lock = Lock()
        self.batches = 0
        """Appended batches since this process started."""

    def progress(self) -> Progress:
        """Return the state of settling; the caller holds the lock."""
        if self._progress is None:
            self._progress = self._load()
        return self._progress

    def forget_position(self) -> None:
        """Read the position from the table again before the next batch."""
        self._progress = None

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Wait for the running batch; batches that come inside are skipped, for the next start to settle."""
        self._paused = True
        try:
            with self.lock:
                pass
            yield
        finally:
            self._paused = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Settle one batch; raise :class:`JournalGap`, :class:`DamagedRows` or what Spark raises."""
        del batch_id  # starts at 0 with each new checkpoint
        with self.lock:
            if self._paused:
                return
            rows = batch.persist(StorageLevel.MEMORY_AND_DISK)
            try:
                self._settle(rows)
            except BaseException:
                self.forget_position()
                raise
            finally:
                rows.unpersist()

    def _settle(self, rows: DataFrame) -> None:
        progress = self.progress()
        runs = _summary(rows)
        care = care_for((one.run for one in runs), progress.watermarks)
        if care is Care.NOTHING_NEW:
            return
        if care is Care.SIFT:
            rows, runs = self._sift(rows, progress)
        if damaged := sum(one.damaged for one in runs):
            raise DamagedRows(f"{damaged} rows of the journal do not match their checksums")
        if any(one.events for one in runs):
            progress.learn(_told(rows))
        marks = advance(progress.watermarks, (one.run for one in runs))
        kept, repeats = self._without_repeats(rows, runs, progress)
        if any(one.superseded for one in runs):
            kept = kept.transform(newest_of_consumers)
        with _counted(kept, runs, whole=kept is rows) as added:
            number = sum(added.values())
            left_out = sum(one.run.messages + one.events for one in runs) - number
            claim = Claim(progress.rows + number, added, left_out, repeats)
            self._append(kept, runs, CommitNote(Op.APPEND, marks, progress.note.batch + 1, claim), progress)

    def _append(self, rows: DataFrame, runs: Sequence[BatchRun], note: CommitNote, progress: Progress) -> None:
        assert note.claim is not None
        for one in runs:
            progress.layout.admit(one.run.stream, one.subjects)
            if len(one.run.stream.encode()) * 3 > FOLDER_BYTES_MAX:
                self._table.allow_long_folders()
        number = sum(note.claim.added.values())
        tasks = max(1, -(-number // SETTLE_ROWS_PER_TASK))
        exact = progress.layout.exact(one.run.stream for one in runs)
        self._table.append(rows.transform(settled_columns(exact)).transform(laid_out(tasks)), note)
        progress.note, progress.rows = note, note.claim.rows
        self.batches += 1
        scattered = sum(one.evictions + one.removals for one in runs)
        progress.debt.note_batch(number, scattered=scattered, watermarks=note.watermarks)
        for one in runs:
            weight = one.consumer_bytes * one.consumer_keys // max(1, one.consumer_rows)
            progress.debt.note_consumers(one.consumer_keys, weight)

    def _sift(self, rows: DataFrame, progress: Progress) -> tuple[DataFrame, list[BatchRun]]:
        """Return the batch's new rows, each once, and their runs; raise :class:`JournalGap` if rows are missing."""
        new = rows.transform(above(progress.watermarks)).transform(once)
        mirrors = progress.mirrors | {one.stream for one in _told(new) if one.is_mirror}
        gap = new.transform(gaps_behind(progress.watermarks, mirrors)).head(1)
        if gap:
            raise JournalGap(gap[0]["stream"], gap[0]["seq_before"], gap[0]["seq"])
        return new, _summary(new)

    def _without_repeats(self, rows: DataFrame, runs: Sequence[BatchRun], progress: Progress) -> tuple[DataFrame, int]:
        """Drop messages whose id is in their stream's window already; the gateway never lets one through.

        Returns the other rows, and how many were dropped.
        """
        if not any(one.ids for one in runs):
            return rows, 0
        hashes, times = _msg_ids(rows)
        repeated = progress.guard.may_repeat(hashes)
        longest = max(progress.windows_ns.values(), default=0)
        progress.guard.remember(hashes, times, window_ns=longest)
        if not repeated:
            return rows, 0
        recent = _bearing_ids(self._table.rows()).where(sf.col("ts_ns") > int(times.min()) - longest)
        kept = rows.transform(dedup_window(progress.windows_ns, recent)).persist(StorageLevel.MEMORY_AND_DISK)
        if dropped := rows.count() - kept.count():
            log.warning("messages with an id of their window dropped", messages=dropped)
        return kept, dropped

    def _load(self) -> Progress:
        table = self._table
        table.ensure()
        note = table.last_note()
        if note.batch == 0:
            return Progress(note, FolderLayout({}), Debt(0), {})
        folders = table.folders()
        partitions: dict[str, list[str]] = {}
        for folder in folders:
            partitions.setdefault(folder.stream, []).append(folder.subject_partition)
        rows = sum(folder.rows for folder in folders)
        if fault := fault_of_table(note, rows):
            raise DamagedData(table.path, fault)
        debt = Debt(rows)
        debt.note_batch(0, scattered=0, watermarks=note.watermarks)
        debt.note_consumers(sum(one.rows for one in folders if one.subject_partition == CONSUMERS_PARTITION), 0)
        progress = Progress(note, FolderLayout(partitions), debt, {}, rows)
        progress.learn(_told(table.event_rows()))
        longest = max(progress.windows_ns.values(), default=0)
        newest = max((folder.newest_ns for folder in folders), default=0)
        recent = table.rows().where(sf.col("ts_ns") > newest - longest)
        progress.guard.remember(*_msg_ids(recent), window_ns=longest)
        return progress


@contextmanager
def _counted(rows: DataFrame, runs: Sequence[BatchRun], *, whole: bool) -> Iterator[dict[str, int]]:
    """Count the rows of each stream: by the runs if ``whole``, else by Spark, with the rows persisted meanwhile."""
    if whole:
        totals: dict[str, int] = {}
        for one in runs:
            totals[one.run.stream] = totals.get(one.run.stream, 0) + one.run.messages + one.events
        yield totals
        return
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield {row["stream"]: row["count"] for row in kept.groupBy("stream").count().collect()}
    finally:
        kept.unpersist()


def _summary(rows: DataFrame) -> list[BatchRun]:
    return [
        BatchRun(
            Run(
                row.stream,
                row.stream_id,
                row.messages,
                row.seq_min,
                row.seq_max,
                tuple(row.first),
                tuple(row.last),
                row.last_first_seq,
            ),
            row.events,
            row.evictions,
            row.removals,
            row.ids,
            row.damaged,
            row.consumer_rows,
            row.consumer_keys,
            row.consumer_bytes,
            tuple(row.subjects),
        )
        for row in rows.transform(summarise_runs).collect()
    ]


def _bearing_ids(rows: DataFrame) -> DataFrame:
    return rows.where(is_kind(Kind.MESSAGE) & sf.col("msg_id").isNotNull())


def _msg_ids(rows: DataFrame) -> tuple[Int64s, Int64s]:
    """Return hash and time of each message with an id."""
    hashed = sf.xxhash64("stream", "stream_id", "msg_id").alias("hash")
    found = _bearing_ids(rows).select(hashed, "ts_ns").toArrow()
    return as_int64s(found["hash"]), as_int64s(found["ts_ns"])


@dataclass(frozen=True, slots=True)
class _Told:
    """The settings of a stream that settling needs, from a STREAM row."""

    stream: str
    window_ns: int
    """Its ``duplicate_window``."""
    is_mirror: bool


def _told(rows: DataFrame) -> list[_Told]:
    """Return the settings in the STREAM rows, in their order."""
    found = rows.where(is_kind(Kind.STREAM)).select("stream", position().alias("position"), "data").collect()
    found.sort(key=lambda row: row["position"])
    configs = [(row["stream"], json.loads(row["data"])["config"]) for row in found]
    return [_Told(name, int(one.get("duplicate_window", 0)), bool(one.get("mirror"))) for name, one in configs]
