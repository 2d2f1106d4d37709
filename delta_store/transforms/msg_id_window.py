"""The second guard against duplicates; the gateway is the first and lets none through."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, MESSAGE_KEY, Transform

_USE = (*MESSAGE_KEY, "msg_id", "ts_ns")
_STORED = "array<struct<seq: bigint, ts_ns: bigint, kept: boolean>>"


def dedup_window(windows_ns: Mapping[str, int], recent: DataFrame | None = None) -> Transform:
    """Drop a message whose id an earlier *kept* message of its stream has, less than the window before it.

    ``windows_ns``: stream to its ``duplicate_window``; rows of other streams are kept, and so are rows without an id. A
    dropped message holds no window open, as in nats-server. ``recent`` are rows that came before.
    """
    window = sf.lit(None).cast("bigint")
    for stream, length in windows_ns.items():
        window = sf.when(sf.col("stream") == sf.lit(stream), sf.lit(length)).otherwise(window)

    def without_repeats(rows: DataFrame) -> DataFrame:
        uses = rows.select(*_USE)
        if recent is not None:
            uses = uses.unionByName(recent.select(*_USE))
        repeats = uses.where(sf.col("msg_id").isNotNull()).transform(_repeats(window))
        return rows.join(repeats, on=list(MESSAGE_KEY), how="left_anti").select(*rows.columns)

    return without_repeats


def _repeats(window: Column) -> Transform:
    """Return the keys of the messages to drop."""

    def seen_again(rows: DataFrame) -> DataFrame:
        uses = sf.sort_array(sf.collect_list(sf.struct("seq", "ts_ns")))
        same = rows.groupBy(*INCARNATION, "msg_id").agg(uses.alias("uses")).where(sf.size("uses") > 1)
        return (
            same.withColumn("window", window)
            .where(sf.col("window").isNotNull())
            .select(*INCARNATION, sf.explode(_judged(sf.col("uses"), sf.col("window"))).alias("use"))
            .where(~sf.col("use.kept"))
            .select(*INCARNATION, sf.col("use.seq").alias("seq"))
        )

    return seen_again


def _judged(uses: Column, window: Column) -> Column:
    """Return the uses in order, each with whether it is kept, which depends on the last kept one."""

    def judge(done: Column, use: Column) -> Column:
        kept = sf.filter(done, lambda one: one["kept"])
        last = sf.element_at(kept, -1)["ts_ns"]
        is_kept = (sf.size(kept) == 0) | (use["ts_ns"] - last >= window)
        judged = sf.struct(use["seq"].alias("seq"), use["ts_ns"].alias("ts_ns"), is_kept.alias("kept"))
        return sf.concat(done, sf.array(judged))

    return sf.aggregate(uses, sf.array().cast(_STORED), judge)
