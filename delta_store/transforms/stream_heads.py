"""The existing streams, from the event rows alone."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from delta_store.transforms.live_rows import END
from delta_store.transforms.row_order import INCARNATION, ROW_KEY, Transform, is_consumers, is_kind, position
from delta_store.values.records import Kind

CONFIG = (
    "config struct<subjects: array<string>, max_age: bigint, max_msgs: bigint, max_bytes: bigint,"
    " max_msgs_per_subject: bigint, duplicate_window: bigint, allow_msg_ttl: boolean>, created_ns bigint"
)


def existing_streams(rows: DataFrame) -> DataFrame:
    """Return the newest incarnation of each stream that is not deleted, with its newest configuration.

    Columns: stream, stream_id, created_ns, subjects, max_age, max_msgs, max_bytes, max_msgs_per_subject,
    duplicate_window, allow_msg_ttl, config (JSON as recorded).
    """
    newest = Window.partitionBy("stream").orderBy(position().desc())
    said = sf.col("data").cast("string")
    return (
        rows.where(is_kind(Kind.STREAM) | is_kind(Kind.STREAM_DELETE))
        .withColumn("place", sf.row_number().over(newest))
        .where((sf.col("place") == 1) & is_kind(Kind.STREAM))
        .select(*INCARNATION, said.alias("said"), sf.from_json(said, CONFIG).alias("event"))
        .select(
            *INCARNATION,
            sf.col("event.created_ns").alias("created_ns"),
            "event.config.*",
            sf.get_json_object("said", "$.config").alias("config"),
        )
    )


def live_bounds(now_ns: Column | None) -> Transform:
    """Return the bounds of :func:`delta_store.transforms.live_rows.live_at` for the newest state of streams.

    With ``now_ns``, messages that have outlived max_age by then are dead, recorded or not, unless the stream has TTLs
    of single messages: some may never grow too old.
    """
    oldest = sf.lit(None).cast("bigint")
    if now_ns is not None:
        ages = (sf.col("max_age") > 0) & ~sf.coalesce("allow_msg_ttl", sf.lit(False))
        oldest = sf.when(ages, now_ns - sf.col("max_age"))

    def newest_bounds(streams: DataFrame) -> DataFrame:
        return streams.select(*INCARNATION, sf.lit(END).alias("up_to_seq"), oldest.alias("oldest_ts_ns"))

    return newest_bounds


def ended_incarnations(rows: DataFrame) -> DataFrame:
    """Return the incarnations (stream, stream_id) that were deleted or replaced by a later one of the same name."""
    newest = sf.max("stream_id").over(Window.partitionBy("stream"))
    return (
        rows.where(is_kind(Kind.STREAM) | is_kind(Kind.STREAM_DELETE))
        .groupBy(*INCARNATION)
        .agg(sf.bool_or(is_kind(Kind.STREAM_DELETE)).alias("deleted"))
        .withColumn("newest", newest)
        .where(sf.col("deleted") | (sf.col("stream_id") < sf.col("newest")))
        .select(*INCARNATION)
    )


def superseded_events(before_ns: int) -> Transform:
    """Return the keys of event rows from before a time that nothing needs any more.

    The newest STREAM and the newest REMOVE row of an incarnation that lives are always kept.
    """

    def superseded(rows: DataFrame) -> DataFrame:
        newest = Window.partitionBy(*INCARNATION, "kind").orderBy(position().desc())
        ended = ended_incarnations(rows).withColumn("ended", sf.lit(True))
        return (
            rows.where(~is_kind(Kind.MESSAGE))
            .withColumn("place", sf.row_number().over(newest))
            .join(ended, on=list(INCARNATION), how="left")
            .where((sf.col("ts_ns") < before_ns) & (((sf.col("place") > 1) & ~is_consumers()) | sf.col("ended")))
            .select(*ROW_KEY)
        )

    return superseded
