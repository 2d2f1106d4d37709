"""The SQL views of a key-value bucket: its history, and the latest values."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import Transform

STREAM_PREFIX = "KV_"
_OPERATION = r"(?im)^KV-Operation:[ \t]*([A-Za-z]+)"
_MARKER = r"(?im)^Nats-Marker-Reason:"


def as_history(bucket: str) -> Transform:
    """Convert live rows of a bucket's stream to its entries, deletions and purges included.

    Columns: key, revision, operation (PUT, DEL or PURGE; a limit's delete marker is a PURGE), value, text, created.
    """
    prefix = f"$KV.{bucket}."

    def entries(messages: DataFrame) -> DataFrame:
        return messages.where(sf.col("subject").startswith(prefix)).select(
            sf.substring("subject", len(prefix) + 1, 1 << 30).alias("key"),
            sf.col("seq").alias("revision"),
            _operation().alias("operation"),
            sf.col("data").alias("value"),
            "text",
            sf.col("time").alias("created"),
        )

    return entries


def latest_values(entries: DataFrame) -> DataFrame:
    """Return the newest entry of each key that has a value: key, value, text, revision, created."""
    newest_first = Window.partitionBy("key").orderBy(sf.col("revision").desc())
    newest = entries.withColumn("place", sf.row_number().over(newest_first)).where("place = 1")
    return newest.where(sf.col("operation") == "PUT").select("key", "value", "text", "revision", "created")


def _operation() -> Column:
    headers = sf.coalesce(sf.col("headers").cast("string"), sf.lit(""))
    named = sf.upper(sf.regexp_extract(headers, _OPERATION, 1))
    return sf.when(headers.rlike(_MARKER), "PURGE").when(named == "", "PUT").otherwise(named)
