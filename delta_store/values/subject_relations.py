"""Relations of subject filters, singly (:func:`subset`, :func:`overlaps`) and in masses (:class:`SubjectTrie`).

Comparing each of 20,000 filters with each other one takes minutes; :class:`SubjectTrie` goes down both sets at once,
token by token, and visits only branches that some subject may take on both sides.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
U = TypeVar("U")

_DEPTH_MAX: Final = 32
"""Tokens that get a node each; longer filters are compared one by one."""


class TooManyComparisons(Exception):
    """The filters are so many and so alike that comparing them would take too long."""


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


class Entry(NamedTuple, Generic[T]):
    """One filter of a trie with its value."""

    pattern: str
    value: T


class _TrieNode(Generic[T]):
    __slots__ = ("children", "entries")

    def __init__(self) -> None:
        self.children: dict[str, _TrieNode[T]] = {}
        self.entries: tuple[Entry[T], ...] = ()


class SubjectTrie(Generic[T]):
    """A tree of filters by their tokens, each with a value. A value may have several filters."""

    __slots__ = ("_root", "_steps_max", "steps")

    def __init__(self, entries: Iterable[tuple[str, T]] = (), *, steps_max: int = 0) -> None:
        """Add ``entries``; ``steps_max`` bounds the steps of all queries together (0: no bound)."""
        self._root: _TrieNode[T] = _TrieNode()
        self._steps_max = steps_max
        self.steps = 0
        """Nodes, or pairs of them, that were visited so far."""
        for pattern, value in entries:
            self.add(pattern, value)

    def add(self, pattern: str, value: T) -> None:
        """Add a filter; it need not be valid, and is read as :func:`overlaps` reads it."""
        node = self._root
        for part in _steps_of(pattern):
            below = node.children.get(part)
            if below is None:
                below = node.children[part] = _TrieNode()
            node = below
        node.entries += (Entry(pattern, value),)

    def discard(self, pattern: str, value: T) -> None:
        """Remove a filter with this value, if it is there."""
        path = [self._root]
        steps = _steps_of(pattern)
        for part in steps:
            below = path[-1].children.get(part)
            if below is None:
                return
            path.append(below)
        path[-1].entries = tuple(one for one in path[-1].entries if one != (pattern, value))
        for depth in range(len(steps), 0, -1):
            if path[depth].entries or path[depth].children:
                break
            del path[depth - 1].children[steps[depth - 1]]

    def matching(self, subject: str) -> Iterator[Entry[T]]:
        """Iterate over the filters that match a literal subject; a wildcard in the subject is plain text."""
        return self._covering(subject, literal=True)

    def covering(self, pattern: str) -> Iterator[Entry[T]]:
        """Iterate over the filters that ``pattern`` is a :func:`subset` of, itself included."""
        return self._covering(pattern, literal=False)

    def overlapping(self, pattern: str) -> Iterator[Entry[T]]:
        """Iterate over the filters that overlap ``pattern``; one that begins with ``>`` may come twice."""
        return (its for _, its in SubjectTrie([(pattern, None)]).pairs(self))

    def pairs(self, other: "SubjectTrie[U]") -> Iterator[tuple[Entry[T], Entry[U]]]:
        """Iterate over overlapping filters of the two tries (which may be one) that have different values.

        Raises :class:`TooManyComparisons`.
        """
        ahead = [(self._root, other._root)]  # noqa: SLF001  # of the same class
        while ahead:
            mine, its = ahead.pop()
            self._step()
            yield from self._differing(mine.entries, its.entries)
            rest, its_rest = mine.children.get(">"), its.children.get(">")
            if rest is not None:
                for its_entries in self._below(its):
                    yield from self._differing(rest.entries, its_entries)
            if its_rest is not None:
                for entries in self._below(mine):
                    yield from self._differing(entries, its_rest.entries)
            ahead += _common(mine, its)

    def _covering(self, pattern: str, *, literal: bool) -> Iterator[Entry[T]]:
        parts = pattern.split(".")
        level = [self._root]
        for part in parts[:_DEPTH_MAX]:
            below: list[_TrieNode[T]] = []
            for node in level:
                self._step()
                children = node.children
                if ">" in children:
                    yield from children[">"].entries
                if part == ">" and not literal:
                    continue
                below += [children[step] for step in {part, "*"} - {">"} if step in children]
            if not below:
                return
            level = below
        deep = len(parts) >= _DEPTH_MAX
        for node in level:
            for one in node.entries:
                self._step()
                if not deep or subset(pattern, one.pattern):
                    yield one

    def _differing(self, mine: Iterable[Entry[T]], its: Collection[Entry[U]]) -> Iterator[tuple[Entry[T], Entry[U]]]:
        for one in mine:
            for other in its:
                self._step()
                if one.value != other.value and overlaps(one.pattern, other.pattern):
                    yield one, other

    def _below(self, node: "_TrieNode[U]") -> Iterator[tuple[Entry[U], ...]]:
        """Iterate over the entries of all nodes under this one."""
        ahead = list(node.children.values())
        while ahead:
            one = ahead.pop()
            self._step()
            if one.entries:
                yield one.entries
            ahead += one.children.values()

    def _step(self) -> None:
        self.steps += 1
        if 0 < self._steps_max < self.steps:
            raise TooManyComparisons


def _steps_of(pattern: str) -> list[str]:
    """Return the path to a filter's node: nothing behind ``>`` or ``_DEPTH_MAX`` tokens."""
    parts = pattern.split(".", _DEPTH_MAX)[:_DEPTH_MAX]
    return parts[: parts.index(">") + 1] if ">" in parts else parts


def _common(mine: _TrieNode[T], its: _TrieNode[U]) -> Iterator[tuple[_TrieNode[T], _TrieNode[U]]]:
    """Iterate over the pairs of branches that one token may take; ``>`` is no branch."""
    left, right = mine.children, its.children
    for part in left if len(left) <= len(right) else right:
        if part != ">" and part in left and part in right:
            yield left[part], right[part]
    star, its_star = left.get("*"), right.get("*")
    if star is not None:
        yield from ((star, node) for part, node in right.items() if part not in ("*", ">"))
    if its_star is not None:
        yield from ((node, its_star) for part, node in left.items() if part not in ("*", ">"))
