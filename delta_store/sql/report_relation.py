"""The streams and consumers of a store as relations. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from delta_store.sql.stream_relation import SqlDialect
from delta_store.values.stream_head import Head

STREAMS_VIEW: Final = "silt_streams"
CONSUMERS_VIEW: Final = "silt_consumers"


class StreamReport(NamedTuple):
    """What is told of a stream."""

    head: Head
    raw: str
    """The query of its live messages."""
    first_seq: int
    """Its first sequence where no message is left."""
    last_seq: int
    settled_seq: int


_NOTHING: Final = StreamReport(
    Head("", 0, 0, ""),
    "SELECT '' AS subject, CAST(0 AS BIGINT) AS seq, CAST(0 AS BIGINT) AS ts_ns, CAST(0 AS BIGINT) AS size",
    0,
    0,
    0,
)


def streams_query(reports: Sequence[StreamReport], dialect: SqlDialect) -> str:
    """Return the query of :data:`STREAMS_VIEW`: streams with their state as in stream info."""
    if not reports:
        return f"SELECT * FROM ({_stream_query(_NOTHING, dialect)}) AS nothing WHERE false"
    return " UNION ALL ".join(_stream_query(report, dialect) for report in reports)


def _stream_query(report: StreamReport, dialect: SqlDialect) -> str:
    head, raw, first_seq, last_seq, settled_seq = report
    return (
        f"SELECT {dialect.literal(head.stream)} AS name, {dialect.time(str(head.created_ns))} AS created,"
        " count(*) AS messages, CAST(coalesce(sum(size), 0) AS BIGINT) AS bytes, count(DISTINCT subject) AS subjects,"
        f" coalesce(min(seq), {first_seq}) AS first_seq, CAST({last_seq} AS BIGINT) AS last_seq,"
        f" {dialect.time('min(ts_ns)')} AS first_time, {dialect.time('max(ts_ns)')} AS last_time,"
        f" CAST({settled_seq} AS BIGINT) AS settled_seq, {dialect.literal(head.config)} AS config"
        f" FROM ({raw}) AS live"
    )


def consumers_query(heads: Iterable[Head], events: Iterable[str], dialect: SqlDialect) -> str:
    """Return the query of :data:`CONSUMERS_VIEW`; ``events`` are relations with consumers' rows among others."""
    pairs = [(head.stream, head.stream_id) for head in heads] or [("", 0)]
    named = ", ".join(f"({dialect.literal(stream)}, {stream_id})" for stream, stream_id in pairs)
    columns = "stream_id, subject, seq, event_no, kind, data"
    rows = " UNION ALL ".join(
        f"SELECT {columns} FROM {one} WHERE kind IN ('consumer', 'consumer_delete')" for one in events
    )
    said = dialect.text("data")
    created, config = (dialect.json_field(said, name) for name in ("created_ns", "config"))
    return (
        f"SELECT h.stream, c.subject AS name, {dialect.time(f'CAST({created} AS BIGINT)')} AS created,"
        f" {config} AS config FROM (SELECT *, row_number() OVER"
        f" (PARTITION BY stream_id, subject ORDER BY seq DESC, event_no DESC) AS place FROM ({rows}) AS r) AS c"
        f" JOIN (VALUES {named}) AS h(stream, stream_id) ON c.stream_id = h.stream_id"
        " WHERE c.place = 1 AND c.kind = 'consumer'"
    )
