"""Summaries of a batch of journal rows by stream, and filters for its new rows."""

import json
from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, ROW_KEY, Transform, is_consumers, is_kind, position
from delta_store.values.folder_layout import SUBJECT_HASHES
from delta_store.values.records import Kind
from delta_store.values.watermark import Watermarks

_MARKS = "map<string, struct<id: bigint, seq: bigint, event: bigint>>"


def subject_hash() -> Column:
    """Return a small hash of the row's subject."""
    return sf.pmod(sf.crc32(sf.col("subject").cast("binary")), sf.lit(SUBJECT_HASHES)).cast("int")


def summarise_runs(rows: DataFrame) -> DataFrame:
    """Return one row per stream incarnation: positions, counts, and effects on older rows.

    ``first`` and ``last`` are (seq, event_no); ``subjects`` are the hashes of the message subjects; ``evictions``,
    ``removals``, ``ids`` and ``damaged`` count the rows that evict, remove, carry an id, and fail their checksum.
    ``consumer_rows`` and ``consumer_bytes`` are number and payload of the rows of consumers, ``consumer_keys`` their
    distinct (kind, consumer), about.
    """
    message, consumer = is_kind(Kind.MESSAGE), is_consumers()
    return (
        rows.groupBy(*INCARNATION)
        .agg(
            sf.count_if(message).alias("messages"),
            sf.min(sf.when(message, sf.col("seq"))).alias("seq_min"),
            sf.max(sf.when(message, sf.col("seq"))).alias("seq_max"),
            sf.min(sf.struct("seq", "event_no")).alias("first"),
            sf.max(sf.struct("seq", "event_no", "first_seq")).alias("last"),
            sf.count_if(~message).alias("events"),
            sf.count_if(sf.col("evicts") > 0).alias("evictions"),
            sf.count_if(is_kind(Kind.REMOVE)).alias("removals"),
            sf.count("msg_id").alias("ids"),
            sf.count_if(~is_whole()).alias("damaged"),
            sf.count_if(consumer).alias("consumer_rows"),
            sf.size(sf.collect_set(sf.when(consumer, sf.hash("kind", "subject")))).alias("consumer_keys"),
            sf.coalesce(sf.sum(sf.when(consumer, sf.octet_length("data"))), sf.lit(0)).alias("consumer_bytes"),
            sf.collect_set(sf.when(message, subject_hash())).alias("subjects"),
        )
        .select(
            *INCARNATION,
            "messages",
            sf.coalesce("seq_min", sf.lit(0)).cast("bigint").alias("seq_min"),
            sf.coalesce("seq_max", sf.lit(0)).cast("bigint").alias("seq_max"),
            "first",
            sf.struct("last.seq", "last.event_no").alias("last"),
            sf.col("last.first_seq").alias("last_first_seq"),
            "events",
            "evictions",
            "removals",
            "ids",
            "damaged",
            "consumer_rows",
            "consumer_keys",
            "consumer_bytes",
            "subjects",
        )
    )


def is_whole() -> Column:
    """Return whether the row matches its checksum: :func:`delta_store.values.records.checksum` as a column."""
    headers = sf.coalesce("headers", sf.lit(b""))
    return sf.crc32(sf.concat(sf.col("subject").cast("binary"), headers, "data")) == sf.col("crc")


def gaps_behind(watermarks: Watermarks, mirrors: Collection[str] = ()) -> Transform:
    """Keep the rows whose predecessor is missing: neither in the batch nor the watermark. None in a healthy batch.

    A stream's first row may have any sequence (``first_seq``), and ``mirrors`` skip what their origin had lost. The
    rows are new and distinct. Columns: stream, seq, and seq_before, the last one that exists.
    """
    marks = {f"{mark.stream_id}": mark.seq for mark in watermarks.values()}
    settled = sf.from_json(sf.lit(json.dumps(marks)), "map<string, bigint>")[sf.col("stream_id").cast("string")]

    def rows_behind_gaps(rows: DataFrame) -> DataFrame:
        in_order = Window.partitionBy(*INCARNATION).orderBy("seq", "event_no")
        before = sf.coalesce(sf.lag("seq").over(in_order), settled, sf.lit(0))
        expected = sf.col("seq_before") + sf.when(is_kind(Kind.MESSAGE), 1).otherwise(0)
        known = rows.select("stream", "seq", "kind", "event_no", before.alias("seq_before"))
        begins = is_kind(Kind.STREAM) & (sf.col("event_no") == 1) & (sf.col("seq_before") == 0)
        skips = sf.col("stream").isin(sorted(mirrors)) & (sf.col("seq") > sf.col("seq_before"))
        return known.where((sf.col("seq") != expected) & ~begins & ~skips).drop("event_no")

    return rows_behind_gaps


def above(watermarks: Watermarks) -> Transform:
    """Keep the unsettled rows: those of streams without a watermark, and those behind it."""
    marks = {name: {"id": mark.stream_id, "seq": mark.seq, "event": mark.event_no} for name, mark in watermarks.items()}
    settled = sf.from_json(sf.lit(json.dumps(marks)), _MARKS)[sf.col("stream")]

    def rows_above(rows: DataFrame) -> DataFrame:
        return rows.where(settled.isNull() | (position() > sf.struct(settled["id"], settled["seq"], settled["event"])))

    return rows_above


def once(rows: DataFrame) -> DataFrame:
    """Keep one row of each position; a position never has two different rows."""
    return rows.dropDuplicates(list(ROW_KEY))
