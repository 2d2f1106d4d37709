"""The messages that are live at a point, by the recorded effects: the same rule as ``StreamState.apply_…``.

State at sequence S is the state right after message S: its own ``first_seq`` and evictions up to it count, removals
count when they came before it, erasures always. Invariant: only recorded effects are applied, nothing is decided.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, MESSAGE_KEY, ROW_KEY, Transform, is_kind
from delta_store.values.records import Kind

REMOVAL = "ranges array<array<bigint>>, reason string, erase boolean"
END = (1 << 62) - 1
"""A sequence behind all others, for the newest state."""


def live_at(bounds: DataFrame) -> Transform:
    """Keep the messages that are live at each stream's bound; streams without a bound have none.

    ``bounds`` is small: stream, stream_id, up_to_seq (:data:`END` for now), oldest_ts_ns (messages at or before it are
    too old; null for no such limit). The rows are those of ``messages`` and of the journal above its watermark.
    """

    def live(rows: DataFrame) -> DataFrame:
        messages, gone = _split(rows, bounds)
        kept = messages.where(~_outlived())
        return kept.join(gone, on=list(MESSAGE_KEY), how="left_anti").select(*rows.columns)

    return live


def dead_at(bounds: DataFrame, ended: DataFrame) -> Transform:
    """Return the keys of the messages that are not live at the bounds; no message of the ``ended`` incarnations is."""

    def dead(rows: DataFrame) -> DataFrame:
        messages, gone = _split(rows, bounds)
        outlived = messages.where(_outlived()).select(*ROW_KEY)
        named = messages.join(gone, on=list(MESSAGE_KEY), how="left_semi").select(*ROW_KEY)
        over = rows.where(is_kind(Kind.MESSAGE)).join(sf.broadcast(ended), on=list(INCARNATION), how="left_semi")
        return outlived.unionByName(named).unionByName(over.select(*ROW_KEY)).distinct()

    return dead


def removed_ranges(rows: DataFrame) -> DataFrame:
    """Return the ranges in REMOVE rows: stream, stream_id, at_seq (of the removal), erase, low, high."""
    what = sf.from_json(sf.col("data").cast("string"), REMOVAL).alias("what")
    return (
        rows.where(is_kind(Kind.REMOVE))
        .select(*INCARNATION, sf.col("seq").alias("at_seq"), what)
        .select(*INCARNATION, "at_seq", sf.col("what.erase").alias("erase"), sf.explode("what.ranges").alias("range"))
        .select(*INCARNATION, "at_seq", "erase", sf.col("range")[0].alias("low"), sf.col("range")[1].alias("high"))
    )


def _outlived() -> Column:
    too_old = sf.coalesce(sf.col("ts_ns") <= sf.col("oldest_ts_ns"), sf.lit(False))
    return (sf.col("seq") < sf.col("first_live_seq")) | too_old


def _split(rows: DataFrame, bounds: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the messages up to the bound, with first_live_seq; and the keys of evicted or removed messages."""
    bound = sf.broadcast(bounds.select(*INCARNATION, "up_to_seq", "oldest_ts_ns"))
    known = rows.join(bound, on=list(INCARNATION), how="inner")
    message, seq, up_to = is_kind(Kind.MESSAGE), sf.col("seq"), sf.col("up_to_seq")
    happened = (message & (seq <= up_to)) | (~message & (seq < up_to))
    first = known.where(happened).groupBy(*INCARNATION).agg(sf.max("first_seq").alias("first_live_seq"))
    messages = known.where(message & (seq <= up_to)).join(sf.broadcast(first), on=list(INCARNATION), how="inner")
    evicted = known.where(message & (seq <= up_to) & (sf.col("evicts") > 0))
    evicted = evicted.select(*INCARNATION, sf.col("evicts").alias("seq"))
    ranges = removed_ranges(rows).join(bound, on=list(INCARNATION), how="inner")
    ranges = ranges.where(sf.col("erase") | (sf.col("at_seq") < up_to))
    return messages, evicted.unionByName(_named(messages, ranges)).distinct()


def _named(messages: DataFrame, ranges: DataFrame) -> DataFrame:
    low, high = sf.shiftright("low", 10), sf.shiftright("high", 10)
    blocks = ranges.select(*INCARNATION, "low", "high", sf.explode(sf.sequence(low, high)).alias("block"))
    keys = messages.select(*MESSAGE_KEY, sf.shiftright("seq", 10).alias("block"))
    hit = keys.join(blocks, on=[*INCARNATION, "block"], how="inner")
    return hit.where(sf.col("seq").between(sf.col("low"), sf.col("high"))).select(*MESSAGE_KEY)
