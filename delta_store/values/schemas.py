"""The columns of the tables: this is the storage layout. Names, types and order are persisted and must not change.

``journal/``   the rows in commit order: one Parquet file a commit, append only, no partitions. A row is a
               message or an event (:mod:`delta_store.values.records`). Rows leave once they are settled.
``messages/``  the settled rows, partitioned by ``(stream, subject_partition)``; events are kept beside the messages
               under ``subject_partition = "$events"``, those of consumers under ``"$consumers"``: their states are
               many and large, and reads of a stream's events or messages never open their files. Messages of
               small batches are under ``"$recent"`` until compaction spreads them by subject.
``heads/``     how far each stream is settled, and by which versions its states are read; derived from ``messages``.
``removed/``   the messages of ``messages`` that are not live any more, while they are there; derived likewise.

All tables stay at Delta reader 1 / writer 2: no table feature, no deletion vector, so that delta-rs and Delta for
Spark can always read them. All columns are nullable to Delta, as engines differ in what they do to a table with
NOT NULL; the files of the journal still mark those that are never null as required.
"""

import json
from typing import Any, Final, NamedTuple

import pyarrow as pa

JOURNAL_FOLDER: Final = "journal"
MESSAGES_FOLDER: Final = "messages"
HEADS_FOLDER: Final = "heads"
REMOVED_FOLDER: Final = "removed"
LOG_FOLDER: Final = "_delta_log"
"""The log's folder, inside each table's folder."""
MESSAGES_PARTITION_COLUMNS: Final = ("stream", "subject_partition")
EVENTS_PARTITION: Final = "$events"
"""``subject_partition`` of the event rows of ``messages``."""
CONSUMERS_PARTITION: Final = "$consumers"
"""``subject_partition`` of the rows of consumers."""
RECENT_PARTITION: Final = "$recent"
"""``subject_partition`` of messages of any subject that are not spread by subject yet."""
MIN_READER_VERSION: Final = 1
MIN_WRITER_VERSION: Final = 2


class Column(NamedTuple):
    """One column of a table."""

    name: str
    delta_type: str
    """The type's name in Delta: ``string``, ``long``, ``binary`` or ``boolean``."""
    nullable: bool
    meaning: str

    @property
    def arrow_type(self) -> pa.DataType:
        """The type in Arrow."""
        return _ARROW_TYPES[self.delta_type]


_ARROW_TYPES: Final = {"string": pa.string(), "long": pa.int64(), "binary": pa.binary(), "boolean": pa.bool_()}

JOURNAL_COLUMNS: Final = (
    Column("stream", "string", False, "Name of the stream"),
    Column("stream_id", "long", False, "Creation time of the stream, ns since 1970: one incarnation of a name"),
    Column("seq", "long", False, "Sequence of the message; of an event, the last sequence before it"),
    Column("event_no", "long", False, "Number of events of the stream so far; orders events of one seq"),
    Column("kind", "string", False, "message, or the event: remove, stream[_delete], consumer[_delete|_state]"),
    Column("subject", "string", False, "Subject of the message; of a consumer's event, its name; else empty"),
    Column("ts_ns", "long", False, "When the row was decided, ns since 1970, increasing along a stream"),
    Column("msg_id", "string", True, "Nats-Msg-Id of the message"),
    Column("first_seq", "long", False, "First sequence of the stream once this row is applied"),
    Column("evicts", "long", False, "Sequence that a per-subject limit removed for this row; 0 for none"),
    Column("headers", "binary", True, "Raw header block as published"),
    Column("data", "binary", False, "Payload of the message; of an event, its JSON"),
    Column("crc", "long", False, "CRC-32 over subject, headers and data"),
)
MESSAGES_COLUMNS: Final = (
    *JOURNAL_COLUMNS,
    Column("size", "long", False, "Bytes the message counts for in max_bytes"),
    Column(
        "subject_partition", "string", False, "Layout: the subject, a bucket b00…b15, $recent, $events or $consumers"
    ),
)
HEADS_COLUMNS: Final = (
    Column("stream", "string", False, "Name of the stream"),
    Column("stream_id", "long", False, "Its incarnation, as in messages"),
    Column("first_seq", "long", False, "First sequence of the stream: messages below it are not live"),
    Column("watermark", "long", False, "Last settled sequence: messages behind it are not live yet"),
    Column("event_no", "long", False, "Number of its events that are settled"),
    Column("ts_ns", "long", False, "When its last settled row was decided, ns since 1970"),
    Column("version", "long", False, "Version of messages that has all of this"),
    Column("removed_version", "long", False, "Version of removed that belongs to it"),
    Column("from_seq", "long", False, "First sequence whose state these versions hold"),
    Column("from_ns", "long", False, "First time whose state these versions hold, ns since 1970"),
    Column("settled_ns", "long", False, "When this row was written, ns since 1970"),
    Column("created_ns", "long", False, "When the stream was created, ns since 1970"),
    Column("config", "string", True, "Configuration of the stream as JSON; null once it is deleted"),
)
REMOVED_COLUMNS: Final = (
    Column("stream", "string", False, "Name of the stream"),
    Column("stream_id", "long", False, "Its incarnation, as in messages"),
    Column("low", "long", False, "First of the sequences that are not live any more"),
    Column("high", "long", False, "Last of them"),
    Column("at_seq", "long", False, "First sequence whose state is without them"),
    Column("ts_ns", "long", False, "When they were removed, ns since 1970"),
    Column("erase", "boolean", False, "Whether earlier states are without them as well"),
    Column("reason", "string", False, "evicted by a later message of the subject, or the reason of the removal"),
    Column("version", "long", False, "Version of messages from which on this holds"),
    Column("until_ns", "long", False, "When this row goes, as messages has them no more, ns since 1970; 0 before"),
)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of a table's rows; partition columns included."""
    return pa.schema([pa.field(column.name, column.arrow_type, nullable=column.nullable) for column in columns])


def delta_schema_string(columns: tuple[Column, ...]) -> str:
    """Return the ``schemaString`` of a table's Delta metadata."""
    fields: list[dict[str, Any]] = [
        {"name": column.name, "type": column.delta_type, "nullable": True, "metadata": {"comment": column.meaning}}
        for column in columns
    ]
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


def spark_ddl(columns: tuple[Column, ...]) -> str:
    """Return the columns as Spark's DDL, for ``CREATE TABLE`` and for a reader's schema."""
    return ", ".join(f"{column.name} {_DDL_TYPES[column.delta_type]}" for column in columns)


_DDL_TYPES: Final = {"string": "STRING", "long": "BIGINT", "binary": "BINARY", "boolean": "BOOLEAN"}

JOURNAL_SCHEMA: Final = arrow_schema(JOURNAL_COLUMNS)
MESSAGES_SCHEMA: Final = arrow_schema(MESSAGES_COLUMNS)
HEADS_SCHEMA: Final = arrow_schema(HEADS_COLUMNS)
REMOVED_SCHEMA: Final = arrow_schema(REMOVED_COLUMNS)
JOURNAL_DDL: Final = spark_ddl(JOURNAL_COLUMNS)
MESSAGES_DDL: Final = spark_ddl(MESSAGES_COLUMNS)
