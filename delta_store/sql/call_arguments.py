"""The arguments of a call of Silt's table functions: streams, subject filters, points."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from delta_store.sql.duck_session import DuckSession
from delta_store.sql.sql_errors import SqlError, invalid
from delta_store.sql.statement import Call, Node, value_query
from delta_store.values.as_of import AsOf, NotAPoint, moment, parse_as_of
from delta_store.values.subjects import SubjectFilter, valid


class Arguments:
    """The arguments of one call; each is a constant, a parameter, or an expression of these."""

    def __init__(self, session: DuckSession, call: Call, values: Mapping[str, Any], *, now_ns: int) -> None:
        """Take parameters from ``values``; ages count back from ``now_ns``."""
        self._session, self._call, self._values = session, call, values
        self._now = moment(now_ns)

    def stream(self) -> str:
        """Return the stream's name, which may be written with or without quotes."""
        return self._text("stream", self._value("stream"))

    def subjects(self, name: str) -> SubjectFilter:
        """Return a subject filter: a text or a list of them."""
        value = self._value(name)
        filters = [self._text(name, one) for one in (value if isinstance(value, list | tuple) else [value])]
        for one in filters:
            if not valid(one):
                raise invalid(f"{self._call.function}: {one!r} is no subject filter")
        return SubjectFilter(filters)

    def point(self, name: str, default: AsOf | None = None) -> AsOf:
        """Return a point as :func:`parse_as_of` does, or of a number or a time; ``default`` where none is given."""
        if name not in self._call.arguments and default is not None:
            return default
        value = self._value(name)
        if type(value) is int:
            value = str(value)
        if isinstance(value, datetime):
            return AsOf.at(value if value.tzinfo else value.replace(tzinfo=UTC))
        if isinstance(value, date):
            value = value.isoformat()
        try:
            return parse_as_of(self._text(name, value), now=self._now)
        except NotAPoint as error:
            raise invalid(f"{self._call.function}: {error}") from None

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise invalid(f"{self._call.function}: {name} can't be {value!r}")
        return value

    def _value(self, name: str) -> Any:
        function, node = self._call.function, self._call.arguments.get(name)
        if node is None:
            raise invalid(f"{function} needs {name}")
        if node.get("class") == "PARAMETER":
            if node["identifier"] not in self._values:
                raise invalid(f"{function}: there is no parameter {node['identifier']}")
            return self._values[node["identifier"]]
        return self._constant(name, node)

    def _constant(self, name: str, node: Node) -> Any:
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1:
            return node["column_names"][0]
        literal = node.get("literal")
        if isinstance(literal, dict) and literal["kind"] in ("STRING", "INTEGER"):
            return literal["text"] if literal["kind"] == "STRING" else int(literal["text"])
        try:
            return self._session.value(self._session.written(value_query(node)))
        except SqlError as error:
            raise invalid(f"{self._call.function}: {name}: {error}") from error
