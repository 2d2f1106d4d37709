"""Filters for the new rows of a batch, and the search for missing ones."""

import json
from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, ROW_KEY, Transform, is_kind, position
from delta_store.values.records import Kind
from delta_store.values.watermark import Watermarks

_MARKS = "map<string, struct<id: bigint, seq: bigint, event: bigint>>"


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
    settled = _place(watermarks)
    return lambda rows: rows.where(settled.isNull() | (position() > settled))


def up_to(watermarks: Watermarks) -> Transform:
    """Keep the rows that were settled at these watermarks."""
    settled = _place(watermarks)
    return lambda rows: rows.where(position() <= settled)


def _place(watermarks: Watermarks) -> Column:
    """Return where the row's stream is settled up to, as :func:`position`; null for nothing."""
    marks = {name: {"id": mark.stream_id, "seq": mark.seq, "event": mark.event_no} for name, mark in watermarks.items()}
    settled = sf.from_json(sf.lit(json.dumps(marks)), _MARKS)[sf.col("stream")]
    return sf.when(settled.isNotNull(), sf.struct(settled["id"], settled["seq"], settled["event"]))


def once(rows: DataFrame) -> DataFrame:
    """Keep one row of each position; a position never has two different rows."""
    return rows.dropDuplicates(list(ROW_KEY))
