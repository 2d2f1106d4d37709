"""Settling as a job: queries one after the other, and maintenance by who owns ``messages`` meanwhile.

Where batches run in this process, one query runs for as long as it can, and maintenance takes its turns between two
batches. Under Spark Connect they run in a process of the server's, which claims the table at its first batch; this one
claims it back for maintenance between two queries. Epochs keep them apart: who was stopped amid a commit is fenced.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from threading import Event

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf.clock import SystemClock
from conf.data_location import DataLocation
from conf.error_text import error_text
from conf.log import log
from conf.settings import Settings
from delta_store.reading.settle_state import SettleState
from delta_store.settling.give_way import Niceness
from delta_store.settling.journal_source import JournalSource
from delta_store.settling.maintenance import Maintenance
from delta_store.settling.settle_batch import SettleBatch
from delta_store.settling.settle_query import start_settling
from delta_store.settling.spark_session import is_remote
from delta_store.settling.upkeep_pace import Schedule
from delta_store.settling.warm_up import warm_up
from delta_store.values.journal_errors import Fenced
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER

POLL_SECONDS = 0.5
FAILURES_MAX = 5
"""Consecutive failed queries after which the process gives up; its supervisor restarts it."""

_FENCED = re.compile(r"\bFenced: another process owns the table by epoch (\d+), this one has epoch (\d+)")

Tell = Callable[[SettleState, str], None]


class SettleJob:
    """The query, started again when it fails or has ended, with maintenance between batches or between queries."""

    def __init__(
        self,
        spark: SparkSession,
        data: DataLocation,
        settings: Settings,
        *,
        tell: Tell | None = None,
        available_now: bool = False,
    ) -> None:
        """With ``available_now``, or as the settings say, each query settles what is there and ends."""
        self._spark = spark
        self._data = data
        self._settings = settings
        self._apart = is_remote(spark)
        self._rounds = available_now or settings.settle.trigger == "available-now"
        self._clock = SystemClock()
        self._checkpoints = settings.settle.checkpoint_folder or data.local_folder(settings.storage) / "spark"
        self._journal = JournalSource(spark, data.table(JOURNAL_FOLDER), options=data.options)
        horizon = settings.history.horizon_seconds
        self._settle = SettleBatch(data.table(MESSAGES_FOLDER), options=data.options, horizon_seconds=horizon)
        schedule = Schedule(
            compact_interval_seconds=settings.settle.compact_interval_seconds,
            vacuum_interval_seconds=settings.settle.vacuum_interval_seconds,
        )
        self._maintenance = Maintenance(spark, self._settle, schedule=schedule, clock=self._clock)
        self._starts = 0
        self._tell = tell or (lambda _state, _error: None)

    def run(self, stop: Event, *, once: bool) -> None:
        """Settle until ``stop`` is set, or with ``once`` until all is settled; raise after repeated failures."""
        failures, goal = 0, -1
        while not stop.is_set():
            settled = self._settle.batches
            try:
                newest = self._journal.newest()
                if newest < 0 and not once:
                    stop.wait(POLL_SECONDS)
                    continue
                goal = goal if goal >= 0 else newest
                if once and self._is_idle(up_to=goal):
                    self._maintenance.finish()
                    return
                if self._starts == 0 and not (once or self._apart or self._rounds):
                    self.settle_first()
                if once or not self._rests(stop):
                    self._run_query(stop, once=once)
                failures = 0
            except Exception as error:
                failures = 1 if self._settle.batches > settled else failures + 1
                log.error("settling failed", error=error_text(error).splitlines()[0], failures=failures)
                self._tell(SettleState.FAILING, error_text(error).partition("\n")[0])
                self._settle.forget_position()
                if fenced := self._settle.fenced or _fenced_elsewhere(error):
                    raise fenced from error
                if failures >= FAILURES_MAX:
                    raise
                stop.wait(failures * POLL_SECONDS)

    def settle_first(self) -> None:
        """Settle a batch of what waits, if anything does, without a query, which takes seconds to start."""
        with self._settle.lock, self._settle.guarded():
            watermarks = self._settle.progress().watermarks
        files = self._journal.next_files(watermarks)
        if files is not None:
            self._settle(files, 0)

    def _rests(self, stop: Event) -> bool:
        """Maintain the table between two queries; whether nothing is to be settled, after a wait."""
        if self._starts == 0 or not (self._apart or self._rounds):
            return False
        self._maintenance.run_due()
        if not (self._rounds and self._is_idle()):
            return False
        self._tell(SettleState.SETTLING, "")
        stop.wait(max(self._settings.settle.trigger_interval_seconds, POLL_SECONDS))
        return True

    def _run_query(self, stop: Event, *, once: bool) -> None:
        self._starts += 1
        checkpoint = self._checkpoints / f"settle-checkpoint-{self._starts}"
        rmtree(checkpoint, ignore_errors=True)
        warms_up = self._starts == 1 and not once and self._settle.batches == 0 and self._is_idle()
        interval = None if once or self._rounds else self._settings.settle.trigger_interval_seconds
        query = start_settling(
            self._journal, self._settle, checkpoint=self._as_spark_takes(checkpoint), interval_seconds=interval
        )
        self._tell(SettleState.SETTLING, "")
        try:
            if warms_up:  # while the query starts
                warm_up(self._spark)
            self._attend(query, stop)
        finally:
            self._end(query)
            rmtree(checkpoint, ignore_errors=True)

    def _attend(self, query: StreamingQuery, stop: Event) -> None:
        """Wait for the end of the query, or for maintenance that must come between two; raise what ended it."""
        if self._apart:
            self._settle.forget_position()  # the process that runs the batches claims the table
        niceness = Niceness(self._settings.settle.nice)
        while query.isActive and not stop.wait(POLL_SECONDS):
            if not self._apart:
                niceness.follow(self._lag_seconds())
                self._maintenance.run_due()
            elif self._maintenance.is_due():
                return
        if not query.isActive:
            query.awaitTermination()

    def _lag_seconds(self) -> float:
        """Return the age of the oldest unsettled commit."""
        with self._settle.lock, self._settle.guarded():
            since_ms = self._journal.unsettled_since_ms(self._settle.progress().watermarks)
        return 0.0 if since_ms is None else max(0.0, self._clock.now_ns() / 1e9 - since_ms / 1e3)

    def _is_idle(self, *, up_to: int = sys.maxsize) -> bool:
        """Whether all is settled, of the journal's versions up to one."""
        with self._settle.lock, self._settle.guarded():
            return self._journal.is_settled(self._settle.progress().watermarks, up_to=up_to)

    def _end(self, query: StreamingQuery) -> None:
        """Stop the query; between two batches where they run in this process."""
        with self._settle.pausing():
            query.stop()

    def _as_spark_takes(self, checkpoint: Path) -> str:
        return str(checkpoint) if self._settings.settle.checkpoint_folder else checkpoint.as_uri()


def _fenced_elsewhere(error: Exception) -> Fenced | None:
    """Return what fenced the process that ran the batches, of which Spark Connect sends the traceback as text."""
    found = _FENCED.search(str(error))
    return Fenced(own_epoch=int(found[2]), found_epoch=int(found[1])) if found else None
