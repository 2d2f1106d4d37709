"""Who listens at the hub: the subscriptions that it announced over the leaf link.

Invariant: :meth:`InterestTable.has_interest` never says no wrongly. Past ``LINK_INTEREST_MAX`` entries the table stops
recording and counts every subject as wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from conf.limits import LINK_INTEREST_MAX
from ingest.leaf_protocol import Interest

OnChange = Callable[[bytes, bytes, bool], None]
"""Called with subject, queue (empty for none) and whether interest began (True) or ended."""

_WILDCARDS = (b"*", b">")


@dataclass(slots=True)
class _Node:
    """One token's place in the tree of wildcard subscriptions."""

    children: "dict[bytes, _Node]" = field(default_factory=dict)
    entries: int = 0
    """Subscriptions (plain, or one a queue group) that end here."""


@dataclass(slots=True)
class InterestTable:
    """The hub's subscriptions by subject and queue, with their weights."""

    on_change: OnChange | None = None
    entries_max: int = LINK_INTEREST_MAX
    overflowed: bool = False
    """Whether more was announced than is remembered; every subject counts as wanted from then on."""
    _weights: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    _literals: dict[bytes, int] = field(default_factory=dict)
    _wild: _Node = field(default_factory=_Node)

    def __len__(self) -> int:
        return len(self._weights)

    def apply(self, change: Interest) -> None:
        """Take in one announcement of the hub; a repeated one only changes the weight."""
        key = (change.subject, change.queue)
        known = key in self._weights
        if not change.added:
            if known:
                del self._weights[key]
                self._count(change.subject, -1)
                self._tell(key, added=False)
        elif known:
            self._weights[key] = change.weight
        elif len(self._weights) >= self.entries_max:
            self.overflowed = True
        else:
            self._weights[key] = change.weight
            self._count(change.subject, 1)
            self._tell(key, added=True)

    def replace(self, fresh: "InterestTable") -> None:
        """Become ``fresh``, the table of a new connection, and report only what differs."""
        before, after = self._weights, fresh._weights  # noqa: SLF001  # of the same class
        self._weights, self._literals, self._wild = after, fresh._literals, fresh._wild  # noqa: SLF001  # likewise
        self.overflowed = fresh.overflowed
        for key in before.keys() - after.keys():
            self._tell(key, added=False)
        for key in after.keys() - before.keys():
            self._tell(key, added=True)

    def weight(self, subject: bytes, queue: bytes = b"") -> int:
        """Members behind exactly this subscription; 0 when there is none."""
        return self._weights.get((subject, queue), 0)

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message published to this literal subject has a receiver at the hub."""
        if subject in self._literals or self.overflowed:
            return True
        return _matches(self._wild, subject.split(b"."))

    def _count(self, subject: bytes, change: int) -> None:
        tokens = subject.split(b".")
        if any(token in _WILDCARDS for token in tokens):
            _count_wild(self._wild, tokens, change)
            return
        left = self._literals.get(subject, 0) + change
        if left:
            self._literals[subject] = left
        else:
            del self._literals[subject]

    def _tell(self, key: tuple[bytes, bytes], *, added: bool) -> None:
        if self.on_change is not None:
            self.on_change(*key, added)


def _count_wild(root: _Node, tokens: list[bytes], change: int) -> None:
    """Add ``change`` at the end of the path and drop the nodes that nothing needs any more."""
    path = [root]
    for token in tokens:
        path.append(path[-1].children.setdefault(token, _Node()))
    path[-1].entries += change
    for depth in range(len(tokens), 0, -1):
        if path[depth].entries or path[depth].children:
            break
        del path[depth - 1].children[tokens[depth - 1]]


def _matches(root: _Node, tokens: list[bytes]) -> bool:
    """Whether some subscription in the tree takes all tokens; a loop, because a subject may have 2,000 of them."""
    level = [root]
    for token in tokens:
        below: list[_Node] = []
        for node in level:
            children = node.children
            if b">" in children:
                return True
            below.extend(children[step] for step in (token, b"*") if step in children)
        if not below:
            return False
        level = below
    return any(node.entries for node in level)
