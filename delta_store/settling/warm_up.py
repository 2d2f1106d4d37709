"""A dummy batch: the first one of a session starts Python workers and has code compiled, which takes seconds."""

import pyarrow as pa
from pyspark.sql import SparkSession

from delta_store.entries.staged_file import Writing
from delta_store.settling.staging import Staging, staged
from delta_store.values.records import Kind
from delta_store.values.schemas import JOURNAL_SCHEMA

ROWS = 256
_VALUES = {pa.string(): Kind.MESSAGE.value, pa.int64(): 1, pa.binary(): b"warm"}


def warm_up(spark: SparkSession) -> int:
    """Stage a dummy batch in the executors' memory; return its rows."""
    values = {field.name: [_VALUES[field.type]] * ROWS for field in JOURNAL_SCHEMA}
    rows = spark.createDataFrame(pa.table(values, schema=JOURNAL_SCHEMA))
    return staged(rows, Staging("memory:///warm-up", {}, Writing(0, 0), frozenset(), "warm-up")).rows
