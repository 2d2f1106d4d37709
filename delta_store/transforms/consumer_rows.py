"""The rows of consumers that are still needed.

A consumer's state is written whole, again and again, so nearly all of its rows are superseded. Replay needs a
consumer's newest state with the configuration at that time, its newest configuration, and, while older rows may lie
before it, its last deletion, in this order. How far a stream has copied its sources is recorded likewise, as the state
of a consumer without a name.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import INCARNATION, ROW_KEY, Transform, is_consumers, is_kind
from delta_store.transforms.stream_heads import ended_incarnations
from delta_store.values.records import Kind

CONSUMER_KEY = (*INCARNATION, "subject")


def dead_consumer_rows(events: DataFrame) -> Transform:
    """Return the keys of settled rows of consumers that nothing needs; ``events`` are those of all streams.

    A deletion is not needed either once all that came before it leaves with it.
    """

    def dead(rows: DataFrame) -> DataFrame:
        ended = events.transform(ended_incarnations).withColumn("ended", sf.lit(True))
        judged = _judged(rows).join(sf.broadcast(ended), on=list(INCARNATION), how="left")
        return judged.where(~_counts() | is_kind(Kind.CONSUMER_DELETE) | sf.col("ended")).select(*ROW_KEY)

    return dead


def _judged(rows: DataFrame) -> DataFrame:
    """Return rows of consumers without data, with the places of the needed rows of the same consumer."""
    same = Window.partitionBy(*CONSUMER_KEY)

    def last(chosen: Column) -> Column:
        return sf.max(sf.when(chosen, sf.col("place"))).over(same)

    behind = sf.col("deleted").isNull() | (sf.col("place") > sf.col("deleted"))
    config = is_kind(Kind.CONSUMER) & behind
    return (
        rows.where(is_consumers())
        .select(*ROW_KEY, "kind", "subject", sf.struct("seq", "event_no").alias("place"))
        .withColumn("deleted", last(is_kind(Kind.CONSUMER_DELETE)))
        .withColumn("state", last((is_kind(Kind.CONSUMER_STATE) | is_kind(Kind.SOURCE_STATE)) & behind))
        .withColumn("config", last(config))
        .withColumn("config_then", last(config & (sf.col("place") < sf.col("state"))))
    )


def _counts() -> Column:
    places = ("deleted", "state", "config", "config_then")
    return sf.coalesce(*(sf.nullif(sf.col("place") == sf.col(name), sf.lit(False)) for name in places), sf.lit(False))
