"""Configurations like nats-server's Go structs: each field is declared once, with a tag.

A field is ``name: Annotated[type, Tag(…)] = default`` in a dataclass or NamedTuple, whose fields stand in the order of
its JSON object. How requests are decoded, what replies and the journal say, limits, the API level and what an update
may not change come from the tags.
"""

import operator
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from inspect import get_annotations
from typing import Any, NamedTuple, TypeVar, get_args

from delta_store.config.api_errors import ApiRefusal
from delta_store.config.api_errors import pedantic as pedantic_error
from delta_store.dialect.json_shapes import TEXTS, ListOf, Shape, Struct

Json = dict[str, Any]
Tagged = Callable[..., Any]
"""A class with tagged fields."""
T = TypeVar("T")


def _unchanged(value: Any) -> Any:
    return value


def unset(before: object, after: object) -> bool:
    """Whether what was set is so no more."""
    return bool(before and not after)


class RefusedChange(NamedTuple):
    """A change of a field that an update may not make."""

    order: int
    """Its place among those of its configuration, as nats-server checks them."""
    error: ApiRefusal
    refused: Callable[[Any, Any], object] = operator.ne
    """Whether to refuse the change from one value to another."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What there is to know of a field besides its name, type and default."""

    shape: Shape
    """Its form in a request."""
    omitempty: bool = False
    """Absent from JSON while it is empty."""
    level: int = 0
    """API level that is needed when it is set."""
    needs: Callable[[Any], object] = bool
    """Whether a value that is set needs that level."""
    least: int | None = None
    """Its minimum, to which smaller numbers are raised."""
    zero_is_least: bool = False
    """Zero means the minimum, too."""
    order: int = 0
    """Its place among the minimums, as nats-server checks them, where that is not JSON's."""
    changes: tuple[RefusedChange, ...] = ()
    read: Callable[[Any], Any] = _unchanged
    """Returns its value from what was decoded or recorded."""
    show: Callable[[Any], Any] = _unchanged
    """Returns its value, which is not None, as JSON."""


@cache
def tags(kind: Tagged) -> dict[str, Tag]:
    """Return the tag of each field, in JSON's order."""
    return {name: get_args(hint)[1] for name, hint in get_annotations(kind).items()}


def shapes(kind: Tagged) -> dict[str, Shape]:
    """Return the form of each field in a request."""
    return {name: tag.shape for name, tag in tags(kind).items()}


def read_fields(kind: Callable[..., T], said: Mapping[str, Any], /, **absent: Any) -> T:
    """Return the object with the fields of a decoded request or a record; fields that are not known are ignored.

    Absent fields have their values in ``absent``, else their defaults.
    """
    known = {name: tag.read(said[name]) for name, tag in tags(kind).items() if said.get(name) is not None}
    return kind(**absent | known)


def show_fields(shown: object, /, **instead: Any) -> Json:
    """Return the JSON object; ``instead`` are values as JSON that replace those of the fields."""
    values: Json = {}
    kind: Tagged = type(shown)
    for name, tag in tags(kind).items():
        value = getattr(shown, name)
        value = instead[name] if name in instead else None if value is None else tag.show(value)
        if value or not tag.omitempty:
            values[name] = value
    return values


def level_needed(kind: Tagged, value_of: Callable[[str, None], Any]) -> int:
    """Return the API level that a configuration's fields need; ``value_of`` returns a field's value, None if absent."""
    found = ((tag, value_of(name, None)) for name, tag in tags(kind).items() if tag.level)
    return max((tag.level for tag, value in found if value and tag.show(value) and tag.needs(value)), default=0)


def raised_to_least(kind: Tagged, value_of: Callable[[str, int], int], *, pedantic: bool) -> Json:
    """Return the minimums of the fields below them, which ``pedantic`` refuses; ``value_of`` takes 0 for absent."""
    raised: Json = {}
    for name, tag in sorted(tags(kind).items(), key=lambda field: field[1].order):
        if tag.least is None:
            continue
        value = value_of(name, 0)
        if pedantic and value < tag.least:
            raise pedantic_error(f"{name} must be set to -1" if tag.least else f"{name} must not be negative")
        if value < tag.least or (tag.zero_is_least and not value):
            raised[name] = tag.least
    return raised


def check_changes(before: object, after: object) -> None:
    """Refuse the first change that an update may not make; both are configurations of one kind."""
    kind: Tagged = type(before)
    rules = [(change, name) for name, tag in tags(kind).items() for change in tag.changes]
    for change, name in sorted(rules, key=lambda rule: rule[0].order):
        if change.refused(getattr(before, name), getattr(after, name)):
            raise copy(change.error)


def listed(shape: ListOf = TEXTS, zero: str | int = "", *, level: int = 0) -> Tag:
    """Return the tag of a field that is a list of texts or numbers; a null item is ``zero``."""
    return Tag(shape, omitempty=True, level=level, read=lambda said: tuple(one or zero for one in said), show=list)


def part(go: str, kind: Tagged, *, nullable: bool = True, omitempty: bool = True) -> Tag:
    """Return the tag of a field that is an object itself: Go's struct ``go``, by pointer if ``nullable``."""
    return Tag(Struct(go, shapes(kind), nullable), omitempty, read=partial(read_fields, kind), show=show_fields)


def parts(go: str, kind: Tagged, *, nullable: bool = False) -> Tag:
    """Return the tag of a field that is a list of objects: Go's structs ``go``, by pointers if ``nullable``."""
    return Tag(
        ListOf(Struct(go, shapes(kind), nullable), f"[]{'*' * nullable}server.{go}"),
        omitempty=True,
        read=lambda said: tuple(read_fields(kind, one or {}) for one in said),
        show=lambda value: [show_fields(one) for one in value],
    )
