"""The columns and the order of rows in ``messages``."""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from conf.limits import SUBJECT_BUCKETS
from delta_store.transforms.row_order import Transform, is_consumers, is_kind
from delta_store.values.records import HEADERS_OVERHEAD, MESSAGE_OVERHEAD, Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION, JOURNAL_COLUMNS

FOLDER_SAFE_SUBJECT = r"^[A-Za-z0-9_.$=-]{1,128}$"
"""Subjects that may be a folder's name unchanged; others share the buckets."""
LAYOUT = ("stream", "subject_partition", "subject", "seq")


def stored_size() -> Column:
    """Return the bytes that the row's message counts for: :func:`delta_store.values.records.stored_size`."""
    headers = sf.octet_length("headers")
    header_bytes = sf.when(headers > 0, headers + sf.lit(HEADERS_OVERHEAD)).otherwise(sf.lit(0))
    return (sf.lit(MESSAGE_OVERHEAD) + sf.octet_length("subject") + sf.octet_length("data") + header_bytes).cast(
        "bigint"
    )


def subject_partition(exact: Collection[str]) -> Column:
    """Return the row's partition: the subject in ``exact`` streams, else a bucket; events and consumers apart."""
    subject = sf.col("subject")
    bucket = sf.pmod(sf.crc32(subject.cast("binary")), sf.lit(SUBJECT_BUCKETS))
    itself = subject.rlike(FOLDER_SAFE_SUBJECT) & ~subject.isin(EVENTS_PARTITION, CONSUMERS_PARTITION)
    itself &= sf.col("stream").isin(sorted(exact)) if exact else sf.lit(False)
    return (
        sf.when(is_consumers(), sf.lit(CONSUMERS_PARTITION))
        .when(~is_kind(Kind.MESSAGE), sf.lit(EVENTS_PARTITION))
        .when(itself, subject)
        .otherwise(sf.format_string("b%02d", bucket))
    )


def settled_columns(exact: Collection[str]) -> Transform:
    """Convert journal rows to the columns of ``messages``; ``exact`` are the streams with few subjects."""

    def with_settled_columns(rows: DataFrame) -> DataFrame:
        journal = [sf.col(column.name).cast(column.delta_type) for column in JOURNAL_COLUMNS]
        size, partition = stored_size().alias("size"), subject_partition(exact).alias("subject_partition")
        return rows.select(*journal, size, partition)

    return with_settled_columns


def laid_out(tasks: int) -> Transform:
    """Distribute rows to so many tasks, whole folders together, each sorted so that file statistics are narrow."""

    def in_layout(rows: DataFrame) -> DataFrame:
        spread = rows.coalesce(1) if tasks == 1 else rows.repartition(tasks, *LAYOUT[:2])
        return spread.sortWithinPartitions(*LAYOUT)

    return in_layout
