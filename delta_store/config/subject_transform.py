"""Subject transforms as in nats-server, for streams' input, republishing and sources. Pure.

A transform is a source filter and a destination whose tokens are text, ``$n`` or ``{{function(…)}}``; positions count
the ``*`` of the source from 1. Rules, order and texts of errors are nats-server 2.15's (server/subject_transform.go).
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from delta_store.dialect.integers import NotAnInteger, atoi
from delta_store.values import subjects

_INVALID: Final = "invalid mapping destination"
_ARGUMENTS: Final = re.compile(r",[ \t\n\f\r]*")
_FUNCTIONS: Final = (
    ("wildcard", "[wW]ildcard"),
    ("partition", "[pP]artition"),
    ("splitfromleft", "[sS]plit[fF]rom[lL]eft"),
    ("splitfromright", "[sS]plit[fF]rom[rR]ight"),
    ("slicefromleft", "[sS]lice[fF]rom[lL]eft"),
    ("slicefromright", "[sS]lice[fF]rom[rR]ight"),
    ("right", "[rR]ight"),
    ("left", "[lL]eft"),
    ("split", "[sS]plit"),
    ("random", "[rR]andom"),
)
_SEARCHES: Final = tuple(
    (name, re.compile(r"{{[ \t\n\f\r]*" + spelled + r"[ \t\n\f\r]*\((.*)\)[ \t\n\f\r]*}}"))
    for name, spelled in _FUNCTIONS
)
_INT_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619


class BadMapping(Exception):
    """A transform that is not valid; the text is nats-server's."""


class _Token(NamedTuple):
    """One token of a destination."""

    function: str
    """Empty for plain text."""
    text: str = ""
    """The plain text, or split's delimiter."""
    wildcards: tuple[int, ...] = ()
    """Numbers of wildcards, later replaced by positions in the source."""
    number: int = -1


class SubjectTransform:
    """A valid transform; the constructor raises :class:`BadMapping` for any other. ``dest`` is not empty."""

    __slots__ = ("_dest", "_draws", "_filter", "_rest", "_same", "_source", "_tokens")

    def __init__(self, src: str, dest: str) -> None:
        src = src or ">"
        if not (subjects.well_formed(src) and subjects.well_formed(dest)) or "*" in dest.split("."):
            raise BadMapping("invalid subject")
        self._source = src.split(".")
        if (self._source[-1] == ">") != (dest.rsplit(".", maxsplit=1)[-1] == ">"):
            raise BadMapping("invalid subject")
        self._filter = None if src == ">" else subjects.SubjectFilter((src,))
        self._same = src == ">" and dest == ">"
        self._dest = dest
        self._rest = dest.rsplit(".", maxsplit=1)[-1] == ">"
        self._draws = 0
        """How many random tokens were drawn."""
        stars = [place for place, part in enumerate(self._source) if part == "*"]
        wild = bool(stars) or self._source[-1] == ">"
        tokens = dest.split(".")
        self._tokens = [_placed(_parsed(token), token, stars=stars, wild=wild) for token in tokens]

    @property
    def is_random(self) -> bool:
        """Whether one subject may be mapped to different ones."""
        return any(token.function == "random" for token in self._tokens)

    def match(self, subject: str) -> str | None:
        """Return the destination of a literal subject; None when it does not match the source."""
        if self._same:
            return subject
        if not subjects.literal(subject) or (self._filter is not None and not self._filter.matches(subject)):
            return None
        return self.transform(subject)

    def transform(self, subject: str) -> str:
        """Return the destination of a subject that matches the source."""
        tokens = subject.split(".")
        done = [self._mapped(token, tokens) for token in (self._tokens[:-1] if self._rest else self._tokens)]
        return ".".join(done + tokens[len(self._source) - 1 :] if self._rest else done)

    def _mapped(self, token: _Token, source: Sequence[str]) -> str:
        if not token.function:
            return token.text
        if token.function == "partition":
            hashed = "".join(source[place] for place in token.wildcards) if token.wildcards else ".".join(source)
            return str(_partition(hashed, token.number))
        if token.function == "random":
            self._draws += 1
            return str(_fnv(f"{self._draws}.{self._dest}".encode()) % (abs(token.number) or 1))
        text = source[token.wildcards[0]] if token.wildcards[0] < len(source) else ""
        if token.function == "split":
            return _split(text, token.text)
        return _CUTS[token.function](text, token.number) if 0 < token.number < len(text) else text


