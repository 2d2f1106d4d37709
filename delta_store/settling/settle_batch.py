"""The sink of the settle job: the rows of one batch of journal files into ``messages``.

Executors read and write the rows first and report what is in them; the decision comes after, and one commit makes the
files part of the table. A batch that can't be taken as it is leaves no file behind: Spark sifts its rows, and they are
written again.

The position is the watermark in ``messages``, never Spark's checkpoint: rows at or below it are skipped, rows behind a
gap stop the job, and a batch is appended once, whatever is killed between. Invariant: a commit's watermark covers
exactly the rows that are in the table after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from threading import Lock
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from conf.clock import SystemClock
from conf.log import log
from delta_store.entries.batch_columns import id_hashes
from delta_store.entries.batch_report import BatchReport, Told
from delta_store.entries.staged_file import Writing
from delta_store.heads.followed_heads import FollowedHeads
from delta_store.reading.settled_events import StreamEvent, stream_events, told_in
from delta_store.settled.settled_before import SettledBefore
from delta_store.settled.settled_owner import SettledOwner
from delta_store.settling.base_rows import with_bases
from delta_store.settling.journal_rows import JournalRows
from delta_store.settling.msg_id_guard import Int64s, MsgIdGuard, as_int64s
from delta_store.settling.settle_debt import Debt
from delta_store.settling.staging import Staging, staged
from delta_store.settling.typed_staging import TypedPlace
from delta_store.settling.typed_tables import TypedTables
from delta_store.storage.open_storage import open_storage
from delta_store.transforms.batch_rows import above, gaps_behind, once
from delta_store.transforms.msg_id_window import dedup_window
from delta_store.transforms.row_order import is_kind
from delta_store.values.folder_layout import FolderLayout
from delta_store.values.journal_errors import Fenced, StorageFull
from delta_store.values.records import Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, JOURNAL_FOLDER
from delta_store.values.watermark import Care, Claim, CommitNote, JournalGap, Op, Watermarks, advance, care_for


class DamagedRows(Exception):
    """Rows of the journal do not match their checksums: they are not settled."""


@dataclass(slots=True)
class Progress:
    """The state of settling; read from the table at the start and after every error."""

    owner: SettledOwner
    layout: FolderLayout
    debt: Debt
    typed: TypedTables
    heads: FollowedHeads
    before: SettledBefore
    windows_ns: dict[str, int] = field(default_factory=dict)
    """Each stream's ``duplicate_window``."""
    mirrors: set[str] = field(default_factory=set)
    """The streams whose sequences may have gaps."""
    guard: MsgIdGuard | None = None
    """Filled when the first batch with message ids comes."""
    opened: str = field(default_factory=token_hex)

    @property
    def watermarks(self) -> Watermarks:
        """How far each stream is settled."""
        return self.owner.note.watermarks

    @property
    def longest_window_ns(self) -> int:
        """The longest ``duplicate_window`` of all streams."""
        return max(self.windows_ns.values(), default=0)

    def learn(self, told: Sequence[Told]) -> None:
        """Apply the settings of STREAM rows, in their order."""
        self.typed.learn(told)
        for one in told:
            self.windows_ns[one.stream] = one.window_ns
            self.owner.horizons.learn(one.stream, one.history_ns)
            (self.mirrors.add if one.is_mirror else self.mirrors.discard)(one.stream)


