"""Decoding of JSON into the fields of a Go struct, with the error texts of nats-server's decoder.

A text is decoded against a *shape*, which describes the Go struct. The result is a dict of the fields that were set
(Go's ``null`` and absence are one), whose values have the types that the shape promises; the caller supplies Go's zero
value for an absent field.

As in Go, keys match in any case, later keys win, several values one after another fill the same struct, and the first
error is the one reported; a syntax error comes before all others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from delta_store.dialect.json_reader import Members, Number, all_values, as_unicode, kind, only_value, written
from delta_store.dialect.json_syntax import JsonError, quote
from delta_store.dialect.times import parse_time

Decoded = dict[str, Any]


class Mismatch(JsonError):
    """A value of the wrong kind; each enclosing value adds its key or index in front of the path."""

    def __init__(self, found: str, go: str) -> None:
        super().__init__(found, go)
        self.found = found
        self.go = go
        self.root = ""
        """The Go struct that the text is decoded into."""
        self.path: list[str] = []

    def within(self, part: str) -> "Mismatch":
        """Put the enclosing value's key or index in front of the path."""
        self.path.insert(0, part)
        return self

    def __str__(self) -> str:
        if not self.path:
            return f"json: cannot unmarshal {self.found} into Go value of type {self.go}"
        what = "" if self.path[-1].isdigit() else "Go struct field "
        path = ".".join(part.replace("~", "~0").replace("/", "~1") for part in self.path)
        return f"json: cannot unmarshal {self.found} into {what}{self.root}.{path} of type {self.go}"


class Shape(Protocol):
    """The expected form of a value."""

    def decode(self, value: Any, before: Any) -> Any:
        """Return the decoded value, or None for Go's nil or zero value; ``before`` is an earlier member's value.

        Raises :class:`JsonError`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    go: str = "string"

    def decode(self, value: Any, before: Any) -> Any:
        """Return the string; null keeps ``before``."""
        return before if value is None else as_unicode(_expect(value, str, self.go))


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    go: str = "bool"

    def decode(self, value: Any, before: Any) -> Any:
        """Return the boolean; null keeps ``before``."""
        return before if value is None else _expect(value, bool, self.go)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer within the bounds of its Go type."""

    go: str
    low: int
    high: int

    def decode(self, value: Any, before: Any) -> Any:
        """Return the integer; null keeps ``before``."""
        if value is None:
            return before
        text = _expect(value, Number, self.go)
        digits = text.removeprefix("-") if self.low else text
        if digits.isdigit() and len(digits) <= 20 and self.low <= int(text) <= self.high:
            return int(text)
        raise Mismatch(f"number {text}", self.go)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; ``words`` maps each word of the text to its meaning."""

    words: Mapping[str, str]
    any_case: bool = False
    refusal: str = ""
    """Fixed text for a wrong word; the default quotes the word as nats-server does."""

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # nats-server's own decoder of the type: no context
        """Return the meaning of the word; null is no word."""
        if type(value) is str:
            word = value.lower() if self.any_case else value
            if word in self.words:
                return self.words[word]
        elif self.refusal and value is not None:
            raise JsonError(f"json: cannot unmarshal {kind(value)} into Go value of type string")
        raise JsonError(self.refusal or f"can not unmarshal {quote(written(value))}")


def one_of(*words: str, any_case: bool = False, refusal: str = "", **meanings: str) -> Choice:
    """Return the choice of words that mean themselves, and of others with their meanings."""
    return Choice({word: word for word in words} | meanings, any_case, refusal)


@dataclass(frozen=True, slots=True)
class Word:
    """A word out of a few, whose refusal quotes the rejected value as written."""

    words: tuple[str, ...]
    refusal: str

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # a Go type with a decoder of its own: no context
        """Return the word; null is refused."""
        if type(value) is str and value in self.words:
            return value
        raise JsonError(f"{self.refusal}: {written(value)}")


@dataclass(frozen=True, slots=True)
class Time:
    """RFC 3339 text."""

    go: str = "time.Time"

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # null clears an earlier value
        """Return ns since 1970; null is no time."""
        return None if value is None else parse_time(as_unicode(_expect(value, str, self.go)))


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of one shape."""

    item: Shape
    go: str

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # a later array replaces an earlier one
        """Return the items; null is no array."""
        if value is None:
            return None
        items = _expect(value, list, self.go)
        zero = _zero(self.item)
        return [_inside(str(at), self.item, item, zero) for at, item in enumerate(items)]


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with free keys and values of one shape."""

    item: Shape
    go: str

    def decode(self, value: Any, before: Any) -> Any:
        """Return the members, added to those of ``before``; null is no object."""
        if value is None:
            return None
        members = [(as_unicode(key), member) for key, member in _expect(value, Members, self.go)]
        zero = _zero(self.item)
        return (before or {}) | {key: _inside(key, self.item, member, zero) for key, member in members}


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that is accepted and ignored."""

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # the value is ignored
        """Return None."""
        return None


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known fields."""

    name: str
    fields: Mapping[str, Shape]
    nullable: bool = False
    """Go holds it by pointer: null removes it."""
    is_open: bool = False
    """Unknown fields are ignored, not refused."""
    folded: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Index the fields by their case-folded names."""
        self.folded.update({_fold(name): name for name in self.fields})

    def decode(self, value: Any, before: Any) -> Any:
        """Return the fields that are set, over those of ``before``."""
        if value is None:
            return None if self.nullable else before
        decoded: Decoded = dict(before or {})
        for said, member in _expect(value, Members, f"server.{self.name}"):
            key = as_unicode(said)
            name = key if key in self.fields else self.folded.get(_fold(key))
            if name is None:
                if self.is_open:
                    continue
                raise JsonError(f"json: unknown field {quote(key)}")
            decoded[name] = _inside(key, self.fields[name], member, decoded.get(name))
            if decoded[name] is None:
                del decoded[name]
        return decoded


