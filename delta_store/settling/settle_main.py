"""The settle process: ``python -m delta_store.settling.settle_main``, or this file given to spark-submit.

Prints one line ``{"ready": true, …}`` once the query runs. Stops between batches on SIGTERM and SIGINT. It may be
killed at any point: the next start continues at the watermark in ``messages``. Where another settle job has an object
store, it stands by, and says so by ``{"answering": true, …}``.

Exit codes: 0 stopped by a signal, or all is settled (``--once``); 1 failed; 3 another settle job runs on the folder, or
has taken the table over.
"""

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import rmtree
from threading import Event

if __package__ in (None, ""):  # spark-submit runs this file by its path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from conf.clock import SystemClock
from conf.data_location import DataLocation, location_argument
from conf.error_text import error_text
from conf.limits import SETTLE_START_NICE
from conf.log import configure_log, log
from conf.settings import DATA_VARIABLE, Settings, SettingsError, load_settings
from delta_store.log.log_repair import repair_messages
from delta_store.reading.settle_state import SettleState, StateTeller
from delta_store.settling.give_way import give_way
from delta_store.settling.journal_source import JournalSource
from delta_store.settling.maintenance import Maintenance
from delta_store.settling.settle_batch import SettleBatch
from delta_store.settling.settle_query import start_settling
from delta_store.settling.settling_right import settling_right
from delta_store.settling.spark_session import open_session
from delta_store.settling.upkeep_pace import Schedule
from delta_store.settling.warm_up import warm_up
from delta_store.storage.private_files import make_private_folder
from delta_store.storage.store_lock import AlreadySettling
from delta_store.values.journal_errors import Fenced, JournalError
from delta_store.values.read_errors import ReadError
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER

POLL_SECONDS = 0.5
FAILURES_MAX = 5
"""Consecutive failed starts after which the process gives up; its supervisor restarts it."""
EXIT_FAILED = 1
EXIT_TAKEN = 3


Tell = Callable[[SettleState, str], None]