class SettleBatch:
    """The ``foreachBatch`` function: settles one batch after the other, holding ``lock``.

    Made of plain values, so that it can be sent to the process that runs batches; the table is claimed there.
    """

    def __init__(self, location: str, *, options: Mapping[str, str] | None = None, horizon_seconds: float) -> None:
        """Settle into the table at ``location``, a folder or a URL with delta-rs's storage options."""
        self.location = location
        self.options = dict(options or {})
        self._data = location.rpartition("/")[0]
        self._journal = JournalRows(f"{self._data}/{JOURNAL_FOLDER}", self.options)
        self._horizon_seconds = horizon_seconds
        self._progress: Progress | None = None
        self._paused = False
        self.lock = Lock()
        self.batches = 0
        """Appended batches since this process started."""
        self.fenced: Fenced | None = None
        """Set once another job has claimed the table."""

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(SettleBatch, options=self.options, horizon_seconds=self._horizon_seconds), (self.location,)

    def progress(self) -> Progress:
        """Return the state of settling; the caller holds the lock. Raises :class:`Fenced`, once fenced for ever.

        A claim after that would fence the job which has the table by right.
        """
        if self.fenced is not None:
            raise self.fenced
        if self._progress is None:
            self._progress = self._load()
        return self._progress

    def forget_position(self) -> None:
        """Read the position from the table again before the next batch."""
        self._progress = None

    def staging(self, progress: Progress) -> Staging:
        """Return the writer of the next batch, or of a rewrite."""
        writing = Writing(progress.owner.epoch, progress.owner.note.batch + 1)
        return Staging(self.location, self.options, writing, progress.layout.bucketed, progress.opened)

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the newest version."""
        return spark.read.format("delta").load(self.location)

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

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Forget the position if what is done inside fails."""
        try:
            yield
        except BaseException as error:
            self.forget_position()
            self.fenced = error if isinstance(error, Fenced) else self.fenced
            raise

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Settle files; raise :class:`JournalGap`, :class:`DamagedRows`, what the table or Spark raises."""
        del batch_id  # starts at 0 with each new checkpoint
        with self.lock, self.guarded():
            if not self._paused:
                self._settle(batch)

    def _settle(self, files: DataFrame) -> None:
        progress = self.progress()
        report = self._stage(files, progress, journal=self._journal)
        care = care_for((one.run for one in report.runs), progress.watermarks)
        if care is not Care.AS_IT_IS:
            _discard(report, progress)
        if care is Care.NOTHING_NEW:
            return
        sifts = care is Care.SIFT
        if sifts:
            report = self._stage(self._rows(files, progress, sifts=True), progress)
        try:
            kept = self._checked(files, report, progress, sifted=sifts)
            owner = progress.owner
            kept = with_bases(kept, self.staging(progress), owner.storage, owner.snapshot.files)
        except BaseException:
            _discard(report, progress)
            raise
        self._append(kept, report, progress)

    def _rows(self, files: DataFrame, progress: Progress, *, sifts: bool) -> DataFrame:
        """Return the rows of a batch's files as Spark's; the new ones once each, if it ``sifts``."""
        rows = self._journal.of(files)
        return rows.transform(above(progress.watermarks)).transform(once) if sifts else rows

    def _checked(self, files: DataFrame, report: BatchReport, progress: Progress, *, sifted: bool) -> BatchReport:
        """Return what to append of new rows; raise :class:`JournalGap`, :class:`DamagedRows`."""
        if damaged := sum(one.damaged for one in report.runs):
            raise DamagedRows(f"{damaged} rows of the journal do not match their checksums")
        if sifted:
            mirrors = progress.mirrors | {one.stream for one in report.told if one.is_mirror}
            rows = self._rows(files, progress, sifts=True)
            if gap := rows.transform(gaps_behind(progress.watermarks, mirrors)).head(1):
                raise JournalGap(gap[0]["stream"], gap[0]["seq_before"], gap[0]["seq"])
        progress.learn(report.told)
        return self._without_repeats(files, report, progress, sifted=sifted)

    def _without_repeats(
        self, files: DataFrame, report: BatchReport, progress: Progress, *, sifted: bool
    ) -> BatchReport:
        """Drop messages whose id is in their stream's window already; the gateway never lets one through."""
        if not len(report.hashes):
            return report
        spark = files.sparkSession
        if progress.guard is None:
            progress.guard = self._guard(spark, progress)
        repeated = progress.guard.may_repeat(report.hashes)
        progress.guard.remember(report.hashes, report.times, window_ns=progress.longest_window_ns)
        if not repeated:
            return report
        since_ns = int(report.times.min()) - progress.longest_window_ns
        recent = _bearing_ids(self.rows(spark)).where(sf.col("ts_ns") > since_ns)
        rows = self._rows(files, progress, sifts=sifted)
        kept = self._stage(rows.transform(dedup_window(progress.windows_ns, recent)), progress)
        if dropped := report.rows - kept.rows:
            log.warning("messages with an id of their window dropped", messages=dropped)
        _discard(report, progress)
        return kept

    def _append(self, kept: BatchReport, report: BatchReport, progress: Progress) -> None:
        """Commit the files of ``kept``, which settle the rows of ``report``."""
        owner, added = progress.owner, kept.added
        number = sum(added.values())
        claim = Claim(owner.snapshot.rows + number, added, report.rows - number, report.rows - kept.rows)
        marks = advance(progress.watermarks, (one.run for one in report.runs))
        try:
            owner.append(kept.files, CommitNote(Op.APPEND, marks, owner.note.batch + 1, claim))
        except (Fenced, StorageFull):
            _discard(kept, progress)
            raise
        progress.heads.settled([file.path for file in kept.files])
        progress.typed.settled(kept)
        self.batches += 1
        for one in report.runs:
            progress.layout.admit(one.run.stream, one.subjects)
        removals = sum(one.removals for one in report.runs)
        progress.debt.note_batch(number, scattered=removals, version=owner.snapshot.version, watermarks=marks)
        for file in kept.files:
            if file.subject_partition == CONSUMERS_PARTITION:
                progress.debt.note_consumers(file.rows, file.size)

    def _stage(self, rows: DataFrame, progress: Progress, *, journal: JournalRows | None = None) -> BatchReport:
        return staged(rows, self.staging(progress)._replace(typed=progress.typed.place(), journal=journal))

    def _load(self) -> Progress:
        storage, clock = open_storage(self.location, self.options), SystemClock()
        owner = SettledOwner.open(storage, clock=clock, horizon_seconds=self._horizon_seconds)
        owner.claim()
        place = TypedPlace(self._data, self.options)
        typed = TypedTables(owner, place, clock=clock)
        partitions: dict[str, set[str]] = {}
        debt = Debt(owner.snapshot.rows)
        for file in owner.snapshot.files.values():
            partitions.setdefault(file.stream or "", set()).add(file.subject_partition or "")
            if file.consumers_only:
                debt.note_consumers(file.rows, 0)
        debt.note_batch(0, scattered=0, version=owner.snapshot.version, watermarks=owner.note.watermarks)
        heads = FollowedHeads(owner, clock=clock)
        progress = Progress(owner, FolderLayout(partitions), debt, typed, heads, SettledBefore(storage, clock))
        progress.learn(told_in(self.events(progress)))
        return progress

    def events(self, progress: Progress) -> list[StreamEvent]:
        """Return the table's STREAM and STREAM_DELETE rows, in their order."""
        return stream_events(progress.owner.snapshot, self.location, self.options)

    def _guard(self, spark: SparkSession, progress: Progress) -> MsgIdGuard:
        """Return a guard that knows the ids of the table's newest messages."""
        guard, longest = MsgIdGuard(), progress.longest_window_ns
        files = progress.owner.snapshot.files.values()
        newest = max((file.ts_ns[1] for file in files if file.has_messages), default=None)
        if newest is not None:
            recent = _bearing_ids(self.rows(spark)).where(sf.col("ts_ns") > newest - longest)
            guard.remember(*_msg_ids(recent), window_ns=longest)
        return guard


def _discard(report: BatchReport, progress: Progress) -> None:
    """Delete staged files that will not be committed."""
    progress.owner.storage.delete(file.path for file in report.files)
    progress.typed.discard(report)


def _bearing_ids(rows: DataFrame) -> DataFrame:
    return rows.where(is_kind(Kind.MESSAGE) & sf.col("msg_id").isNotNull())


def _msg_ids(rows: DataFrame) -> tuple[Int64s, Int64s]:
    """Return hash and time of each message with an id."""
    found = rows.select("stream", "stream_id", "msg_id", "ts_ns").toArrow()
    hashes = id_hashes(*(found[name].to_pylist() for name in ("stream", "stream_id", "msg_id")))
    return np.array(hashes, dtype=np.int64), as_int64s(found["ts_ns"])
