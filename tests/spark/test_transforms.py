"""Each transform alone, on a handful of rows."""

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from delta_store.transforms.batch_rows import above, gaps_behind, once, up_to
from delta_store.transforms.live_rows import removed_ranges
from delta_store.transforms.msg_id_window import dedup_window
from delta_store.transforms.stream_heads import ended_incarnations, existing_streams, superseded_events
from delta_store.values.records import checksum
from delta_store.values.schemas import JOURNAL_DDL
from delta_store.values.watermark import Watermark

CONFIG = b'{"config":{"name":"%s","subjects":["a.>"],"max_age":%d,"duplicate_window":5},"created_ns":7}'


def journal_rows(spark: SparkSession, *rows: dict[str, object]) -> DataFrame:
    """Journal rows with what a test does not care about filled in."""
    filled = []
    for given in rows:
        row = {"stream": "A", "stream_id": 1, "seq": 1, "event_no": 1, "kind": "message", "subject": "a.b", "ts_ns": 0}
        row |= {"msg_id": None, "first_seq": 1, "evicts": 0, "headers": None, "data": b""} | given
        row["crc"] = given.get("crc", checksum(row["subject"], row["headers"], row["data"]))
        filled.append(tuple(row.values()))
    return spark.createDataFrame(filled, JOURNAL_DDL)


def test_above_watermarks(spark: SparkSession) -> None:
    """Rows at or below their stream's watermark go; events behind the last message and new incarnations stay."""
    rows = journal_rows(
        spark,
        {"seq": 4, "event_no": 2},
        {"seq": 4, "event_no": 3, "kind": "remove"},
        {"seq": 5, "event_no": 3},
        {"seq": 1, "event_no": 1, "stream_id": 2},
        {"stream": "B"},
    )
    kept = rows.transform(above({"A": Watermark(1, 4, 2, 1)})).select("stream", "stream_id", "seq", "event_no")
    expected = [("A", 1, 4, 3), ("A", 1, 5, 3), ("A", 2, 1, 1), ("B", 1, 1, 1)]
    assert_df_equality(kept, spark.createDataFrame(expected, kept.schema), ignore_row_order=True)
    settled = rows.transform(up_to({"A": Watermark(1, 4, 2, 1)}))
    assert [(row.stream, row.seq, row.event_no) for row in settled.collect()] == [("A", 4, 2)]


def test_once(spark: SparkSession) -> None:
    """A position is kept once; an event of the same sequence is another position."""
    rows = journal_rows(spark, {"seq": 1}, {"seq": 1}, {"seq": 1, "event_no": 2, "kind": "remove"})
    assert rows.transform(once).count() == 2


def test_gaps_behind(spark: SparkSession) -> None:
    """A missing predecessor is found behind the watermark, inside the batch, and at a stream's start."""
    rows = journal_rows(spark, {"seq": 6}, {"seq": 8}, {"stream": "B", "stream_id": 2, "seq": 2})
    gaps = rows.transform(gaps_behind({"A": Watermark(1, 5, 1, 1)}))
    found = sorted((row.stream, row.seq_before, row.seq) for row in gaps.collect())
    assert found == [("A", 6, 8), ("B", 0, 2)]
    healthy = journal_rows(spark, {"seq": 6}, {"seq": 6, "event_no": 2, "kind": "remove"}, {"seq": 7, "event_no": 2})
    assert healthy.transform(gaps_behind({"A": Watermark(1, 5, 1, 1)})).count() == 0


def test_dedup_window(spark: SparkSession) -> None:
    """Repeats within the window of a kept message go; a dropped one opens no window; other streams are left alone."""
    times = [("a", 0), ("a", 9), ("a", 12), ("b", 0), (None, 0), (None, 0), ("a", 22)]
    rows = journal_rows(
        spark,
        *({"seq": seq, "msg_id": name, "ts_ns": ts} for seq, (name, ts) in enumerate(times, start=1)),
        {"stream": "OPEN", "seq": 1, "msg_id": "a"},
        {"stream": "OPEN", "seq": 2, "msg_id": "a"},
        {"stream_id": 2, "seq": 1, "msg_id": "a"},
    )
    kept = rows.transform(dedup_window({"A": 10})).select("stream", "stream_id", "seq")
    expected = [("A", 1, seq) for seq in (1, 3, 4, 5, 6, 7)] + [("A", 2, 1), ("OPEN", 1, 1), ("OPEN", 1, 2)]
    assert_df_equality(kept, spark.createDataFrame(expected, kept.schema), ignore_row_order=True)
    recent = journal_rows(spark, {"seq": 1, "msg_id": "b", "ts_ns": 0})
    late = journal_rows(spark, {"seq": 2, "msg_id": "b", "ts_ns": 9}, {"seq": 3, "msg_id": "c", "ts_ns": 9})
    assert [row.seq for row in late.transform(dedup_window({"A": 10}, recent)).collect()] == [3]


def test_removed_ranges(spark: SparkSession) -> None:
    """A REMOVE row's ranges, one row each; one that only moves the front has none."""
    rows = journal_rows(
        spark,
        {"seq": 9, "kind": "remove", "data": b'{"ranges":[[1,2],[5,5]],"reason":"delete","erase":true,"last_ts":1}'},
        {"seq": 9, "event_no": 2, "kind": "remove", "data": b'{"ranges":[],"reason":"age","erase":false}'},
    )
    found = sorted((row.at_seq, row.erase, row.low, row.high) for row in rows.transform(removed_ranges).collect())
    assert found == [(9, True, 1, 2), (9, True, 5, 5)]


def test_stream_heads(spark: SparkSession) -> None:
    """The newest configuration of streams that exist; deleted and replaced incarnations have ended."""
    rows = journal_rows(
        spark,
        {"seq": 0, "kind": "stream", "data": CONFIG % (b"A", 1)},
        {"seq": 3, "event_no": 2, "kind": "stream", "data": CONFIG % (b"A", 2)},
        {"stream": "B", "seq": 0, "kind": "stream", "data": CONFIG % (b"B", 3)},
        {"stream": "B", "seq": 0, "event_no": 2, "kind": "stream_delete"},
        {"stream": "C", "seq": 0, "kind": "stream", "data": CONFIG % (b"C", 4)},
        {"stream": "C", "stream_id": 2, "seq": 0, "kind": "stream", "data": CONFIG % (b"C", 5)},
    )
    heads = {row.stream: (row.stream_id, row.max_age) for row in rows.transform(existing_streams).collect()}
    assert heads == {"A": (1, 2), "C": (2, 5)}
    ended = rows.transform(ended_incarnations).collect()
    assert {(row.stream, row.stream_id) for row in ended} == {("B", 1), ("C", 1)}
    gone = {(row.stream, row.stream_id, row.event_no) for row in rows.transform(superseded_events(10)).collect()}
    assert gone == {("A", 1, 1), ("B", 1, 1), ("B", 1, 2), ("C", 1, 1)}
    assert rows.transform(superseded_events(0)).count() == 0
