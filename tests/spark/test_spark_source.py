"""The format ``silt`` as a source: batches against the reader of the past, streams against what was committed."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from api.spark import register
from conf.data_location import data_location
from delta_store.reading.point_in_time import PointInTime, opened_tables
from delta_store.values.records import Kind, Row
from tests.tables import History, Tables, grown, live_sequences

WAIT_SECONDS = 120
Shown = list[tuple[str, int, bytes]]


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def shown(frame: DataFrame) -> Shown:
    """Subject, sequence and payload of each row, by sequence."""
    rows = frame.select("subject", "seq", "data").collect()
    return sorted(((row[0], row[1], bytes(row[2])) for row in rows), key=lambda row: row[1])


def content(rows: list[Row], seqs: set[int]) -> Shown:
    """The same of the rows of a history."""
    found = [(row.subject, row.seq, row.data) for row in rows if row.kind == Kind.MESSAGE and row.seq in seqs]
    return sorted(found, key=lambda row: row[1])


def last_of_each(rows: Shown) -> Shown:
    """The last row of each subject."""
    return sorted({row[0]: row for row in rows}.values(), key=lambda row: row[1])


@pytest.mark.parametrize("seed", range(2))
def test_a_batch_is_the_past_as_the_reader_gives_it(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """At random points, now, and at a time; rows settled, cleaned up, and still in the journal."""
    tables, history = grown(tmp_path, seed)
    past = PointInTime(*opened_tables(data_location(str(tables.data))))
    reader = spark.read.format("silt").option("stream", "S")
    for point in random.Random(seed).sample(range(1, history.seq), 2):
        rows = shown(reader.option("asOf", point).load(str(tables.data)))
        assert rows == content(history.rows, live_sequences(history.rows, point))
        expected = past.multi_last("S", [">"], up_to_seq=point).messages
        assert last_of_each(rows) == [(one.subject, one.seq, one.data) for one in expected]
    frame = spark.read.format("silt").option("stream", "S").option("includeHeaders", "true").load(str(tables.data))
    assert shown(frame) == content(history.rows, live_sequences(history.rows))
    chosen = frame.where("subject IN ('s.1', 's.3') AND seq > 5 AND seq < 30")
    assert shown(chosen) == [row for row in shown(frame) if row[0] in ("s.1", "s.3") and 5 < row[1] < 30]


def test_filters_reach_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """Where it is asked for, a filter on subject or sequence opens no other file: those could be broken."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{at % 4}") for at in range(40))])
    tables.settle()
    tables.commit([history.publish("s.1") for _ in range(3)])

    def count(where: str) -> int:
        reader = spark.read.format("silt").options(stream="S", pushdown="true")
        return reader.load(str(tables.data)).where(where).count()

    assert count("subject = 's.1' AND time > timestamp '2020-01-01'") == 13
    folders = [tmp_path / "messages" / "stream=S" / f"subject_partition=s.{at}" for at in (0, 2, 3)]
    for path in [path for folder in folders for path in folder.glob("*.parquet")]:
        path.write_bytes(b"broken")
    assert count("subject = 's.1'") == 13
    assert count("subject LIKE 's.1%' AND data IS NOT NULL") == 13
    assert count("seq > 40") == 3
    with pytest.raises(PySparkException, match="is damaged"):
        count("seq > 39")


def test_a_frame_may_be_used_in_many_queries(spark: SparkSession, tmp_path: Path) -> None:
    """Unless it is asked for, no filter of one query, or of one side of a union, reaches another."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{at % 4}") for at in range(40))])
    frame = spark.read.format("silt").option("stream", "S").load(str(tables.data))
    assert frame.where("subject = 's.1'").count() == 10
    assert frame.count() == 40
    assert frame.where("subject = 's.1'").union(frame.where("seq < 5")).count() == 14


def test_a_schema_and_options_that_do_not_fit(spark: SparkSession, tmp_path: Path) -> None:
    """A schema chooses columns; a wrong option, a stream that is not there and the far past are refused by name."""
    history, tables = History(), Tables(tmp_path)
    headers = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
    tables.commit([history.create(), history.publish("s.0", headers=headers, msg_id="one")])
    reader = spark.read.format("silt").option("stream", "S")
    schema = "msg_id STRING, ts_ns BIGINT, headers MAP<STRING, ARRAY<STRING>>"
    [row] = reader.schema(schema).load(str(tables.data)).collect()
    assert (row["msg_id"], row["ts_ns"], row["headers"]) == ("one", history.now_ns, {"A": ["1", "2"]})
    for option, value, said in (
        ("startSequence", "1", "no such option: startsequence"),
        ("live", "1", "true or false"),
    ):
        with pytest.raises(PySparkException, match=said):
            spark.read.format("silt").option("stream", "S").option(option, value).load(str(tables.data)).collect()
    with pytest.raises(PySparkException, match="there is no stream 'T'"):
        spark.read.format("silt").option("stream", "T").load(str(tables.data)).collect()


class Reading:
    """A streaming query into files, which a test stops and starts again on its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, data: Path, **options: object) -> None:
        self.spark, self.folder, self.data, self.options = spark, folder, data, {"stream": "S"} | options

    def start(self, each: Callable[[DataFrame, int], None] | None = None, **trigger: Any) -> StreamingQuery:
        """Start the query, which writes files, or hands each batch to a function."""
        frame = self.spark.readStream.format("silt").options(**self.options).load(str(self.data))
        writer = frame.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        if each is not None:
            return writer.foreachBatch(each).trigger(**(trigger or {"availableNow": True})).start()
        writer = writer.format("parquet").option("path", str(self.folder / "out"))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self) -> None:
        """Read all that is there."""
        query = self.start()
        assert query.awaitTermination(WAIT_SECONDS)

    def rows(self) -> Shown:
        """What has been written, repeated rows as often as they are there."""
        return shown(self.spark.read.parquet(str(self.folder / "out")))