TEXT = Text()
FLAG = Flag()
INT = Whole("int", -(2**63), 2**63 - 1)
INT32 = Whole("int32", -(2**31), 2**31 - 1)
INT64 = Whole("int64", -(2**63), 2**63 - 1)
UINT64 = Whole("uint64", 0, 2**64 - 1)
DURATION = Whole("time.Duration", -(2**63), 2**63 - 1)
TIME = Time()
TEXTS = ListOf(TEXT, "[]string")
TEXT_MAP = MapOf(TEXT, "map[string]string")
ANYTHING = Anything()


def decode(document: bytes, shape: Struct) -> Decoded:
    """Return the fields that a request sets; an empty document sets none. Raises :class:`JsonError`."""
    return _decoded(all_values(document), shape)


def unmarshal(document: bytes, shape: Struct) -> Decoded:
    """Return the fields that a text of exactly one value sets. Raises :class:`JsonError`."""
    return _decoded((only_value(document),), shape)


def is_object_or_array(document: bytes) -> bool:
    """Whether the text begins like an object or an array: endpoints with an optional body ignore any other."""
    return document.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def is_empty_request(document: bytes) -> bool:
    """Whether the body is empty or an object without members."""
    if document in (b"", b"{}"):
        return True
    try:
        values = list(all_values(document))
    except JsonError:
        return False
    return len(values) == 1 and isinstance(values[0], Members) and not values[0]


def _decoded(values: Iterable[Any], shape: Struct) -> Decoded:
    decoded: Decoded = {}
    try:
        for value in values:
            decoded = decoded if value is None else shape.decode(value, decoded)
    except Mismatch as error:
        error.root = shape.name
        raise
    return decoded


def _inside(part: str, shape: Shape, value: Any, before: Any) -> Any:
    """Decode a member or an item; add its key or index to an error's path."""
    try:
        return shape.decode(value, before)
    except Mismatch as error:
        raise error.within(part) from None


def _zero(item: Shape) -> Any:
    """Return Go's value of an item that is null."""
    return "" if isinstance(item, Text) else None


def _fold(name: str) -> str:
    return "".join(folded if len(folded := char.casefold()) == 1 else char for char in name)


def _expect(value: Any, wanted: type, go: str) -> Any:
    """Return the value if it is of exactly this type; else raise :class:`Mismatch`."""
    if type(value) is not wanted:
        raise Mismatch(kind(value), go)
    return value
