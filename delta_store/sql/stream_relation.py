"""The one definition of a stream as a relation: its live messages at a point, as SQL for DuckDB and for Spark. Pure.

A message is live when it lies within the bounds of the point, no row up to the point evicts it, and it is in no range
that was removed: the recorded effects and nothing else, as in :mod:`delta_store.reading.state_at`. Conditions and joins
that can't leave out a row are left out themselves.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from delta_store.reading.state_at import END
from delta_store.values.records import HEADERS_OVERHEAD, MESSAGE_OVERHEAD
from delta_store.values.subjects import SubjectFilter, expression, literal

RAW: Final = ("subject", "seq", "ts_ns", "headers", "data", "msg_id", "size")
"""Columns of a stream's relation as stored."""
PAYLOAD: Final = frozenset(("headers", "data", "text", "json"))
"""Columns of a stream's view that are made of payloads."""
INLINE_RANGES_MAX: Final = 32
"""Removed ranges that are written into the statement; more are a relation of their own."""


class SqlDialect(Protocol):
    """What DuckDB and Spark write differently."""

    def name(self, name: str) -> str:
        """Quote an identifier."""
        ...

    def literal(self, text: str) -> str:
        """Write a text."""
        ...

    def bytes(self, column: str, *, text: bool = False) -> str:
        """Return the length in bytes."""
        ...

    def time(self, ns: str) -> str:
        """Convert ns since 1970 to a timestamp with microseconds, in UTC."""
        ...

    def text(self, data: str) -> str:
        """Decode UTF-8; NULL for other bytes."""
        ...

    def json(self, text: str) -> str:
        """Return the text where it is JSON, else NULL."""
        ...

    def json_field(self, text: str, name: str) -> str:
        """Return a field of a JSON object as text."""
        ...

    def headers(self, block: str) -> str:
        """Convert a raw header block to a map of lists of values."""
        ...

    def tokens(self, subject: str) -> str:
        """Split a subject at its dots."""
        ...

    def starts(self, text: str, prefix: str) -> str:
        """Return the condition that a text begins with another."""
        ...

    def matches(self, subject: str, expression: str) -> str:
        """Return the condition that a regular expression matches the whole subject."""
        ...

    def of_highest(self, column: str, by: str) -> str:
        """Return the aggregate of a column's value, NULL too, in the row where another is highest."""
        ...

    def without_ranges(self, rows: str, ranges: str) -> str:
        """Return the rows of a relation whose ``seq`` is in none of a relation's disjoint ranges (low, high)."""
        ...


@dataclass(frozen=True, slots=True)
class StreamRelation:
    """One incarnation of a stream at a point. Its relations are written as they stand behind FROM."""

    stream_id: int
    settled: str | None
    """Settled messages, with the columns of ``messages``; files that can't matter may be left out."""
    tail: str | None
    """Messages above the watermark, with the columns of the journal, of this incarnation and up to the point alone."""
    up_to_seq: int
    first_seq: int
    ranges: tuple[tuple[int, int], ...] = ()
    """Removed ranges, disjoint."""
    range_table: str | None = None
    """The same as a relation with the columns low and high, where they are many."""
    evicting: str | None = None
    """The settled messages that may have evicted one, if there are any."""
    tail_evicts: bool = False
    oldest: str | None = None
    """An expression: messages at or before this time, in ns, have outlived ``max_age``."""
    alone: bool = False
    """Whether ``settled`` holds nothing but messages of this incarnation up to ``up_to_seq``."""
    settled_seqs: tuple[int, int] = (1, END)
    """The lowest and the highest sequence that ``settled`` may hold."""


def live_messages(relation: StreamRelation, dialect: SqlDialect, condition: str = "") -> str:
    """Return the query of the live messages, with the columns :data:`RAW`; ``condition`` may choose some by subject."""
    rows = _rows(relation, dialect)
    if relation.range_table is not None:
        rows = dialect.without_ranges(rows, relation.range_table)
    conditions = [condition] if condition else []
    if relation.range_table is None:
        conditions += [f"NOT m.seq BETWEEN {low} AND {high}" for low, high in relation.ranges]
    if relation.oldest is not None:
        conditions.append(f"m.ts_ns > {relation.oldest}")
    if evictions := _evictions(relation):
        conditions.append(f"NOT EXISTS (SELECT 1 FROM ({evictions}) AS e WHERE e.gone = m.seq)")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(f'm.{name}' for name in RAW)} FROM ({rows}) AS m{where}"


def messages_view(raw: str, dialect: SqlDialect, named: frozenset[str] | None = None) -> str:
    """Return the query of a stream's view over its live messages.

    With ``named``, columns that are computed are left out unless they are among these.
    """
    text = dialect.text("data")
    computed = {
        "time": dialect.time("ts_ns"),
        "headers": dialect.headers("headers"),
        "text": text,
        "json": dialect.json(text),
        "tokens": dialect.tokens("subject"),
    }
    columns = [
        f"{computed[name]} AS {name}" if name in computed else name
        for name in ("subject", "seq", "time", "ts_ns", "headers", "data", "text", "json", "tokens", "msg_id", "size")
        if named is None or name in named or name not in computed
    ]
    return f"SELECT {', '.join(columns)} FROM ({raw}) AS live"


