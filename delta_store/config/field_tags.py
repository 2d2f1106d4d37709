"""Configurations like nats-server's Go structs: each field is declared once, with a tag.

A field is ``name: Annotated[type, Tag(…)] = default`` in a dataclass or NamedTuple, whose fields stand in the order of
its JSON object. How requests are decoded, what replies and the journal say, and the API level come from the tags.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import get_annotations
from typing import Any, TypeVar, get_args

from delta_store.dialect.json_shapes import TEXTS, ListOf, Shape, Struct

Json = dict[str, Any]
Tagged = Callable[..., Any]
"""A class with tagged fields."""
T = TypeVar("T")


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Tag:
    """What there is to know of a field besides its name, type and default."""

    shape: Shape
    """Its form in a request."""
    omitempty: bool = False
    """Absent from JSON while it is empty."""
    level: int = 0
    """API level that is needed when it is set."""
    least: int | None = None
    """Its minimum, to which smaller numbers are raised."""
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
    return max((tag.level for tag, value in found if value and tag.show(value)), default=0)


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
