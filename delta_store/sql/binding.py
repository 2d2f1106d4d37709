"""The views and calls that a statement names, bound to relations over the store's state."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from delta_store.sql.bucket_relation import HISTORY_SUFFIX, STREAM_PREFIX, bucket_of, history_view, values_view
from delta_store.sql.call_arguments import Arguments
from delta_store.sql.duck_session import DuckSession
from delta_store.sql.named_columns import named_columns
from delta_store.sql.narrowing import EVERYTHING, Narrow, narrowed, of_filter
from delta_store.sql.relations import Relations
from delta_store.sql.report_relation import CONSUMERS_VIEW, STREAMS_VIEW, consumers_query, streams_query
from delta_store.sql.sql_errors import invalid
from delta_store.sql.statement import ALL_NAMES, Call, Node, Statement
from delta_store.sql.store_state import StoreState
from delta_store.sql.stream_relation import (
    PAYLOAD,
    difference,
    last_of_each,
    last_without_payload,
    messages_view,
    with_payloads,
)
from delta_store.values.as_of import NOW, moment
from delta_store.values.read_errors import NoSuchStream
from delta_store.values.settling import Settling

BUCKET_VIEW: Final = "kv_"
_MOMENT: Final = pa.timestamp("us", tz="UTC")
_VERSIONS: Final = pa.schema(
    [
        ("version", pa.int64()),
        ("committed", _MOMENT),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("first_time", _MOMENT),
        ("last_time", _MOMENT),
    ]
)
Readable = Callable[[str], bool]
"""Whether a stream may be read."""
Columns = frozenset[str] | None
"""The columns that a statement may name; None for all."""


def every_stream(_stream: str) -> bool:
    """Let every stream be read."""
    return True


class Binding:
    """Gives a session what one statement names. Used by one thread, once."""

    def __init__(self, session: DuckSession, state: StoreState, readable: Readable) -> None:
        """Bind to the streams that are ``readable``; others don't exist for the statement."""
        self._session, self._state, self._readable = session, state, readable
        self.relations: Final = Relations(session, state)

    def bind(self, statement: Statement, values: Mapping[str, Any]) -> None:
        """Create the views that a statement names, and put relations in place of its calls.

        ``values`` are its parameters by name. Raises :class:`delta_store.sql.sql_errors.SqlError` or a read error.
        """
        bounds, named = narrowed(statement.tree, values), named_columns(statement.tree)
        uses = Counter(use.name.lower() for use in statement.tables)
        created: dict[str, str] = {}
        for name, node in statement.tables:
            if created.setdefault(name.lower(), name) != name:
                raise invalid(f"{created[name.lower()]!r} and {name!r} can't stand in one statement: SQL knows no case")
            if uses.pop(name.lower(), 0):
                uses_of = [one.node for one in statement.tables if one.name == name]
                narrow = bounds.get(id(node), EVERYTHING) if len(uses_of) == 1 else EVERYTHING
                self._create(name, narrow, _columns(uses_of, name, named), statement.defined)
        for number, call in enumerate(statement.calls):
            name = f"silt.{call.function}.{number}"
            given = Arguments(self._session, call, values, now_ns=self._state.now_ns)
            columns = _columns([call.node], call.function, named)
            query = self._called(call, given, bounds.get(id(call.node), EVERYTHING), columns)
            self._session.view(self.relations.dialect.name(name), query)
            call.read_from(name)

    def _create(self, name: str, narrow: Narrow, columns: Columns, defined: frozenset[str]) -> None:
        """Create a view, or an empty shadow for a name that a WITH clause defines.

        Outside of the clause's reach such a name would stand for what DuckDB itself has of it: a catalog, a file.
        """
        query = self._view(name, narrow, columns)
        if query is None and name.lower() not in defined:
            raise invalid(f"there is no view {name!r}: SHOW TABLES lists them")
        shadow = f"SELECT NULL AS {self.relations.dialect.name(name)} WHERE false"
        self._session.view(self.relations.dialect.name(name), query or shadow)

    def _view(self, name: str, narrow: Narrow, columns: Columns) -> str | None:
        """Return the query of a view; None if there is none of this name."""
        own = {ALL_NAMES: self._names, STREAMS_VIEW: self._streams, CONSUMERS_VIEW: self._consumers}
        if name.lower() in own:
            return own[name.lower()]()
        for spelled in chain((name,), self._spellings(name)):
            if self._is_readable(spelled):
                return messages_view(self.relations.messages(spelled, narrow=narrow), self.relations.dialect, columns)
            if spelled.startswith(BUCKET_VIEW):
                bucket, history = spelled.removeprefix(BUCKET_VIEW), False
                if not self._is_readable(STREAM_PREFIX + bucket) and bucket.endswith(HISTORY_SUFFIX):
                    bucket, history = bucket.removesuffix(HISTORY_SUFFIX), True
                if self._is_readable(STREAM_PREFIX + bucket):
                    return self._bucket(bucket, history=history)
        return None

    def _spellings(self, name: str) -> Iterator[str]:
        """Iterate over the views' names that differ from this one in case only; read when the name itself is none's."""
        yield from (one for one in self.names() if one != name and one.lower() == name.lower())

    def _bucket(self, bucket: str, *, history: bool) -> str:
        dialect, raw = self.relations.dialect, self.relations.messages(STREAM_PREFIX + bucket)
        if history:
            return history_view(raw, bucket, dialect)
        return values_view(history_view(last_of_each(raw), bucket, dialect))

    def names(self) -> list[str]:
        """Return the names of all views."""
        streams = list(filter(self._readable, self._state.heads))
        buckets = [bucket for name in streams if (bucket := bucket_of(name)) is not None]
        views = [f"{BUCKET_VIEW}{bucket}{suffix}" for bucket in buckets for suffix in ("", HISTORY_SUFFIX)]
        return sorted({*streams, *views, STREAMS_VIEW, CONSUMERS_VIEW})

    def _names(self) -> str:
        return f"SELECT * FROM {self.relations.table(pa.table({'name': pa.array(self.names(), pa.string())}))}"

    def _streams(self) -> str:
        heads = [head for name, head in self._state.heads.items() if self._is_readable(name)]
        reports = [self._state.report(head, self.relations.messages(head.stream)) for head in heads]
        return streams_query(reports, self.relations.dialect)

    def _consumers(self) -> str:
        heads = [head for name, head in self._state.heads.items() if self._is_readable(name)]
        files, tail = self._state.consumer_events()
        events = [self.relations.table(tail), *([self.relations.source(CONSUMERS_VIEW, files)] if files else [])]
        return consumers_query(heads, events, self.relations.dialect)

    def _called(self, call: Call, given: Arguments, narrow: Narrow, columns: Columns) -> str:
        """Return the query of a call, with ``columns`` at least."""
        stream = given.stream()
        if not self._is_readable(stream):
            raise NoSuchStream(stream)
        read, dialect = self.relations.messages, self.relations.dialect
        by_subject = replace(narrow, seq=EVERYTHING.seq, ts_ns=EVERYTHING.ts_ns)
        match call.function:
            case "as_of":
                return messages_view(read(stream, given.point("point"), narrow=narrow), dialect, columns)
            case "multi_last":
                chosen = given.subjects("filter")
                narrow = replace(by_subject, subjects=by_subject.subjects or of_filter(chosen))
                raw = read(stream, given.point("point", NOW), narrow=narrow, subjects=chosen)
                if _has_payload(columns):
                    return messages_view(last_of_each(raw), dialect, columns)
                return last_without_payload(raw, dialect)
            case "diff":
                before, after = (read(stream, given.point(name), narrow=by_subject) for name in ("a", "b"))
                changed = difference(*(last_without_payload(raw, dialect) for raw in (before, after)))
                return with_payloads(changed, before, after, dialect) if _has_payload(columns) else changed
            case _:
                return f"SELECT * FROM {self.relations.table(_versions(self._state.settlings(stream)))}"

    def _is_readable(self, stream: str) -> bool:
        return self._readable(stream) and self._state.exists(stream)


def _columns(uses: Iterable[Node], name: str, named: Columns) -> Columns:
    """Return the columns that a statement may name of a relation: all where it may name whole rows, by its name."""
    names = {name.lower(), *(node["alias"].lower() for node in uses)}
    return None if named is None or not named.isdisjoint(names) else named


def _has_payload(columns: Columns) -> bool:
    """Whether a payload, of either side, may be among the columns."""
    sides = {f"{name}_{side}" for name in PAYLOAD for side in ("before", "after")}
    return columns is None or not columns.isdisjoint(PAYLOAD | sides)


def _versions(settlings: Iterable[Settling]) -> pa.Table:
    rows = [
        (one.version, one.committed, one.first_seq, one.last_seq, moment(one.first_ts_ns), moment(one.last_ts_ns))
        for one in sorted(settlings)
    ]
    return pa.Table.from_pylist([dict(zip(_VERSIONS.names, row, strict=True)) for row in rows], schema=_VERSIONS)