def test_a_stream_reads_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Settled or not, truncated, compacted, restarted: each message once, and none that limits removed is missing."""
    dice, history, tables = random.Random(3), History(max_msgs=30), Tables(tmp_path / "data")
    (tmp_path / "data").mkdir()
    tables.commit([history.create()])
    reading = Reading(spark, tmp_path, tables.data)
    for number in range(3):
        for _ in range(3):
            tables.commit([history.publish(f"s.{dice.randrange(5)}") for _ in range(dice.randrange(1, 6))])
        if number % 2:
            tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 5)])
            tables.truncate()
            tables.compact()
        reading.run()
        assert reading.rows() == content(history.rows, set(range(1, history.seq + 1))), number


def test_max_messages_per_trigger_bounds_each_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Many batches of a few messages, in order, each once; live ones leave removed messages out."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish(f"s.{at % 4}") for at in range(20))])
    tables.commit([history.remove([7, 8], "delete", erase=False)])
    reading = Reading(spark, tmp_path / "query", tables.data, maxMessagesPerTrigger=6, live="true")
    batches: list[list[int]] = []
    query = reading.start(
        lambda frame, _: batches.append(sorted(row[0] for row in frame.select("seq").collect())),
        processingTime="0 seconds",
    )
    query.processAllAvailable()
    query.stop()
    assert [seqs for seqs in batches if seqs] == [
        [1, 2, 3, 4, 5, 6], [9, 10, 11, 12], [13, 14, 15, 16, 17, 18], [19, 20],
    ]  # fmt: skip


def test_a_first_batch_that_failed_is_the_same_one_again(spark: SparkSession, tmp_path: Path) -> None:
    """A query that begins at the end, and fails in its first batch, misses nothing when it is started again."""
    history, tables = History(), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish("s.0") for _ in range(5))])
    reading = Reading(spark, tmp_path / "query", tables.data, startingPosition="latest")
    seen: list[list[int]] = []

    def failing(frame: DataFrame, batch: int) -> None:
        if frame.count():
            raise RuntimeError("this batch fails")

    query = reading.start(failing, processingTime="0 seconds")
    query.processAllAvailable()
    tables.commit([history.publish("s.0") for _ in range(3)])
    with pytest.raises(PySparkException, match="this batch fails"):
        query.awaitTermination(WAIT_SECONDS)
    tables.commit([history.publish("s.0") for _ in range(2)])
    tables.settle()
    again = reading.start(
        lambda frame, _: seen.append(sorted(row[0] for row in frame.select("seq").collect())),
        processingTime="0 seconds",
    )
    again.processAllAvailable()
    again.stop()
    assert seen == [[6, 7, 8], [9, 10]]


def test_lost_messages_fail_the_query_or_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """What limits removed and cleanup deleted before it was read is reported as the Kafka source does."""
    history, tables = History(max_msgs=4), Tables(tmp_path)
    tables.commit([history.create(), *(history.publish("s.0") for _ in range(3))])
    reading = Reading(spark, tmp_path / "query", tables.data)
    reading.run()
    tables.commit([history.publish("s.0") for _ in range(10)])
    tables.settle()
    tables.apply_limits()
    with pytest.raises(PySparkException, match=r"from sequence 4 on may have been missed(.|\n)*failOnDataLoss"):
        reading.run()
    reading.options["failOnDataLoss"] = "false"
    reading.run()
    assert [row[1] for row in reading.rows()] == [1, 2, 3, 10, 11, 12, 13]
    log = spark.read.format("silt").options(stream="S", live="false", startingSequence=2)
    with pytest.raises(PySparkException, match="from sequence 2 on may have been missed"):
        log.load(str(tables.data)).collect()
    assert len(shown(log.option("failOnDataLoss", "false").load(str(tables.data)))) == 4
