"""SQL over the streams: a view of each stream's live messages, ``silt_streams``, ``silt_consumers``, ``multi_last``.

Each key-value bucket has two more: ``kv_<bucket>``, its latest values, and ``kv_<bucket>_history``. A view has the
messages that JetStream would return, settled or not: the journal's version is pinned first, then that of ``messages``,
and rows of the journal count where they lie above the watermark, so no row is read twice or missed. Views keep the
versions they were registered with; registering again brings them up to date.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.functions import udtf

from conf.data_location import DataLocation, data_location
from conf.settings import load_settings
from delta_store.entries.settled_log import Snapshot
from delta_store.entries.tables_agree import fault_of_lost_journal
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.settled import SettledTable
from delta_store.settling.spark_session import open_session
from delta_store.transforms.batch_rows import above
from delta_store.transforms.bucket_view import STREAM_PREFIX, as_history, latest_values
from delta_store.transforms.consumer_rows import existing_consumers
from delta_store.transforms.live_rows import END, live_at
from delta_store.transforms.settled_rows import settled_columns
from delta_store.transforms.stream_heads import existing_streams
from delta_store.transforms.stream_view import as_consumers, as_messages, stream_report
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import stored_size
from delta_store.values.schemas import (
    CONSUMERS_PARTITION,
    EVENTS_PARTITION,
    JOURNAL_FOLDER,
    MESSAGES_DDL,
    MESSAGES_FOLDER,
)
from delta_store.values.watermark import Watermarks

STREAMS_VIEW = "silt_streams"
CONSUMERS_VIEW = "silt_consumers"
TABLE_FUNCTION = "multi_last"
FUNCTION_COLUMNS = (
    "subject STRING, seq BIGINT, time TIMESTAMP, ts_ns BIGINT, headers BINARY, data BINARY, text STRING, size BIGINT"
)
_NAMES = pa.schema([("stream", pa.string()), ("stream_id", pa.int64())])
_BOUNDS = pa.schema([*_NAMES, ("up_to_seq", pa.int64()), ("max_age", pa.int64())])
_HEADS = pa.schema([*_NAMES, ("created_ns", pa.int64()), ("config", pa.string()), ("settled_seq", pa.int64())])
_ASKS_FOR_NAMES = re.compile(r"\s*(show|describe|desc)\b", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PinnedRows(NamedTuple):
    """All rows of all streams at one version of each table."""

    rows: DataFrame
    watermarks: Watermarks


def run_sql(data: DataLocation, statement: str) -> pa.Table:
    """Start Spark if none runs, register the views and run one statement. Raises what Spark raises."""
    spark = open_session("silt sql", data=data, spark__driver__memory="1g")
    return query(spark, data, statement).toArrow()


def query(spark: SparkSession, data: str | Path | DataLocation, statement: str) -> DataFrame:
    """Run one statement over the streams' current state. Names may be quoted in backticks or double quotes."""
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    register(spark, data, asked=None if _ASKS_FOR_NAMES.match(statement) else statement)
    return spark.sql(statement)


def register(spark: SparkSession, data: str | Path | DataLocation, *, asked: str | None = None) -> list[str]:
    """Create (or replace) the temporary views and ``multi_last``; return the streams.

    ``data`` is a folder or URL; a text's URL is opened by the settings in the environment.

    With ``asked``, a statement, only the views that it can name are created: thousands of views take a while. A stream
    that is called ``silt_streams`` or ``silt_consumers`` has no view of its own.
    """
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    location = data if isinstance(data, DataLocation) else data_location(str(data))
    if not location.is_local and not location.options:
        location = location.with_settings(load_settings().storage)
    spark.udtf.register(TABLE_FUNCTION, _table_function(location))
    pinned = pin(spark, location)
    heads = pinned.rows.where(sf.col("subject_partition") == EVENTS_PARTITION).transform(existing_streams).collect()
    for head in heads:
        if head["stream"] not in (STREAMS_VIEW, CONSUMERS_VIEW) and (asked is None or head["stream"] in asked):
            _stream_rows(pinned.rows, [head]).transform(as_messages).createOrReplaceTempView(_quoted(head["stream"]))
    _register_buckets(pinned.rows, heads, asked)
    if asked is None or STREAMS_VIEW in asked:
        settled = {name: mark.seq for name, mark in pinned.watermarks.items()}
        _streams(pinned, heads, settled).createOrReplaceTempView(STREAMS_VIEW)
    if asked is None or CONSUMERS_VIEW in asked:
        consumers = pinned.rows.where(sf.col("subject_partition") == CONSUMERS_PARTITION).transform(existing_consumers)
        streams = _local(spark, [head[:2] for head in heads], _NAMES)
        consumers.transform(as_consumers(streams)).createOrReplaceTempView(CONSUMERS_VIEW)
    return sorted(head["stream"] for head in heads)