def last_of_each(raw: str) -> str:
    """Return the query of the last message of each subject."""
    return f"SELECT * FROM ({raw}) AS l WHERE l.seq IN (SELECT max(seq) FROM ({raw}) AS n GROUP BY subject)"


def last_without_payload(raw: str, dialect: SqlDialect) -> str:
    """Return the query of a stream's view, without the columns :data:`PAYLOAD`, over the last message of each subject.

    Rows are read once, and none is fetched by its sequence.
    """
    kept = ", ".join(f"{dialect.of_highest(name, 'seq')} AS {name}" for name in ("ts_ns", "msg_id", "size"))
    return (
        f"SELECT subject, seq, {dialect.time('ts_ns')} AS time, ts_ns, {dialect.tokens('subject')} AS tokens, msg_id,"
        f" size FROM (SELECT subject, max(seq) AS seq, {kept} FROM ({raw}) AS n GROUP BY subject) AS l"
    )


def difference(before: str, after: str) -> str:
    """Return the query of the subjects whose last message differs between two of :func:`last_without_payload`."""
    sides = "".join(f", a.{name} AS {name}_before, b.{name} AS {name}_after" for name in ("seq", "time"))
    return (
        "SELECT coalesce(a.subject, b.subject) AS subject, CASE WHEN a.seq IS NULL THEN 'added'"
        f" WHEN b.seq IS NULL THEN 'removed' ELSE 'changed' END AS change{sides}"
        f" FROM ({before}) AS a FULL OUTER JOIN ({after}) AS b ON a.subject = b.subject"
        " WHERE a.seq IS DISTINCT FROM b.seq"
    )


def with_payloads(changed: str, before: str, after: str, dialect: SqlDialect) -> str:
    """Return the query of a :func:`difference` with both payloads, from the live messages of both sides."""
    texts = f"{dialect.text('a.data')} AS text_before, {dialect.text('b.data')} AS text_after"
    return (
        f"SELECT c.*, a.data AS data_before, b.data AS data_after, {texts} FROM ({changed}) AS c"
        f" LEFT JOIN ({before}) AS a ON a.seq = c.seq_before LEFT JOIN ({after}) AS b ON b.seq = c.seq_after"
    )


def subject_condition(chosen: SubjectFilter, dialect: SqlDialect) -> str:
    """Return the condition on ``m.subject`` that a filter matches it; empty for all."""
    if chosen.matches_all:
        return ""
    conditions = []
    if chosen.literals:
        conditions.append(f"m.subject IN ({', '.join(map(dialect.literal, sorted(chosen.literals)))})")
    below = [one.removesuffix(">") for one in chosen.filters if literal(one.removesuffix(".>")) and one.endswith(".>")]
    conditions += [f"({dialect.starts('m.subject', one)} AND m.subject <> {dialect.literal(one)})" for one in below]
    known = {*chosen.literals, *(f"{one}>" for one in below)}
    expressions = [expression(one) for one in chosen.filters if one not in known]
    if expressions:
        conditions.append(dialect.matches("m.subject", "|".join(expressions)))
    return f"({' OR '.join(conditions)})" if conditions else "false"


def _rows(relation: StreamRelation, dialect: SqlDialect) -> str:
    bounds = [] if relation.first_seq <= 1 else [f"seq >= {relation.first_seq}"]
    parts = []
    if relation.settled is not None:
        low, high = relation.settled_seqs
        inside = [] if relation.alone else [f"stream_id = {relation.stream_id}", "kind = 'message'"]
        inside += bounds if low < relation.first_seq else []
        if relation.up_to_seq < high:
            inside.append(f"seq <= {relation.up_to_seq}")
        parts.append(f"SELECT {', '.join(RAW)} FROM {relation.settled}{_where(inside)}")
    if relation.tail is not None:
        parts.append(f"SELECT {', '.join(RAW[:-1])}, {_size(dialect)} AS size FROM {relation.tail}{_where(bounds)}")
    assert parts
    return " UNION ALL ".join(parts)


def _evictions(relation: StreamRelation) -> str:
    parts = []
    if relation.evicting is not None:
        inside = ["evicts > 0", "kind = 'message'", f"stream_id = {relation.stream_id}"]
        if relation.up_to_seq < END:
            inside.append(f"seq <= {relation.up_to_seq}")
        parts.append(f"SELECT evicts AS gone FROM {relation.evicting}{_where(inside)}")
    if relation.tail_evicts:
        parts.append(f"SELECT evicts AS gone FROM {relation.tail} WHERE evicts > 0")
    return " UNION ALL ".join(parts)


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _size(dialect: SqlDialect) -> str:
    """Return :func:`delta_store.values.records.stored_size` as an expression."""
    headers = dialect.bytes("headers")
    return (
        f"{MESSAGE_OVERHEAD} + {dialect.bytes('subject', text=True)} + {dialect.bytes('data')}"
        f" + CASE WHEN {headers} > 0 THEN {HEADERS_OVERHEAD} + {headers} ELSE 0 END"
    )
