"""The columns of rows in ``messages``, and of those that the writers of a batch get."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_store.transforms.row_order import is_consumers, is_kind
from delta_store.values.records import HEADERS_OVERHEAD, MESSAGE_OVERHEAD, Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION, JOURNAL_COLUMNS, RECENT_PARTITION


def stored_size() -> Column:
    """Return the bytes that the row's message counts for: :func:`delta_store.values.records.stored_size`."""
    headers = sf.octet_length("headers")
    header_bytes = sf.when(headers > 0, headers + sf.lit(HEADERS_OVERHEAD)).otherwise(sf.lit(0))
    return (sf.lit(MESSAGE_OVERHEAD) + sf.octet_length("subject") + sf.octet_length("data") + header_bytes).cast(
        "bigint"
    )


def subject_partition() -> Column:
    """Return the row's partition before it is spread by subject: events and consumers apart."""
    return (
        sf.when(is_consumers(), sf.lit(CONSUMERS_PARTITION))
        .when(~is_kind(Kind.MESSAGE), sf.lit(EVENTS_PARTITION))
        .otherwise(sf.lit(RECENT_PARTITION))
    )


def is_whole() -> Column:
    """Return whether the row matches its checksum: :func:`delta_store.values.records.checksum` as a column."""
    headers = sf.coalesce("headers", sf.lit(b""))
    return sf.crc32(sf.concat(sf.col("subject").cast("binary"), headers, "data")) == sf.col("crc")


def id_hash() -> Column:
    """Return the hash of a message's id in its stream; null without one."""
    return sf.when(is_kind(Kind.MESSAGE) & sf.col("msg_id").isNotNull(), sf.xxhash64("stream", "stream_id", "msg_id"))


def settled_columns(rows: DataFrame) -> DataFrame:
    """Convert journal rows to the columns of ``messages``."""
    journal = [sf.col(column.name).cast(column.delta_type) for column in JOURNAL_COLUMNS]
    return rows.select(*journal, stored_size().alias("size"), subject_partition().alias("subject_partition"))


def staged_columns(rows: DataFrame) -> DataFrame:
    """Convert journal rows to what :mod:`delta_store.entries.batch_layout` takes."""
    return rows.transform(settled_columns).select("*", is_whole().alias("whole"), id_hash().alias("id_hash"))
