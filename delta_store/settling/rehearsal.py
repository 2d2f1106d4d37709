"""Messages settled in a folder of its own: what a session must load, compile and start, it then has.

A settle job that stands by does so before it is its turn; the archive of classes is written after it.
"""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Final

from pyspark.sql import SparkSession

from conf.clock import SystemClock
from conf.data_location import data_location
from conf.settings import Settings, SettleSettings
from delta_store.journal.journal import Journal
from delta_store.log.journal_reader import SHARD
from delta_store.settling.settle_job import SettleJob
from delta_store.settling.spark_session import whereabouts
from delta_store.settling.warm_up import warm_up
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.records import Kind, Row, RowColumns, checksum
from delta_store.values.schemas import JOURNAL_FOLDER

_STREAM: Final = "REHEARSAL"


def rehearse(spark: SparkSession) -> None:
    """Settle messages where executors see this machine's folders; else run a dummy batch."""
    if not whereabouts(spark).startswith("local["):
        warm_up(spark)
        return
    with TemporaryDirectory(prefix="silt-rehearsal-") as folder:
        settle_messages(spark, Path(folder))


def settle_messages(spark: SparkSession, folder: Path) -> None:
    """Make a store in a folder, and settle a message without a query and one by a query that ends."""
    now_ns = SystemClock().now_ns()
    journal = Journal.open(LocalStorage(folder / JOURNAL_FOLDER), shard=SHARD, clock=SystemClock())
    journal.claim()
    job = SettleJob(spark, data_location(str(folder)), Settings(settle=SettleSettings(nice=0)))
    for seq, settle in ((1, job.settle_first), (2, partial(job.run, Event(), once=True))):
        rows, crc = RowColumns(), checksum("rehearsed", None, b"")
        rows.append(Row(_STREAM, now_ns, seq, 0, Kind.MESSAGE, "rehearsed", now_ns, None, 1, 0, None, b"", crc))
        journal.commit(rows)
        settle()
