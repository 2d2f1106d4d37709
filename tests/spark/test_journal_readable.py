"""Delta for Spark reads the journal at every stage of its life, at rest and as a stream."""

from pathlib import Path
from threading import Thread

from chispa.schema_comparer import assert_schema_equality
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from delta_store.entries.log_entry import entry_name
from delta_store.journal.journal import Journal
from delta_store.values.records import checksum
from delta_store.values.schemas import JOURNAL_COLUMNS, JOURNAL_DDL, LOG_FOLDER
from tests.groups import (
    SteppedClock,
    event,
    group,
    live_rows,
    message,
    open_journal,
    reader,
    settled_to,
    through_delta_rs,
)


def _through_spark(spark: SparkSession, folder: Path) -> list[int]:
    rows = spark.read.format("delta").load(str(folder)).select("seq").collect()
    return sorted(row["seq"] for row in rows)


def _commit(journal: Journal, first: int, last: int) -> None:
    for seq in range(first, last + 1):
        journal.commit(group(seq))


def test_rows_read_by_spark_are_the_rows_committed(spark: SparkSession, tmp_path: Path) -> None:
    """Every column of messages and events, with the types that the schema promises."""
    rows = [message(1), message(2), event(2, 1), message(3)]
    journal = open_journal(tmp_path)
    for row in rows:
        gathered = group(1, 0)
        gathered.append(row)
        journal.commit(gathered)
    table = spark.read.format("delta").load(str(tmp_path))
    expected = StructType.fromDDL(JOURNAL_DDL)
    assert isinstance(expected, StructType)
    assert_schema_equality(table.schema, expected, ignore_metadata=True)
    found = table.orderBy("seq", "event_no").collect()
    names = [column.name for column in JOURNAL_COLUMNS]
    assert [tuple(row[name] for name in names) for row in found] == [tuple(row) for row in rows]


def test_spark_reads_each_way_to_write_a_column(spark: SparkSession, tmp_path: Path) -> None:
    """Values that repeat, few different ones, all different ones, and nulls in between, in one large commit."""
    rows = [
        message(seq)._replace(
            subject=f"orders.{seq % 3}" if seq % 2 else "préfixe",
            msg_id=None if seq % 5 else f"id-{seq}",
            headers=None if seq % 7 == 0 else b"NATS/1.0\r\nA: " + b"x" * seq + b"\r\n\r\n",
            data=bytes(seq % 11),
        )
        for seq in range(1, 402)
    ]
    rows = [row._replace(crc=checksum(row.subject, row.headers, row.data)) for row in rows]
    gathered = group(1, 0)
    for row in rows:
        gathered.append(row)
    open_journal(tmp_path).commit(gathered)
    names = [column.name for column in JOURNAL_COLUMNS]
    through_spark = spark.read.format("delta").load(str(tmp_path)).orderBy("seq").collect()
    assert [tuple(row[name] for name in names) for row in through_spark] == [tuple(row) for row in rows]
    through_delta = DeltaTable(str(tmp_path)).to_pyarrow_table(columns=names).sort_by("seq")
    assert [tuple(row[name] for name in names) for row in through_delta.to_pylist()] == [tuple(row) for row in rows]


def test_spark_skips_files_by_our_statistics_and_misses_none(spark: SparkSession, tmp_path: Path) -> None:
    """A filter on a column with bounds finds the one row, whichever it is."""
    _commit(open_journal(tmp_path), 1, 20)
    table = spark.read.format("delta").load(str(tmp_path))
    assert [table.where(f"seq = {seq}").count() for seq in (1, 7, 20, 21)] == [1, 1, 1, 0]
    assert table.where("stream = 'ORDERS'").count() == 20
    assert table.where("msg_id IS NULL").count() == 10
    assert table.where("headers IS NULL").count() == 6


def test_spark_reads_the_journal_at_every_stage(spark: SparkSession, tmp_path: Path) -> None:
    """New, grown, checkpointed, truncated, cleaned up, taken over: Spark, delta-rs and we agree."""
    clock = SteppedClock()
    journal = open_journal(tmp_path, clock)

    def agree(expected: list[int]) -> None:
        assert _through_spark(spark, tmp_path) == expected
        assert through_delta_rs(tmp_path) == expected
        assert [seq for _, rows in live_rows(reader(tmp_path)) for seq in rows.seq] == expected

    agree([])
    _commit(journal, 1, 12)
    agree(list(range(1, 13)))
    journal.checkpoint()
    agree(list(range(1, 13)))
    _commit(journal, 13, 24)
    journal.truncate(settled_to(10))
    agree(list(range(11, 25)))
    clock.seconds += 100
    journal.checkpoint()
    _commit(journal, 25, 30)
    journal.checkpoint()
    journal.truncate(settled_to(26))
    clock.seconds += 100
    assert journal.cleanup() > 20
    assert journal.delete_removed() == 26
    agree(list(range(27, 31)))
    spark.catalog.clearCache()
    journal = open_journal(tmp_path, clock)
    _commit(journal, 31, 33)
    agree(list(range(27, 34)))


def test_a_stream_goes_on_through_truncation_and_cleanup(spark: SparkSession, tmp_path: Path) -> None:
    """A running Spark stream sees each row once while settled files leave and log entries are deleted behind it."""
    folder, clock = tmp_path / "journal", SteppedClock()
    seen: list[int] = []
    journal = open_journal(folder, clock)
    _commit(journal, 1, 3)

    def keep(batch: DataFrame, number: int) -> None:
        seen.extend(row["seq"] for row in batch.select("seq").collect())

    stream = spark.readStream.format("delta").load(str(folder))
    query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "state")).start()
    try:
        for round_ in range(1, 6):
            committing = Thread(target=_commit, args=(journal, 20 * round_ - 16, 20 * round_ + 3))
            committing.start()
            query.processAllAvailable()
            committing.join()
            query.processAllAvailable()
            journal.checkpoint()
            journal.truncate(settled_to(20 * round_))
            clock.seconds += 100
            journal.delete_removed()
            journal.cleanup()
        query.processAllAvailable()
    finally:
        query.stop()
    assert not (folder / LOG_FOLDER / entry_name(20)).exists()
    assert sorted(seen) == list(range(1, 104))
