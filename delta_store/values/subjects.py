"""NATS subjects: validity, matching, and filters compiled for it.

A subject is tokens joined by dots. In a filter ``*`` stands for one token and a last token ``>`` for one or more. Every
function takes decoded text; a subject that is not valid UTF-8 never gets this far.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

from delta_store.values.subject_relations import SubjectTrie, overlaps, subset

__all__ = [
    "SubjectFilter",
    "expression",
    "has_white_space",
    "has_wildcard",
    "literal",
    "matches",
    "overlaps",
    "subset",
    "valid",
    "well_formed",
]

_WHITESPACE = re.compile(r"[ \t\n\f\r]")
_EXPRESSIONS_MAX: Final = 16
"""Wildcard filters that are compiled into one regular expression; more are matched by a trie."""


def valid(subject: str) -> bool:
    """Whether this is a well-formed subject or filter: no empty token, no white space, ``>`` only at the end."""
    return not has_white_space(subject) and well_formed(subject)


def well_formed(subject: str) -> bool:
    """Whether the text is :func:`valid` but for white space, which mappings of subjects may hold."""
    tokens = subject.split(".")
    return "" not in tokens and ">" not in tokens[:-1]


def has_white_space(text: str) -> bool:
    """Whether there is white space by nats-server's definition."""
    return _WHITESPACE.search(text) is not None


def has_wildcard(subject: str) -> bool:
    """Whether some token is a wildcard; ``a*`` and ``b>`` are plain text."""
    if "*" not in subject and ">" not in subject:
        return False
    tokens = subject.split(".")
    return "*" in tokens or ">" in tokens


def literal(subject: str) -> bool:
    """Whether this is a valid subject without wildcards, which a message can have."""
    return valid(subject) and not has_wildcard(subject)


def matches(pattern: str, subject: str) -> bool:
    """Whether ``pattern`` (which may have wildcards) matches the literal ``subject``."""
    return subset(subject, pattern)


class SubjectFilter:
    """A set of filters, compiled once, that matches a literal subject if any of them does.

    Equal sets of filters are equal and hash alike, so an instance can be a cache key. The empty set matches nothing;
    use :meth:`everything` for the filter that matches all.
    """

    __slots__ = ("_found", "_literals", "_prefix", "filters")

    def __init__(self, filters: Iterable[str]) -> None:
        """Compile valid filters (see :func:`valid`); repeated ones count once."""
        self.filters: tuple[str, ...] = tuple(dict.fromkeys(filters))
        self._literals = frozenset(one for one in self.filters if not has_wildcard(one))
        self._found = _finder([one for one in self.filters if has_wildcard(one)])
        """Matches the filters with wildcards; None when there are none."""
        only = self.filters[0] if len(self.filters) == 1 else ""
        self._prefix = only[:-1] if only.endswith(".>") and not has_wildcard(only[:-2]) else ""
        """The prefix to match where the only filter is ``prefix.>``; empty otherwise."""

    @classmethod
    def everything(cls) -> "SubjectFilter":
        """Return the filter that matches each valid subject."""
        return cls((">",))

    @property
    def literals(self) -> frozenset[str]:
        """The filters without wildcards, which match just themselves."""
        return self._literals

    @property
    def is_literal(self) -> bool:
        """Whether no filter has a wildcard."""
        return self._found is None

    @property
    def starts(self) -> tuple[str, ...] | None:
        """The prefixes of the filters with wildcards up to the first wildcard; None where one begins with it."""
        wild = [one for one in self.filters if one not in self._literals]
        if any(one[0] in "*>" for one in wild):
            return None
        return tuple(re.split(r"(?<=\.)[*>]", one, maxsplit=1)[0] for one in wild)

    @property
    def matches_all(self) -> bool:
        """Whether each valid subject is matched."""
        return ">" in self.filters

    def matches(self, subject: str) -> bool:
        """Whether any of the filters matches this literal subject."""
        if subject in self._literals:
            return True
        return self._found is not None and self._found(subject) is not None

    def matches_between(self, low: str, high: str) -> bool:
        """Whether it surely matches each valid subject from one text to another: both begin as one filter says."""
        prefixes = [one[:-1] for one in self.filters if one.endswith(".>") and not has_wildcard(one[:-2])]
        return self.matches_all or any(low.startswith(one) and high.startswith(one) for one in prefixes)

    def select(self, subjects: Iterable[str]) -> list[bool]:
        """Return :meth:`matches` of each subject, at a fraction of the cost of single calls."""
        literals, found = self._literals, self._found
        if found is None:
            return [subject in literals for subject in subjects]
        if self.matches_all:
            return [True for _ in subjects]
        if self._prefix:
            start = self._prefix
            return [subject.startswith(start) for subject in subjects]
        return [subject in literals or found(subject) is not None for subject in subjects]

    def __eq__(self, other: object) -> bool:
        """Equal when made of the same filters, in any order."""
        return isinstance(other, SubjectFilter) and set(self.filters) == set(other.filters)

    def __hash__(self) -> int:
        """Consistent with equality."""
        return hash(frozenset(self.filters))

    def __repr__(self) -> str:
        """Show the filters, for logs and failing tests."""
        return f"SubjectFilter({list(self.filters)!r})"


def _finder(wild: list[str]) -> Callable[[str], object | None] | None:
    """Return a matcher of these filters, truthy where any matches a literal subject; None without filters."""
    if not wild:
        return None
    if len(wild) > _EXPRESSIONS_MAX:
        trie = SubjectTrie((one, None) for one in wild)
        return lambda subject: next(trie.matching(subject), None)
    return re.compile("|".join(map(expression, wild)), re.DOTALL).fullmatch


def expression(pattern: str) -> str:
    """Return a regular expression that fully matches the literal subjects of one filter."""
    parts = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(parts.get(token) or re.escape(token) for token in pattern.split("."))
