"""Decoding of request bodies: strict, and with the very error texts that nats-server's Go decoder gives.

A body is decoded against a *shape*, the Python picture of the Go struct that nats-server decodes it into. What comes
out is a dict that holds the fields that were set (Go's ``null`` and absence are one), whose values have the types that
the shape promises; whoever reads it supplies Go's zero value for what is absent.

Decoding knows Go's ways: keys match in any case, later keys win, several values one after another fill the same
struct, and the first error is the one reported, where a text that is no JSON at all comes before everything else.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Protocol

from api.jetstream.go_time import parse_time
from api.jetstream.json_syntax import JsonError, quote, syntax_error
from conf.limits import API_SYNTAX_BYTES_MAX

Decoded = dict[str, Any]


class Place(NamedTuple):
    """Where in a request a value stands: the Go struct it is decoded into, and the path of keys in that."""

    root: str
    path: str = ""

    def inside(self, part: str) -> "Place":
        """The place of a member or an item."""
        escaped = part.replace("~", "~0").replace("/", "~1")
        return Place(self.root, f"{self.path}.{escaped}" if self.path else escaped)

    def mismatch(self, kind: str, go: str) -> JsonError:
        """The error of a value of the wrong kind."""
        if not self.path:
            return JsonError(f"json: cannot unmarshal {kind} into Go value of type {go}")
        what = "" if self.path.rpartition(".")[2].isdigit() else "Go struct field "
        return JsonError(f"json: cannot unmarshal {kind} into {what}{self.root}.{self.path} of type {go}")


class Shape(Protocol):
    """What a value must look like."""

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The decoded value, or None for Go's nil or zero value; ``before`` is what an earlier member set.

        Raises :class:`JsonError`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """A string."""

    go: str = "string"

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The string; null leaves what was there."""
        return before if value is None else _unicode(_expect(value, str, self.go, place))


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""

    go: str = "bool"

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The boolean; null leaves what was there."""
        return before if value is None else _expect(value, bool, self.go, place)


@dataclass(frozen=True, slots=True)
class Whole:
    """An integer within the bounds of its Go type."""

    go: str
    low: int
    high: int

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The integer; null leaves what was there."""
        if value is None:
            return before
        written = _expect(value, _Number, self.go, place)
        digits = written.removeprefix("-") if self.low else written
        if digits.isdigit() and len(digits) <= 20 and self.low <= int(written) <= self.high:
            return int(written)
        raise place.mismatch(f"number {written}", self.go)


@dataclass(frozen=True, slots=True)
class Choice:
    """A word out of a few; ``words`` maps what may stand in the text to what it means."""

    words: Mapping[str, str]
    any_case: bool = False
    refusal: str = ""
    """Fixed text for a wrong word; the default quotes the word as nats-server does."""

    def decode(self, value: Any, place: Place, before: Any) -> Any:  # noqa: ARG002 - an own Go decoder: no context
        """What the word means; null is no word."""
        if type(value) is str:
            word = value.lower() if self.any_case else value
            if word in self.words:
                return self.words[word]
        elif self.refusal and value is not None:
            raise JsonError(f"json: cannot unmarshal {_kind(value)} into Go value of type string")
        raise JsonError(self.refusal or f"can not unmarshal {quote(_raw(value))}")


