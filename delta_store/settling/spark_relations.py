"""Streams as relations of Spark SQL, by the definition that DuckDB has; nothing here runs a Spark job.

What is pinned, which streams exist, what is removed and where there are evictions is read by the driver itself, so that
Spark gets no join that could leave out nothing.
"""

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from delta_store.reading.state_at import END
from delta_store.sql.spark_dialect import SparkDialect
from delta_store.sql.store_state import StoreState, StreamAt, has_tail, is_alone, seqs_of, tail_evicts
from delta_store.sql.stream_relation import INLINE_RANGES_MAX, StreamRelation, live_messages
from delta_store.transforms.batch_rows import above
from delta_store.values.as_of import NOW, AsOf
from delta_store.values.records import Kind
from delta_store.values.schemas import CONSUMERS_PARTITION, EVENTS_PARTITION, JOURNAL_SCHEMA, MESSAGES_DDL

DRIVER_ROWS_MAX: Final = 100_000
"""Unsettled rows that the driver hands to Spark; of more, the executors read the journal's files."""
_RANGES: Final = pa.schema([("low", pa.int64()), ("high", pa.int64())])


class SparkRelations:
    """The relations of one pinned state, as temporary views with names that no stream can have."""

    def __init__(self, spark: SparkSession, state: StoreState) -> None:
        self._spark, self._state = spark, state
        self.dialect: Final = SparkDialect()
        self._named: dict[str, str] = {}

    def messages(self, stream: str, as_of: AsOf = NOW) -> str:
        """Return the query of a stream's live messages at a point, as :func:`live_messages` does.

        Raises ``NoSuchStream``, ``PastHorizon``, ``FileGone`` or ``DamagedData``.
        """
        at = self._state.at(stream, as_of)
        ranges = tuple(one for one in at.cut.removed if one[1] >= at.cut.first_seq)
        few = len(ranges) <= INLINE_RANGES_MAX
        relation = StreamRelation(
            at.view.stream_id,
            settled=self._settled(at) if at.files else None,
            tail=self._tail(at) if has_tail(at) or not at.files else None,
            up_to_seq=at.cut.up_to_seq,
            first_seq=at.cut.first_seq,
            ranges=ranges if few else (),
            range_table=None if few else self._view(f"silt.ranges.{stream}", _local(self._spark, ranges)),
            evicting=self._settled(at) if any(file.may_evict for file in at.files) else None,
            tail_evicts=tail_evicts(at),
            oldest=None if at.max_age_ns is None else f"unix_micros(current_timestamp()) * 1000 - {at.max_age_ns}",
            alone=is_alone(at, at.files),
            settled_seqs=(seqs_of(at.files)[0], END),
        )
        return live_messages(relation, self.dialect)

    def consumer_events(self) -> list[str]:
        """Return the relations that hold the consumers' rows, as they stand behind FROM."""
        settled = self._version(self._state.pinned.settled.version)
        chosen = f"subject_partition IN ('{CONSUMERS_PARTITION}', '{EVENTS_PARTITION}')"
        return [f"(SELECT * FROM {settled} WHERE {chosen}) AS s", self._view("silt.events", self._journal())]

    def _settled(self, at: StreamAt) -> str:
        stream = self.dialect.literal(at.view.stream)
        apart = f"subject_partition NOT IN ('{CONSUMERS_PARTITION}', '{EVENTS_PARTITION}')"
        return f"(SELECT * FROM {self._version(at.version)} WHERE stream = {stream} AND {apart}) AS s"

    def _tail(self, at: StreamAt) -> str:
        name = f"silt.tail.{at.view.stream}.{at.cut.up_to_seq}"
        if not has_tail(at) or len(at.view.tail) <= DRIVER_ROWS_MAX:
            return self._view(name, self._spark.createDataFrame(self._state.tail(at)))
        mine = sf.col("stream").eqNullSafe(at.view.stream) & (sf.col("stream_id") == at.view.stream_id)
        chosen = mine & (sf.col("kind") == Kind.MESSAGE.value) & (sf.col("seq") <= at.cut.up_to_seq)
        return self._view(name, self._journal().where(chosen))

    def _journal(self) -> DataFrame:
        """Return the unsettled rows of all streams."""
        pinned, location = self._state.pinned, self._state.journal.location
        if pinned.journal.version < 0:
            return self._spark.createDataFrame(JOURNAL_SCHEMA.empty_table())
        rows = self._spark.read.format("delta").option("versionAsOf", pinned.journal.version).load(location)
        return rows.transform(above(pinned.settled.watermarks))

    def _version(self, version: int) -> str:
        """Return a version of ``messages`` as it stands behind FROM."""
        name = f"silt.messages.{version}"
        if name not in self._named:
            rows = self._spark.createDataFrame([], MESSAGES_DDL)
            if version >= 0:
                reader = self._spark.read.format("delta").option("versionAsOf", version)
                rows = reader.load(self._state.settled.log.location)
            self._named[name] = self._view(name, rows)
        return self._named[name]

    def _view(self, name: str, rows: DataFrame) -> str:
        quoted = self.dialect.name(name)
        rows.createOrReplaceTempView(quoted)
        return quoted


def _local(spark: SparkSession, ranges: Any) -> DataFrame:
    """Return ranges as rows that Spark knows when it plans; Python rows would go through Python workers."""
    table = pa.table([[low for low, _ in ranges], [high for _, high in ranges]], schema=_RANGES)
    return spark.createDataFrame(table)
