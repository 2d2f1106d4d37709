"""The settle job's streaming query: journal → batches → ``messages``."""

from pyspark.sql.streaming.query import StreamingQuery

from delta_store.settling.journal_source import JournalSource
from delta_store.settling.settle_batch import SettleBatch

QUERY_NAME = "settle"


def start_settling(
    journal: JournalSource, settle: SettleBatch, *, checkpoint: str, interval_seconds: float | None
) -> StreamingQuery:
    """Start the query; without an interval it settles what is there and ends.

    ``checkpoint`` is a fresh folder each time: the position is the watermark in ``messages``. Raises ``DamagedData``.
    """
    with settle.lock:
        watermarks = settle.progress().watermarks
    rows = journal.stream(watermarks, ends=interval_seconds is None)
    writer = rows.writeStream.queryName(QUERY_NAME).option("checkpointLocation", checkpoint)
    writer = writer.foreachBatch(settle)
    if interval_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(interval_seconds * 1000)} milliseconds").start()
