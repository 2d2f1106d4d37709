"""NATS subjects: what is valid, what a filter matches, how two filters relate.

A subject is tokens joined by dots. In a filter ``*`` stands for one token and a last token ``>`` for one or more.
Every function takes decoded text; a subject that is not valid UTF-8 never gets this far.
"""

import re
from collections.abc import Iterable

_WHITESPACE = re.compile(r"[ \t\n\f\r]")


def valid(subject: str) -> bool:
    """Whether this is a well formed subject or filter: no empty token, no white space, ``>`` only at the end."""
    if not subject or _WHITESPACE.search(subject):
        return False
    tokens = subject.split(".")
    return "" not in tokens and ">" not in tokens[:-1]


def has_wildcard(subject: str) -> bool:
    """Whether some token is a wildcard; ``a*`` and ``b>`` are plain text."""
    if "*" not in subject and ">" not in subject:
        return False
    tokens = subject.split(".")
    return "*" in tokens or ">" in tokens


def literal(subject: str) -> bool:
    """Whether this is a valid subject without wildcards: one that a message can be stored under."""
    return valid(subject) and not has_wildcard(subject)


def subset(subject: str, of: str) -> bool:
    """Whether every subject that ``subject`` matches is matched by ``of`` too; both may have wildcards."""
    inner = subject.split(".")
    outer = of.split(".")
    for place, part in enumerate(outer):
        if place >= len(inner):
            return False
        if part == ">":
            return True
        if inner[place] == ">" or (part not in ("*", inner[place])):
            return False
    return len(inner) == len(outer)


def matches(pattern: str, subject: str) -> bool:
    """Whether ``pattern`` (which may have wildcards) matches the literal ``subject``."""
    return subset(subject, pattern)


def overlaps(one: str, other: str) -> bool:
    """Whether some subject is matched by both filters."""
    left = one.split(".")
    right = other.split(".")
    for mine, its in zip(left, right, strict=False):
        if ">" in (mine, its):
            return True
        if mine != its and "*" not in (mine, its):
            return False
    return len(left) == len(right)


class SubjectFilter:
    """Many filters asked as one: whether any of them matches a literal subject.

    Filters are compiled once; equal sets of filters are equal and hash alike, so an instance can be a cache key.
    No filter at all matches nothing; use :meth:`everything` for the filter that matches all.
    """

    __slots__ = ("_literals", "_pattern", "_prefix", "filters")

    def __init__(self, filters: Iterable[str]) -> None:
        """Compile valid filters (see :func:`valid`); repeated ones count once."""
        self.filters: tuple[str, ...] = tuple(dict.fromkeys(filters))
        self._literals = frozenset(one for one in self.filters if not has_wildcard(one))
        wild = [_expression(one) for one in self.filters if has_wildcard(one)]
        self._pattern = re.compile("|".join(wild), re.DOTALL) if wild else None
        only = self.filters[0] if len(self.filters) == 1 else ""
        self._prefix = only[:-1] if only.endswith(".>") and not has_wildcard(only[:-2]) else ""
        """What a subject must begin with, where that is all; empty otherwise."""

    @classmethod
    def everything(cls) -> "SubjectFilter":
        """The filter that matches each valid subject."""
        return cls((">",))

    @property
    def literals(self) -> frozenset[str]:
        """The filters without wildcards: those that match just themselves."""
        return self._literals

    @property
    def is_literal(self) -> bool:
        """Whether no filter has a wildcard, so that :attr:`literals` says it all."""
        return self._pattern is None

    @property
    def matches_all(self) -> bool:
        """Whether each valid subject is matched."""
        return ">" in self.filters

    def matches(self, subject: str) -> bool:
        """Whether any of the filters matches this literal subject."""
        if subject in self._literals:
            return True
        return self._pattern is not None and self._pattern.fullmatch(subject) is not None

    def select(self, subjects: Iterable[str]) -> list[bool]:
        """:meth:`matches` of each subject in turn, at a fraction of the cost of single calls."""
        literals, pattern = self._literals, self._pattern
        if pattern is None:
            return [subject in literals for subject in subjects]
        if self.matches_all:
            return [True for _ in subjects]
        if self._prefix:
            start = self._prefix
            return [subject.startswith(start) for subject in subjects]
        found = pattern.fullmatch
        return [subject in literals or found(subject) is not None for subject in subjects]

    def __eq__(self, other: object) -> bool:
        """Equal when made of the same filters, in whatever order."""
        return isinstance(other, SubjectFilter) and set(self.filters) == set(other.filters)

    def __hash__(self) -> int:
        """Consistent with equality."""
        return hash(frozenset(self.filters))

    def __repr__(self) -> str:
        """Show the filters, for logs and failing tests."""
        return f"SubjectFilter({list(self.filters)!r})"


def _expression(pattern: str) -> str:
    """A regular expression that fully matches the literal subjects of one filter."""
    parts = {"*": r"[^.]+", ">": r".+"}
    return r"\.".join(parts.get(token) or re.escape(token) for token in pattern.split("."))