def _register_buckets(rows: DataFrame, heads: list[Row], asked: str | None) -> None:
    """Create ``kv_<bucket>``, the values, and ``kv_<bucket>_history`` for each bucket's stream."""
    taken = {head["stream"] for head in heads}
    for head in heads:
        bucket = head["stream"].removeprefix(STREAM_PREFIX)
        name = f"kv_{bucket}"
        if bucket == head["stream"] or (asked is not None and name not in asked):
            continue
        history = _stream_rows(rows, [head]).transform(as_messages).transform(as_history(bucket))
        views = {name: history.transform(latest_values), f"{name}_history": history}
        for view, frame in views.items():
            if view not in taken:
                frame.createOrReplaceTempView(_quoted(view))


def pin(spark: SparkSession, data: DataLocation) -> PinnedRows:
    """Return the settled rows and the journal's rows above them; raise ``DamagedData``: nothing past damage is read."""
    places = data.table(JOURNAL_FOLDER), data.table(MESSAGES_FOLDER)
    log = JournalTail(places[0], storage_options=data.options)
    table = SettledTable(places[1], storage_options=data.options, relied_on=log.relies_on)
    pinned, base = log.refresh(), table.refresh()
    if fault := fault_of_lost_journal(pinned.version, base.watermarks):
        raise DamagedData(places[0], fault)
    journal, settled = _at(spark, places[0], pinned), _at(spark, places[1], base)
    if journal is not None:
        tail = journal.transform(above(base.watermarks)).transform(settled_columns)
        settled = tail if settled is None else settled.select(*tail.columns).unionByName(tail)
    if settled is None:
        settled = spark.createDataFrame([], MESSAGES_DDL)
    return PinnedRows(settled, base.watermarks)


def _at(spark: SparkSession, location: str, pinned: Snapshot) -> DataFrame | None:
    """Return the rows of a table at a version that was checked; None when there is no table."""
    if pinned.version < 0:
        return None
    return spark.read.format("delta").option("versionAsOf", pinned.version).load(location)


def _stream_rows(rows: DataFrame, heads: list[Row]) -> DataFrame:
    """Return the live messages of the given streams, max_age applied when the query runs.

    Not in streams with TTLs of single messages: some never grow too old, so there only recorded removals count.
    """
    spark = rows.sparkSession
    names = [head["stream"] for head in heads]
    values = [(head["stream"], head["stream_id"], END, _max_age(head)) for head in heads]
    now_ns = sf.unix_micros(sf.current_timestamp()) * 1000
    oldest = sf.when(sf.col("max_age") > 0, now_ns - sf.col("max_age")).alias("oldest_ts_ns")
    bounds = _local(spark, values, _BOUNDS).select("stream", "stream_id", "up_to_seq", oldest)
    return rows.where(sf.col("stream").isin(names)).transform(live_at(bounds))


def _max_age(head: Row) -> int:
    return 0 if head["allow_msg_ttl"] else head["max_age"] or 0


def _streams(pinned: PinnedRows, heads: list[Row], settled: Mapping[str, int]) -> DataFrame:
    spark = pinned.rows.sparkSession
    values = [
        (head["stream"], head["stream_id"], head["created_ns"], head["config"], settled.get(head["stream"], 0))
        for head in heads
    ]
    live = _stream_rows(pinned.rows, heads)
    return _local(spark, values, _HEADS).transform(stream_report(pinned.rows, live))


def _local(spark: SparkSession, rows: Iterable[Iterable[Any]], schema: pa.Schema) -> DataFrame:
    """Make a DataFrame of a few rows that Spark knows when it plans; Python rows would go through Python workers."""
    shown = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(shown, schema=schema))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _table_function(data: DataLocation) -> Any:
    """Return the UDTF ``multi_last(stream, subjects[, up_to_seq][, up_to_time])``; its Python worker uses no Spark."""

    class MultiLast:
        def eval(self, stream: str, subjects: Any, up_to_seq: int | None = None, up_to_time: Any = None) -> Any:
            from delta_store.reading.point_in_time import multi_last
            from delta_store.settling.sql_views import function_row, nanoseconds

            filters = [subjects] if isinstance(subjects, str) else list(subjects)
            at = None if up_to_time is None else nanoseconds(up_to_time)
            for message in multi_last(data, stream, filters, up_to_seq=up_to_seq, up_to_ts_ns=at):
                yield function_row(message)

    return udtf(MultiLast, returnType=FUNCTION_COLUMNS)


def nanoseconds(moment: datetime | str) -> int:
    """Convert a SQL timestamp, or ISO 8601 text (UTC by default), to ns since 1970."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000


def function_row(message: Any) -> tuple[Any, ...]:
    """Convert a :class:`delta_store.values.stream_message.StreamMessage` to the table function's columns."""
    subject, seq, ts_ns, headers, data = message
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    time = _EPOCH + timedelta(microseconds=ts_ns // 1000)
    return subject, seq, time, ts_ns, headers, data, text, stored_size(subject, headers, data)
