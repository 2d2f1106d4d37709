"""SQL by Spark over the streams: the views and table functions that :mod:`delta_store.sql` has, by its definition.

A view has the messages that JetStream would show, settled or not: the journal's version is pinned first, then that of
``messages``, and rows of the journal count where they lie above the watermark, so no row is read twice or missed. Views
keep the versions they were registered with; registering again brings them up to date.
"""

import re
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from conf.clock import SystemClock
from conf.data_location import DataLocation, data_location
from conf.settings import load_settings
from delta_store.reading.journal_tail import open_tables
from delta_store.settling.spark_relations import SparkRelations
from delta_store.settling.spark_session import open_session
from delta_store.settling.sql_functions import register_functions
from delta_store.sql.bucket_relation import HISTORY_SUFFIX, STREAM_PREFIX, bucket_of, history_view, values_view
from delta_store.sql.report_relation import CONSUMERS_VIEW, STREAMS_VIEW, consumers_query, streams_query
from delta_store.sql.store_state import StoreState
from delta_store.sql.stream_relation import last_of_each, messages_view

_ASKS_FOR_NAMES: Final = re.compile(r"\s*(show|describe|desc)\b", re.IGNORECASE)


def run_sql(data: DataLocation, statement: str) -> Any:
    """Start Spark if none runs, make the views, run one statement; return an Arrow table. Raises what it raises."""
    spark = open_session("silt sql", data=data, spark__driver__memory="1g")
    return query(spark, data, statement).toArrow()


def query(spark: SparkSession, data: str | Path | DataLocation, statement: str) -> DataFrame:
    """Run one statement over the streams' current state. Names may be quoted in backticks or double quotes."""
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    register(spark, data, asked=None if _ASKS_FOR_NAMES.match(statement) else statement)
    return spark.sql(statement)


def register(spark: SparkSession, data: str | Path | DataLocation, *, asked: str | None = None) -> list[str]:
    """Create (or replace) the temporary views and the table functions; return the streams.

    ``data`` is a folder or URL; a text's URL is opened by the settings in the environment.

    With ``asked``, a statement, only the views that it can name are created: thousands of views take a while. A stream
    that is called ``silt_streams`` or ``silt_consumers`` has no view of its own. Raises the read errors: nothing past
    damage is shown.
    """
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "false")
    location = data if isinstance(data, DataLocation) else data_location(str(data))
    if not location.is_local and not location.options:
        location = location.with_settings(load_settings().storage)
    register_functions(spark, location)
    state = state_of(location)
    relations = SparkRelations(spark, state)
    for name, text in _views(state, relations, asked).items():
        spark.sql(text).createOrReplaceTempView(relations.dialect.name(name))
    return sorted(state.heads)


def state_of(location: DataLocation) -> StoreState:
    """Pin both tables of a store. Raises ``DamagedData``."""
    return StoreState(*open_tables(location), now_ns=SystemClock().now_ns())


def _views(state: StoreState, relations: SparkRelations, asked: str | None) -> dict[str, str]:
    """Return the queries of the views that a statement can name."""

    def is_asked(name: str) -> bool:
        return asked is None or name.lower() in asked.lower()

    dialect = relations.dialect
    found: dict[str, str] = {}
    for stream in state.heads:
        bucket = bucket_of(stream)
        if bucket is not None and is_asked(f"kv_{bucket}"):
            raw = relations.messages(STREAM_PREFIX + bucket)
            found[f"kv_{bucket}"] = values_view(history_view(last_of_each(raw), bucket, dialect))
            found[f"kv_{bucket}{HISTORY_SUFFIX}"] = history_view(raw, bucket, dialect)
    found |= {name: messages_view(relations.messages(name), dialect) for name in state.heads if is_asked(name)}
    if is_asked(STREAMS_VIEW):
        reports = [state.report(head, relations.messages(name)) for name, head in state.heads.items()]
        found[STREAMS_VIEW] = streams_query(reports, dialect)
    if is_asked(CONSUMERS_VIEW):
        found[CONSUMERS_VIEW] = consumers_query(state.heads.values(), relations.consumer_events(), dialect)
    return found
