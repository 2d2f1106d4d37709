"""Spark's filters on seq, time, subject and stream, as bounds of what is read. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from delta_store.reading.message_bounds import MessageBounds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SURE: Final = frozenset(("stream", "subject", "seq", "time", "ts_ns"))
"""Columns that are never null."""


class Pushed(NamedTuple):
    """What is read, after some filters have narrowed it."""

    bounds: MessageBounds
    streams: frozenset[str] | None = None
    """Streams to choose from; None for all."""


def pushed(before: Pushed, filters: Sequence[Filter]) -> tuple[Pushed, list[Filter]]:
    """Narrow what is read; return it with the filters that it does not fulfil, for Spark to apply."""
    left = []
    for one in filters:
        after = _narrowed(before, one)
        if after is None:
            left.append(one)
        else:
            before = after
    return before, left


def _narrowed(before: Pushed, one: Filter) -> Pushed | None:
    """Return what fulfils the filter too; None when that can't be told here."""
    attribute = getattr(one, "attribute", None)
    if attribute is None or len(attribute) != 1:
        return None
    match one, attribute[0]:
        case IsNotNull(), name if name in _SURE:
            after: Pushed | None = before
        case EqualTo(value=str(value)), "subject" | "stream":
            after = _among(before, attribute[0], {value})
        case In(value=values), "subject" | "stream" if all(isinstance(value, str) for value in values):
            after = _among(before, attribute[0], set(values))
        case StringStartsWith(value=start), "subject":
            after = _beginning(before, start)
        case ((EqualTo() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual()), name):
            after = _between(before, name, one)
        case _:
            after = None
    return after


def _among(before: Pushed, name: str, values: set[str]) -> Pushed:
    if name == "stream":
        return before._replace(streams=frozenset(values if before.streams is None else before.streams & values))
    known = before.bounds.subjects
    chosen = frozenset(values if known is None else known & values)
    return before._replace(bounds=before.bounds._replace(subjects=chosen))


def _beginning(before: Pushed, start: str) -> Pushed | None:
    known = before.bounds.prefix
    if not known.startswith(start) and not start.startswith(known):
        return before._replace(bounds=before.bounds._replace(subjects=frozenset()))
    return before._replace(bounds=before.bounds._replace(prefix=max(known, start, key=len)))


def _between(before: Pushed, name: str, one: Any) -> Pushed | None:
    if name == "seq":
        value, unit, field = one.value, 1, "seqs"
    elif name == "ts_ns":
        value, unit, field = one.value, 1, "times"
    elif name == "time" and isinstance(one.value, datetime) and one.value.tzinfo is not None:
        value, unit, field = (one.value - _EPOCH) // _MICROSECOND, 1000, "times"
    else:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    bounds = before.bounds
    low, high = bounds.seqs if field == "seqs" else bounds.times
    first, following = value * unit, (value + 1) * unit
    if isinstance(one, EqualTo | GreaterThanOrEqual):
        low = max(low, first)
    if isinstance(one, GreaterThan):
        low = max(low, following)
    if isinstance(one, EqualTo | LessThanOrEqual):
        high = min(high, following - 1)
    if isinstance(one, LessThan):
        high = min(high, first - 1)
    narrowed = bounds._replace(seqs=(low, high)) if field == "seqs" else bounds._replace(times=(low, high))
    return before._replace(bounds=narrowed)
