"""The settle process: ``python -m delta_store.settling.settle_main``, or this file given to spark-submit.

Prints one line ``{"ready": true, …}`` once the query runs. Stops between batches on SIGTERM and SIGINT. It may be
killed at any point: the next start continues at the watermark in ``messages``. Where another settle job has an object
store, or with ``--stand-by`` a folder, it stands by, Spark warm, and says so by ``{"answering": true, …}``.

Exit codes: 0 stopped by a signal, or all is settled (``--once``); 1 failed; 3 another settle job runs on the folder, or
has taken the table over.
"""

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from threading import Event

if __package__ in (None, ""):  # spark-submit runs this file by its path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pyspark.sql import SparkSession

from conf.clock import SystemClock
from conf.data_location import DataLocation, location_argument
from conf.error_text import error_text
from conf.limits import SETTLE_START_NICE
from conf.log import configure_log, log
from conf.setting_sources import DATA_VARIABLE, SettingsError
from conf.settings import Settings, load_settings
from delta_store.log.log_repair import repair_messages
from delta_store.reading.settle_state import SettleState, StateTeller
from delta_store.settling.give_way import give_way
from delta_store.settling.rehearsal import rehearse
from delta_store.settling.settle_job import SettleJob, Tell
from delta_store.settling.settling_right import settling_right
from delta_store.settling.spark_session import open_session, whereabouts
from delta_store.storage.private_files import make_private_folder
from delta_store.storage.store_lock import AlreadySettling
from delta_store.values.journal_errors import Fenced, JournalError
from delta_store.values.read_errors import ReadError

EXIT_FAILED = 1
EXIT_TAKEN = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the settle process; return its exit code."""
    parser = _parser()
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
        stands_by = options.stand_by or not data.is_local
        early = _warm_session(data, settings, options) if stands_by else None
        with settling_right(data, stop, stands_by=stands_by) as lost, _told_state(data) as teller:
            _repair(data)
            spark = early or _session(data, settings, options)
            settling.set()
            tell = _telling(teller, spark, data)
            job = SettleJob(spark, data, settings, tell=tell, available_now=options.available_now)
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


def _parser() -> argparse.ArgumentParser:
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
    parser.add_argument("--remote", help="Spark Connect server, sc://host:port; default from SPARK_REMOTE")
    parser.add_argument("--once", action="store_true", help="settle what is there, then end")
    parser.add_argument("--available-now", action="store_true", help="by one query after the other, which end")
    parser.add_argument("--stand-by", action="store_true", help="wait for the end of another settle job on a folder")
    return parser


def _session(data: DataLocation, settings: Settings, options: argparse.Namespace) -> SparkSession:
    return open_session(
        "silt settle",
        data=data,
        master=options.master,
        remote=options.remote,
        default_master=settings.settle.spark_master,
        spark__driver__memory=f"{settings.settle.driver_memory_mib}m",
    )


def _warm_session(data: DataLocation, settings: Settings, options: argparse.Namespace) -> SparkSession:
    """Return a session that has settled before, so that who takes over settles at once."""
    spark = _session(data, settings, options)
    rehearse(spark)
    return spark


def _telling(teller: StateTeller, spark: SparkSession, data: DataLocation) -> Tell:
    """Return what tells the job's state, and says when it is ready."""
    ready = {"ready": True, "master": whereabouts(spark), "data": data.uri}

    def tell(state: SettleState, error: str) -> None:
        if state is SettleState.SETTLING and ready:
            sys.stdout.write(json.dumps(ready) + "\n")
            sys.stdout.flush()
            ready.clear()
        teller.tell(state, error)

    return tell


def _told_state(data: DataLocation) -> StateTeller:
    return StateTeller(data.uri, SystemClock(), storage_options=data.options)


def _repair(data: DataLocation) -> None:
    """Set aside what a power cut tore; an object store keeps what it has taken."""
    if not data.is_local:
        return
    repaired = repair_messages(data.folder, now_ns=SystemClock().now_ns())
    if repaired.aside:
        log.warning("torn by a power cut, set aside and settled again", files=repaired.aside)


def run() -> None:
    """Run the settle process as a task of a job scheduler, which takes any exit, even with 0, for a failure."""
    if code := main():
        sys.exit(code)


if __name__ == "__main__":
    sys.exit(main())