class SettleJob:
    """The query, restarted when it fails, with maintenance between batches."""

    def __init__(
        self, spark: SparkSession, data: DataLocation, settings: Settings, *, tell: Tell | None = None
    ) -> None:
        self._spark = spark
        self._data = data
        self._settings = settings
        clock = SystemClock()
        self._folder = data.local_folder(settings.storage) / "spark"
        self._journal = JournalSource(spark, data.table(JOURNAL_FOLDER), options=data.options)
        horizon = settings.history.horizon_seconds
        self._settle = SettleBatch(data.table(MESSAGES_FOLDER), options=data.options, horizon_seconds=horizon)
        schedule = Schedule(
            compact_interval_seconds=settings.settle.compact_interval_seconds,
            vacuum_interval_seconds=settings.settle.vacuum_interval_seconds,
            horizon_seconds=settings.history.horizon_seconds,
        )
        self._maintenance = Maintenance(spark, self._settle, schedule=schedule, clock=clock)
        self._starts = 0
        self._tell = tell or (lambda _state, _error: None)

    def run(self, stop: Event, *, once: bool) -> None:
        """Settle until ``stop`` is set, or with ``once`` until all is settled; raise after repeated failures."""
        failures = 0
        while not stop.is_set():
            if not self._journal.exists():
                if once:
                    return
                stop.wait(POLL_SECONDS)
                continue
            settled = self._settle.batches
            try:
                self._run_query(stop, once=once)
            except Exception as error:
                failures = 1 if self._settle.batches > settled else failures + 1
                log.error("settling failed", error=error_text(error).splitlines()[0], failures=failures)
                self._tell(SettleState.FAILING, error_text(error).partition("\n")[0])
                self._settle.forget_position()
                if self._settle.fenced is not None:
                    raise self._settle.fenced from error
                if failures >= FAILURES_MAX:
                    raise
                stop.wait(failures * POLL_SECONDS)
                continue
            if once:
                return

    def _run_query(self, stop: Event, *, once: bool) -> None:
        self._starts += 1
        checkpoint = self._folder / f"settle-checkpoint-{self._starts}"
        rmtree(checkpoint, ignore_errors=True)
        if self._starts == 1 and not once:
            self._warm_up()
        interval = None if once else self._settings.settle.trigger_interval_seconds
        query = start_settling(self._journal, self._settle, checkpoint=checkpoint.as_uri(), interval_seconds=interval)
        if self._starts == 1:
            said = {"ready": True, "master": self._spark.conf.get("spark.master"), "data": self._data.uri}
            sys.stdout.write(json.dumps(said) + "\n")
            sys.stdout.flush()
        self._tell(SettleState.SETTLING, "")
        give_way(self._settings.settle.nice)
        try:
            while query.isActive and not stop.wait(POLL_SECONDS):
                self._maintenance.run_due()
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
        finally:
            self._end(query)
            rmtree(checkpoint, ignore_errors=True)

    def _warm_up(self) -> None:
        """Prepare for the first batch while there is none."""
        with self._settle.lock:
            idle = self._journal.is_settled(self._settle.progress().watermarks)
        if idle:
            warm_up(self._spark)

    def _end(self, query: StreamingQuery) -> None:
        """Stop the query between two batches."""
        with self._settle.pausing():
            query.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the settle process; return its exit code."""
    parser = argparse.ArgumentParser(prog="silt settle", description="Carry the journal into the messages table.")
    found = os.environ.get(DATA_VARIABLE)
    parser.add_argument(
        "--data",
        type=location_argument,
        default=found,
        required=not found,
        help=f"folder or object store's URL of the tables; default from {DATA_VARIABLE}",
    )
    parser.add_argument("--master", help="Spark master; the settings' by default, spark-submit's under spark-submit")
    parser.add_argument("--once", action="store_true", help="settle what is there, then end")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
    except SettingsError as error:
        parser.error(str(error))
    give_way(min(settings.settle.nice, SETTLE_START_NICE))
    stop, settling = Event(), Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set() if settling.is_set() else os._exit(0))  # nothing to end yet
    configure_log("settle")
    data: DataLocation = options.data.with_settings(settings.storage)
    try:
        make_private_folder(data.local_folder(settings.storage))
        early = None if data.is_local else _session(data, settings, options.master)  # who stands by is warm
        with settling_right(data, stop) as lost, _told_state(data) as teller:
            _repair(data)
            spark = early or _session(data, settings, options.master)
            settling.set()
            job = SettleJob(spark, data, settings, tell=teller.tell)
            job.run(stop, once=options.once)
            spark.stop()
        if lost.is_set():
            log.error("another settle job has the table", error=f"{data} was taken over")
            return EXIT_TAKEN
    except (AlreadySettling, Fenced) as error:
        log.error("another settle job has the table", error=str(error))
        return EXIT_TAKEN
    except (JournalError, ReadError, OSError) as error:
        advice = {} if isinstance(error, OSError) else {"advice": "run: silt verify"}
        log.error("settling ended", error=error_text(error), **advice)
        return EXIT_FAILED
    except Exception:  # noqa: BLE001  # logged whole, and reported by the exit code
        log.error("settling ended", exception=traceback.format_exc())
        return EXIT_FAILED
    return 0


def _session(data: DataLocation, settings: Settings, master: str | None) -> SparkSession:
    spark = open_session(
        "silt settle",
        data=data,
        master=master,
        default_master=settings.settle.spark_master,
        spark__driver__memory=f"{settings.settle.driver_memory_mib}m",
    )
    if not data.is_local:
        warm_up(spark)
    return spark


def _told_state(data: DataLocation) -> StateTeller:
    return StateTeller(data.uri, SystemClock(), storage_options=data.options)


def _repair(data: DataLocation) -> None:
    """Set aside what a power cut tore; an object store keeps what it has taken."""
    if not data.is_local:
        return
    repaired = repair_messages(data.folder, now_ns=SystemClock().now_ns())
    if repaired.aside:
        log.warning("torn by a power cut, set aside and settled again", files=repaired.aside)


if __name__ == "__main__":
    sys.exit(main())
