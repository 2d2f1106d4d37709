"""The settle job's streaming query: journal → batches → ``messages``."""

from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from delta_store.settling.journal_source import JournalCheck, JournalSource
from delta_store.settling.settle_batch import SettleBatch

QUERY_NAME = "settle"


class Batches(NamedTuple):
    """The function of the query; a value, which Spark Connect sends to the process that runs it."""

    checking: JournalCheck
    settle: SettleBatch

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Settle a batch; raise ``DamagedData`` and what :class:`SettleBatch` raises."""
        self.checking.check()  # after Spark has read the log, so that all entries behind the batch are verified
        self.settle(batch, batch_id)


def start_settling(
    journal: JournalSource, settle: SettleBatch, *, checkpoint: str, interval_seconds: float | None
) -> StreamingQuery:
    """Start the query; without an interval it settles what is there and ends.

    ``checkpoint`` is a fresh folder each time: the position is the watermark in ``messages``. Raises ``DamagedData``.
    """
    journal.checking.check()
    with settle.lock:
        watermarks = settle.progress().watermarks
    rows = journal.stream(watermarks)
    writer = rows.writeStream.queryName(QUERY_NAME).option("checkpointLocation", checkpoint)
    batches: Any = Batches(journal.checking, settle)
    writer = writer.foreachBatch(batches)
    if interval_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(interval_seconds * 1000)} milliseconds").start()