@dataclass(frozen=True, slots=True)
class Time:
    """RFC 3339 text."""

    go: str = "time.Time"

    def decode(self, value: Any, place: Place, before: Any) -> Any:  # noqa: ARG002 - null forgets what was there
        """Nanoseconds since 1970; null is no time."""
        return None if value is None else parse_time(_unicode(_expect(value, str, self.go, place)))


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array of one shape."""

    item: Shape
    go: str

    def decode(self, value: Any, place: Place, before: Any) -> Any:  # noqa: ARG002 - a later array replaces
        """The items; null is no array."""
        if value is None:
            return None
        items = _expect(value, list, self.go, place)
        zero = "" if isinstance(self.item, Text) else None
        return [self.item.decode(item, place.inside(str(at)), zero) for at, item in enumerate(items)]


@dataclass(frozen=True, slots=True)
class TextMap:
    """An object with free keys and string values."""

    go: str = "map[string]string"

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The members, added to those that were there; null is no object."""
        if value is None:
            return None
        members = [(_unicode(key), member) for key, member in _expect(value, Members, self.go, place)]
        return (before or {}) | {key: TEXT.decode(member, place.inside(key), "") for key, member in members}


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that is accepted and not looked at."""

    def decode(self, value: Any, place: Place, before: Any) -> Any:  # noqa: ARG002 - see the class
        """Nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Struct:
    """An object with known fields; ``nullable`` says that Go holds it by pointer, so that null removes it."""

    name: str
    fields: Mapping[str, Shape]
    nullable: bool = False
    folded: dict[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Index the fields by their case-folded names."""
        self.folded.update({_fold(name): name for name in self.fields})

    def decode(self, value: Any, place: Place, before: Any) -> Any:
        """The fields that are set, over those that were set before."""
        if value is None:
            return None if self.nullable else before
        decoded: Decoded = dict(before or {})
        for written, member in _expect(value, Members, f"server.{self.name}", place):
            key = _unicode(written)
            name = key if key in self.fields else self.folded.get(_fold(key))
            if name is None:
                raise JsonError(f"json: unknown field {quote(key)}")
            decoded[name] = self.fields[name].decode(member, place.inside(key), decoded.get(name))
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
TEXT_MAP = TextMap()
ANYTHING = Anything()


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of an object in the order they were written."""


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are Python's, not JSON's")


_PARSER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=_Number, parse_int=_Number, parse_constant=_refuse_constant
)
WHITESPACE = " \t\r\n"
"""What JSON allows between its tokens."""
_NUMBER_GOES_ON = (".", "e", "E")
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(document: bytes, shape: Struct) -> Decoded:
    """The fields that a request sets; an empty document sets none. Raises :class:`JsonError`."""
    decoded: Decoded = {}
    for value in _values(document):
        decoded = decoded if value is None else shape.decode(value, Place(shape.name), decoded)
    return decoded


def is_object_or_array(document: bytes) -> bool:
    """Whether the text begins like an object or an array: endpoints with an optional body skip any other."""
    return document.lstrip(b" \t\r\n")[:1] in (b"{", b"[")


def is_empty_request(document: bytes) -> bool:
    """Whether there is no body, or just an object without members."""
    if document in (b"", b"{}"):
        return True
    try:
        values = list(_values(document))
    except JsonError:
        return False
    return len(values) == 1 and isinstance(values[0], Members) and not values[0]


def _values(document: bytes) -> Iterator[Any]:
    """Each of the values that stand one after another."""
    text = document.decode(errors="surrogateescape")
    at = _after_space(text, 0)
    while at < len(text):
        try:
            value, end = parse_one(text, at)
        except (ValueError, RecursionError) as error:
            raise explained(error, document, text, at) from None
        yield value
        at = _after_space(text, end)


def explained(error: Exception, document: bytes, text: str, at: int) -> JsonError:
    """What Go says where Python's parser failed on the value at ``at``.

    Finding Go's words takes a walk over the text, too slow for much text: a request must not hold up all others.
    """
    start = len(text[:at].encode(errors="surrogateescape"))
    broken_at = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
    if broken_at - at > API_SYNTAX_BYTES_MAX:
        if isinstance(error, RecursionError):
            return JsonError("exceeded max depth")
        truncated = isinstance(error, json.JSONDecodeError) and broken_at >= len(text)
        return JsonError("unexpected EOF" if truncated else f"invalid text near offset {broken_at}")
    # What Go's parser takes and Python's does not is nesting deeper than Python's stack.
    return syntax_error(document, start) or JsonError("exceeded max depth")


def parse_one(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at ``at`` and where it ends."""
    value, end = _PARSER.raw_decode(text, at)
    if type(value) is _Number and text[end : end + 1] in _NUMBER_GOES_ON:
        raise ValueError("a number with a broken fraction or exponent, which Python ends before it")
    return value, end


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in WHITESPACE:
        at += 1
    return at


def _fold(name: str) -> str:
    return "".join(folded if len(folded := char.casefold()) == 1 else char for char in name)


def _kind(value: Any) -> str:
    """What Go calls this kind of value."""
    if isinstance(value, _Number):
        return "number"
    if isinstance(value, Members):
        return "object"
    return {bool: "bool", str: "string", list: "array", type(None): "null"}[type(value)]


def _unicode(value: str) -> str:
    """A string as Go holds it: what is no Unicode becomes the replacement character."""
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def _raw(value: Any) -> str:
    """The JSON text of a value, compact."""
    try:
        return _compact(value)
    except RecursionError:
        raise JsonError("exceeded max depth") from None


def _compact(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, Members):
        return "{" + ",".join(f"{_compact(key)}:{_compact(member)}" for key, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _expect(value: Any, wanted: type, go: str, place: Place) -> Any:
    """The value if it is of just this type."""
    if type(value) is not wanted:
        raise place.mismatch(_kind(value), go)
    return value
