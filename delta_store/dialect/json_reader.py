"""JSON parsed as Go parses it: members in the order they were written, numbers as they were written.

The first error is the one reported, in the words of nats-server 2.15.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from conf.limits import API_SYNTAX_BYTES_MAX
from delta_store.dialect.json_syntax import JsonError, quote, syntax_error

_SPACE = " \t\r\n"
"""JSON's white space."""
_NUMBER_GOES_ON = (".", "e", "E")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Number(str):
    """A number as it was written."""

    __slots__ = ()


class Members(list[tuple[str, Any]]):
    """The members of an object in the order they were written; a plain list is an array."""


def _refuse_constant(_name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are Python's, not JSON's")


_PARSER = json.JSONDecoder(
    object_pairs_hook=Members, parse_float=Number, parse_int=Number, parse_constant=_refuse_constant
)


def all_values(document: bytes) -> Iterator[Any]:
    """Iterate over the values that stand one after another, as Go's ``Decoder`` reads requests.

    Raises :class:`JsonError` with the offset of the error.
    """
    text = document.decode(errors="surrogateescape")
    at = _after_space(text, 0)
    while at < len(text):
        try:
            value, end = _parse_one(text, at)
        except (ValueError, RecursionError) as error:
            raise _explained(error, document, text, at) from None
        yield value
        at = _after_space(text, end)


def only_value(document: bytes) -> Any:
    """Return the one value of a text, as Go's ``Unmarshal`` does; errors name no offset.

    Raises :class:`JsonError`.
    """
    document = document.strip(_SPACE.encode())
    text = document.decode(errors="surrogateescape")
    try:
        value, end = _parse_one(text, 0)
    except (ValueError, RecursionError) as error:
        told = str(_explained(error, document, text, 0))
        short = "unexpected end of JSON input" if told == "unexpected EOF" else told.partition(" at offset ")[0]
        raise JsonError(short) from None
    if rest := text[end:].lstrip(_SPACE):
        raise JsonError(f"invalid character {quote(rest[0], mark=chr(39))} after top-level value")
    return value


def kind(value: Any) -> str:
    """Return Go's name for this kind of value."""
    if isinstance(value, Number):
        return "number"
    if isinstance(value, Members):
        return "object"
    return {bool: "bool", str: "string", list: "array", type(None): "null"}[type(value)]


def as_unicode(value: str) -> str:
    """Return a string as Go holds it: bytes that are no UTF-8 become the replacement character."""
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)


def written(value: Any) -> str:
    """Return the compact JSON text of a parsed value. Raises :class:`JsonError` for one that is nested too deep."""
    try:
        return _compact(value)
    except RecursionError:
        raise JsonError("exceeded max depth") from None


def _parse_one(text: str, at: int) -> tuple[Any, int]:
    """Return the value that begins at ``at`` and the offset of its end."""
    value, end = _PARSER.raw_decode(text, at)
    if type(value) is Number and text[end : end + 1] in _NUMBER_GOES_ON:
        raise ValueError("a number with a broken fraction or exponent, which Python ends before it")
    return value, end


def _explained(error: Exception, document: bytes, text: str, at: int) -> JsonError:
    """Return Go's error where Python's parser failed on the value at ``at``.

    Go's words take a walk over the text, which is skipped for a long one: a request must not hold up all others.
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


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _compact(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, Members):
        return "{" + ",".join(f"{_compact(key)}:{_compact(member)}" for key, member in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_compact, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
