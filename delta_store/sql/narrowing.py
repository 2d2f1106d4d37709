"""What a statement's WHERE says about a relation's subjects, sequences and times, so that files can be left out. Pure.

Only conditions that hold for every row of the answer count: those that AND joins at the top of the WHERE clause of a
SELECT from one relation alone. The statement keeps its conditions: what is not understood here costs time, not truth.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from delta_store.entries.settled_log import DataFile
from delta_store.sql.statement import Node
from delta_store.values.subjects import SubjectFilter

Range = tuple[int, int]
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_LAST_CHARACTER: Final = "\U0010ffff"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PREFIX_FUNCTIONS: Final = frozenset(("starts_with", "prefix", "^@"))
_MOMENTS: Final = frozenset(("timestamp", "timestamptz", "timestamp with time zone"))
_MIRRORED: Final = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}


@dataclass(frozen=True, slots=True)
class Narrow:
    """Bounds, all inclusive, outside of which no row is asked for."""

    subjects: tuple[tuple[str, str], ...] | None = None
    """Ranges of subjects, any of which; None for all."""
    seq: Range = (_LOWEST, _HIGHEST)
    ts_ns: Range = (_LOWEST, _HIGHEST)

    def admits(self, file: DataFile) -> bool:
        """Whether rows within the bounds can be in a file of messages, by its statistics."""
        if file.seq[0] > self.seq[1] or file.seq[1] < self.seq[0]:
            return False
        if file.ts_ns[0] > self.ts_ns[1] or file.ts_ns[1] < self.ts_ns[0]:
            return False
        if self.subjects is None or file.subject is None:
            return True
        low, high = file.subject
        return any(first <= high and low <= last for first, last in self.subjects)


EVERYTHING: Final = Narrow()


def subject_range(prefix: str) -> tuple[str, str]:
    """Return the range of the subjects that begin with a text."""
    return prefix, prefix + _LAST_CHARACTER


def of_filter(chosen: SubjectFilter) -> tuple[tuple[str, str], ...] | None:
    """Return the ranges of the subjects that a filter may match; None for all."""
    if chosen.starts is None:
        return None
    return (*((one, one) for one in sorted(chosen.literals)), *map(subject_range, chosen.starts))


def narrowed(tree: Node, values: Mapping[str, Any]) -> dict[int, Narrow]:
    """Return the bounds of each relation that is alone in the FROM of a SELECT, by the id of its node.

    ``values`` are the statement's parameters.
    """
    found: dict[int, Narrow] = {}
    for select in _selects(tree):
        relation, where = select["from_table"], select["where_clause"]
        if relation["type"] not in ("BASE_TABLE", "TABLE_FUNCTION") or where is None:
            continue
        if relation.get("sample") is None and select["sample"] is None and not relation["column_name_alias"]:
            function = relation.get("function") or {}
            name = relation["alias"] or relation.get("table_name") or function.get("function_name", "")
            found[id(relation)] = _Reader(name.lower(), values).bounds(where)
    return found


def _selects(tree: Any) -> Iterator[Node]:
    """Iterate over the SELECT nodes of a tree."""
    if isinstance(tree, dict):
        if tree.get("type") == "SELECT_NODE":
            yield tree
        for part in tree.values():
            yield from _selects(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from _selects(part)


def _conjuncts(condition: Node) -> Iterator[Node]:
    if condition.get("type") == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from _conjuncts(part)
    else:
        yield condition


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the conditions on one relation."""

    relation: str
    """Its name in the statement, in lower case."""
    values: Mapping[str, Any]

    def bounds(self, where: Node) -> Narrow:
        narrow = EVERYTHING
        for condition in _conjuncts(where):
            narrow = self._with(narrow, condition)
        return narrow

    def _with(self, narrow: Narrow, condition: Node) -> Narrow:
        kind = condition.get("type")
        if kind in _MIRRORED:
            left, right = condition["left"], condition["right"]
            if self._column(left) is None:
                left, right, kind = right, left, _MIRRORED[kind]
            return _compared(narrow, self._column(left), kind, [self._value(right)])
        if kind == "COMPARE_BETWEEN":
            column, low, high = self._column(condition["input"]), condition["lower"], condition["upper"]
            narrow = _compared(narrow, column, "COMPARE_GREATERTHANOREQUALTO", [self._value(low)])
            return _compared(narrow, column, "COMPARE_LESSTHANOREQUALTO", [self._value(high)])
        if kind == "COMPARE_IN":
            column, *items = condition["children"]
            return _compared(narrow, self._column(column), kind, [self._value(item) for item in items])
        if kind == "FUNCTION":
            return self._prefixed(narrow, condition)
        return narrow

    def _prefixed(self, narrow: Narrow, condition: Node) -> Narrow:
        arguments = [argument["expression"] for argument in condition["arguments"]]
        if len(arguments) != 2 or self._column(arguments[0]) != "subject" or narrow.subjects is not None:
            return narrow
        text, name = self._value(arguments[1]), condition["function_name"]
        if not isinstance(text, str) or (name != "~~" and name not in _PREFIX_FUNCTIONS):
            return narrow
        if name == "~~":
            text = re.split("[%_]", text, maxsplit=1)[0]
        return replace(narrow, subjects=(subject_range(text),)) if text else narrow

    def _column(self, expression: Node) -> str | None:
        """Return the relation's column that an expression is; None for anything else."""
        if expression.get("class") != "COLUMN_REF":
            return None
        *of, name = (part.lower() for part in expression["column_names"])
        return name if of in ([], [self.relation]) else None

    def _value(self, expression: Node) -> Any:
        """Return the value of a constant or parameter; None for anything else."""
        if expression.get("class") == "PARAMETER":
            return self.values.get(str(expression["identifier"]))
        if expression.get("class") == "CAST":
            kind = str(expression["type_expr"].get("type_name", "")).lower()
            return self._value(expression["child"]) if kind in _MOMENTS else None
        literal = expression.get("literal")
        if not isinstance(literal, dict):
            return None
        if literal["kind"] == "INTEGER":
            return int(literal["text"])
        return literal["text"] if literal["kind"] == "STRING" else None


def _compared(narrow: Narrow, column: str | None, kind: str, given: Sequence[Any]) -> Narrow:
    if column == "subject":
        texts = kind in ("COMPARE_EQUAL", "COMPARE_IN") and all(isinstance(one, str) for one in given)
        if texts and narrow.subjects is None:
            return replace(narrow, subjects=tuple((one, one) for one in given))
        return narrow
    moments = [_nanoseconds(one) if column == "time" else one for one in given]
    numbers = [one for one in moments if type(one) is int]
    if column not in ("seq", "ts_ns", "time") or len(numbers) < len(given):
        return narrow
    low, high = _LOWEST, _HIGHEST
    if not kind.startswith("COMPARE_LESS"):
        low = min(numbers)
    if not kind.startswith("COMPARE_GREATER"):
        high = max(numbers) + (999 if column == "time" else 0)  # a time is cut off to microseconds
    if column == "seq":
        return replace(narrow, seq=(max(narrow.seq[0], low), min(narrow.seq[1], high)))
    return replace(narrow, ts_ns=(max(narrow.ts_ns[0], low), min(narrow.ts_ns[1], high)))


def _nanoseconds(moment: Any) -> int | None:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if not isinstance(moment, datetime):
        return None
    since: timedelta = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return since // timedelta(microseconds=1) * 1000
