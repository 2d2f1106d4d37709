"""The SQL views of streams and consumers."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, Transform


def as_messages(rows: DataFrame) -> DataFrame:
    """Convert live rows of one stream to the columns of its view."""
    return rows.select(
        "seq",
        _time("ts_ns").alias("time"),
        "ts_ns",
        "subject",
        "msg_id",
        "headers",
        "data",
        sf.try_validate_utf8(sf.col("data").cast("string")).alias("text"),
        "size",
    )


def as_consumers(streams: DataFrame) -> Transform:
    """Convert consumers of the given streams (stream, stream_id) to the columns of their view."""

    def of_streams(consumers: DataFrame) -> DataFrame:
        living = consumers.join(sf.broadcast(streams), on=list(INCARNATION), how="left_semi")
        return living.select("stream", sf.col("consumer").alias("name"), _time("created_ns").alias("created"), "config")

    return of_streams


def stream_report(rows: DataFrame, live: DataFrame) -> Transform:
    """Return streams with their state as in stream info; ``rows`` are all rows, ``live`` the live ones.

    Takes stream, stream_id, created_ns, config and settled_seq.
    """

    def report(streams: DataFrame) -> DataFrame:
        reached = rows.groupBy(*INCARNATION).agg(
            sf.max("seq").alias("last"), sf.max("first_seq").alias("recorded_first")
        )
        state = live.groupBy(*INCARNATION).agg(
            sf.count("*").alias("messages"),
            sf.sum("size").alias("bytes"),
            sf.count_distinct("subject").alias("subjects"),
            sf.min("seq").alias("first"),
            sf.min("ts_ns").alias("oldest"),
            sf.max("ts_ns").alias("newest"),
        )
        joined = streams.join(reached, list(INCARNATION), "left").join(state, list(INCARNATION), "left")
        last = sf.greatest(sf.coalesce("last", sf.lit(0)), "settled_seq")
        return joined.select(
            sf.col("stream").alias("name"),
            _time("created_ns").alias("created"),
            sf.coalesce("messages", sf.lit(0)).alias("messages"),
            sf.coalesce("bytes", sf.lit(0)).alias("bytes"),
            sf.coalesce("subjects", sf.lit(0)).alias("subjects"),
            sf.coalesce("first", "recorded_first").alias("first_seq"),
            last.alias("last_seq"),
            _time("oldest").alias("first_time"),
            _time("newest").alias("last_time"),
            "settled_seq",
            "config",
        )

    return report


def _time(column: str) -> Column:
    return sf.timestamp_micros(sf.expr(f"{column} div 1000"))
