"""Writers: a task publishes its rows through NATS, and ends well when each is acknowledged."""

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from nats.aio.client import Client, RawCredentials
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from api.spark.sink_columns import EXPECTED_STREAM, MessageIds, SinkColumns, outgoing
from api.spark.write_options import WriteOptions
from consumers.client.publishing import BulkPublisher

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
"""Spark's own names of a task's local properties."""


@dataclass
class PublishedRows(WriterCommitMessage):
    """What a task has published."""

    stored: int
    duplicates: int
    """Rows that the stream had by their ids, of a task that was tried before."""


class SiltBatchWriter(DataSourceArrowWriter):
    """Publishes the rows of a DataFrame."""

    def __init__(self, options: WriteOptions, columns: SinkColumns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[Any]) -> PublishedRows:
        """Publish a partition."""
        partition = _task().partitionId()
        return _published(self._options, self._columns, iterator, f"{self._options.write_id}-{partition}")


class SiltStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of a streaming query's batches."""

    def __init__(self, options: WriteOptions, columns: SinkColumns) -> None:
        self._options, self._columns = options, columns

    def write(self, iterator: Iterator[Any]) -> PublishedRows:
        """Publish a partition of a batch."""
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        assert query is not None, "Spark names no query"
        assert batch is not None, "Spark names no batch"
        return _published(self._options, self._columns, iterator, f"{query}-{batch}-{task.partitionId()}")


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "rows are written by tasks"
    return task


def _published(options: WriteOptions, columns: SinkColumns, batches: Iterator[Any], prefix: str) -> PublishedRows:
    return asyncio.run(_publish(options, columns, batches, prefix))


async def _publish(options: WriteOptions, columns: SinkColumns, batches: Iterator[Any], prefix: str) -> PublishedRows:
    first = next(batches, None)
    if first is None:
        return PublishedRows(0, 0)
    client = Client()
    await client.connect(**_connection(options))
    try:
        publisher = BulkPublisher(
            client, most=options.in_flight, ack_seconds=options.ack_seconds, give_up_seconds=options.give_up_seconds
        )
        async with publisher:
            ids = MessageIds(prefix)
            for batch in chain([first], batches):
                for message in outgoing(columns, batch, ids):
                    if options.stream is not None:
                        message.headers[EXPECTED_STREAM] = options.stream
                    await publisher.publish(*message)
            await publisher.done()
        return PublishedRows(publisher.stored, publisher.duplicates)
    finally:
        await client.close()


def _connection(options: WriteOptions) -> dict[str, Any]:
    login = options.login
    chosen: dict[str, Any] = {name: login[name] for name in ("user", "password", "token") if name in login}
    if "credentials" in login:
        chosen["user_credentials"] = RawCredentials(login["credentials"])
    if "nkey_seed" in login:
        chosen["nkeys_seed_str"] = login["nkey_seed"].strip()
    if "tls_ca" in login:
        chosen["tls"] = ssl.create_default_context(cadata=login["tls_ca"])
    return {
        "servers": list(options.servers),
        "name": "silt spark sink",
        "connect_timeout": max(1, int(options.ack_seconds)),
        "reconnect_time_wait": 1,
        "max_reconnect_attempts": max(1, int(options.give_up_seconds)),
        "error_cb": _unheard,
        **chosen,
    }


async def _unheard(_error: Exception) -> None:
    """Take nats-py's report of a lost connection: what it does to messages, their acknowledgements tell."""
