"""Key-value buckets as relations: the latest values, and the history. Pure."""

from typing import Final

from delta_store.sql.stream_relation import SqlDialect

STREAM_PREFIX: Final = "KV_"
HISTORY_SUFFIX: Final = "_history"
_OPERATION: Final = r"(?im)^KV-Operation:[ \t]*([A-Za-z]+)"
_MARKER: Final = r"(?im)^(Nats-Marker-Reason:)"


def bucket_of(stream: str) -> str | None:
    """Return the bucket whose stream this is; None for other streams."""
    return stream.removeprefix(STREAM_PREFIX) if stream.startswith(STREAM_PREFIX) else None


def history_view(raw: str, bucket: str, dialect: SqlDialect) -> str:
    """Return the query of a bucket's entries, deletions and purges included; a limit's delete marker is a PURGE."""
    prefix = f"$KV.{bucket}."
    headers = f"coalesce({dialect.text('headers')}, '')"
    marked, named = (f"regexp_extract({headers}, {dialect.literal(one)}, 1)" for one in (_MARKER, _OPERATION))
    text = dialect.text("data")
    return (
        f"SELECT substring(subject, {len(prefix) + 1}) AS key, seq AS revision, CASE WHEN {marked} <> '' THEN 'PURGE'"
        f" WHEN {named} = '' THEN 'PUT' ELSE upper({named}) END AS operation, data AS value, {text} AS text,"
        f" {dialect.json(text)} AS json, {dialect.time('ts_ns')} AS created"
        f" FROM ({raw}) AS live WHERE {dialect.starts('subject', prefix)}"
    )


def values_view(history_of_last: str) -> str:
    """Return the query of a bucket's values; takes the history view of the last messages of each subject."""
    return (
        f"SELECT key, value, text, json, revision, created FROM ({history_of_last}) AS newest WHERE operation = 'PUT'"
    )