def check_mapping(src: str, dest: str) -> None:
    """Raise :class:`BadMapping` unless the transform is valid; an empty destination is, and changes nothing."""
    if not dest:
        return
    parts = dest.split(".")
    for place, token in enumerate(parts):
        if not token or ">" in parts[:place]:
            raise _bad("invalid transform", token)
        if _is_function(token):
            if not any(search.search(token) for _, search in _SEARCHES):
                raise _bad("unknown function", token)
            continue
        if subjects.has_white_space(token):
            raise _bad("invalid transform")
    SubjectTransform(src, dest)


def _bad(reason: str, token: str = "") -> BadMapping:
    return BadMapping(f"{_INVALID}: {reason}" + (f" in {token}" if token else ""))


def _is_function(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _parsed(token: str) -> _Token:
    """Parse a token of a destination; wildcards keep their numbers."""
    if len(token) > 1 and token.startswith("$"):
        number = _integer(token[1:])
        return _Token("", token) if number is None else _Token("wildcard", wildcards=(number,))
    if not _is_function(token):
        return _Token("", token)
    for name, search in _SEARCHES:
        found = search.search(token)
        if found is not None:
            return _with_arguments(name, token, _ARGUMENTS.split(found[1]))
    raise _bad("unknown function", token)


def _with_arguments(name: str, token: str, arguments: list[str]) -> _Token:
    few, many = "not enough arguments passed to the function", "too many arguments passed to the function"
    if name == "wildcard":
        if arguments == [""]:
            raise _bad(few, token)
        if len(arguments) > 1:
            raise _bad(many, token)
        return _Token(name, wildcards=(_argument(token, arguments[0], _INT_MAX),))
    if name == "partition":
        number = _argument(token, arguments[0], _INT32_MAX)
        return _Token(name, wildcards=tuple(_argument(token, one, _INT_MAX) for one in arguments[1:]), number=number)
    if name == "random":
        if len(arguments) != 1:
            raise _bad(few, token)
        return _Token(name, number=_argument(token, arguments[0], _INT32_MAX))
    if len(arguments) != 2:
        raise _bad(few if len(arguments) < 2 else many, token)
    wildcard = _argument(token, arguments[0], _INT_MAX)
    if name == "split":
        if " " in arguments[1] or "." in arguments[1]:
            raise _bad("function argument is invalid or in the wrong format", token)
        return _Token(name, arguments[1], wildcards=(wildcard,))
    return _Token(name, wildcards=(wildcard,), number=_argument(token, arguments[1], _INT32_MAX))


def _argument(token: str, written: str, highest: int) -> int:
    number = _integer(written.strip(" "))
    if number is None or number > highest:
        raise _bad("function argument is invalid or in the wrong format", token)
    return number


def _integer(text: str) -> int | None:
    try:
        return atoi(text)
    except NotAnInteger:
        return None


def _placed(token: _Token, written: str, *, stars: Sequence[int], wild: bool) -> _Token:
    """Return the token with positions in the source instead of numbers of wildcards."""
    if not token.function or token.function == "random":
        return token
    if not wild:
        if token.function != "partition":
            raise _bad("wildcard index out of range", written)
        return token._replace(wildcards=())
    for number in token.wildcards:
        if number > len(stars):
            raise _bad("wildcard index out of range", f"{written}: [{number}]")
    return token._replace(wildcards=tuple(stars[number - 1] if number > 0 else 0 for number in token.wildcards))


def _fnv(key: bytes) -> int:
    """Return the 32-bit FNV-1a hash."""
    value = _FNV_OFFSET
    for byte in key:
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def _partition(key: str, buckets: int) -> int:
    return _fnv(key.encode()) % (buckets & 0xFFFFFFFF) if buckets else 0


def _split(text: str, delimiter: str) -> str:
    """Join the parts between delimiters by dots; empty parts are dropped, but for nats-server's dot before ``--a``."""
    parts = text.split(delimiter) if delimiter else list(text)
    done = ""
    for place, part in enumerate(parts):
        done += part
        if place < len(parts) - 1 and parts[place + 1] and not (place == 0 and not part):
            done += "."
    return done


def _slices(text: str, size: int) -> str:
    """Cut into pieces of this size from the left; the last one may be shorter."""
    return ".".join(text[start : start + size] for start in range(0, len(text), size))


def _slices_from_right(text: str, size: int) -> str:
    rest = len(text) % size
    return ".".join(([text[:rest]] if rest else []) + [text[i : i + size] for i in range(rest, len(text), size)])


_CUTS: Final[dict[str, Callable[[str, int], str]]] = {
    "wildcard": lambda text, _: text,
    "left": lambda text, size: text[:size],
    "right": lambda text, size: text[len(text) - size :],
    "splitfromleft": lambda text, at: f"{text[:at]}.{text[at:]}",
    "splitfromright": lambda text, at: f"{text[: len(text) - at]}.{text[len(text) - at :]}",
    "slicefromleft": _slices,
    "slicefromright": _slices_from_right,
}
