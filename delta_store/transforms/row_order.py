"""Columns that identify a row, and column rules shared by the transforms."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from delta_store.values.records import CONSUMER_KINDS, Kind

Transform = Callable[[DataFrame], DataFrame]

INCARNATION = ("stream", "stream_id")
MESSAGE_KEY = ("stream", "stream_id", "seq")
ROW_KEY = ("stream", "stream_id", "seq", "event_no")


def is_kind(kind: Kind) -> Column:
    """Return whether the row is of this kind."""
    return sf.col("kind") == sf.lit(kind.value)


def is_consumers() -> Column:
    """Return whether the row is of a consumer: it changes no message."""
    return sf.col("kind").isin(*sorted(kind.value for kind in CONSUMER_KINDS))


def position() -> Column:
    """Return the row's place in its stream's order, comparable."""
    return sf.struct("stream_id", "seq", "event_no")
