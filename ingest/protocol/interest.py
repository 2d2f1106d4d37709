"""The subscriptions that the hub announced over the leaf link.

Invariant: :meth:`InterestTable.has_interest` has no false negatives. Beyond ``LINK_INTEREST_MAX`` entries the table
records nothing more and counts every subject as wanted. The hub delivers a leaf's message only to the queue groups
that its frame names, so a sender looks them up here (nats-server's processMsgResults).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from conf.limits import LINK_INTEREST_MAX
from ingest.protocol.wire_protocol import Interest

OnChange = Callable[[bytes, bytes, bool], None]
"""Called with subject, queue group (empty for none) and whether interest began (True) or ended."""

_WILDCARDS = (b"*", b">")
_NO_QUEUES: Final[frozenset[bytes]] = frozenset()


@dataclass(slots=True)
class _InterestNode:
    """One token in the tree of wildcard subscriptions."""

    children: "dict[bytes, _InterestNode]" = field(default_factory=dict)
    queues: set[bytes] = field(default_factory=set)
    """Queue groups of the subscriptions that end at this token; empty bytes for a plain subscription."""


@dataclass(slots=True)
class _Subscriptions:
    """Subscriptions with their queue groups, looked up by a literal subject that they match."""

    literals: dict[bytes, set[bytes]] = field(default_factory=dict)
    """Queue groups by literal subject; empty bytes for a plain subscription."""
    wild: _InterestNode = field(default_factory=_InterestNode)

    def __bool__(self) -> bool:
        return bool(self.literals or self.wild.children)

    def add(self, subject: bytes, queue: bytes) -> None:
        """Add a new subscription."""
        tokens = subject.split(b".")
        if any(token in _WILDCARDS for token in tokens):
            node = self.wild
            for token in tokens:
                node = node.children.setdefault(token, _InterestNode())
            node.queues.add(queue)
        else:
            self.literals.setdefault(subject, set()).add(queue)

    def remove(self, subject: bytes, queue: bytes) -> None:
        """Remove a subscription that was added."""
        if subject not in self.literals:
            _remove_wild(self.wild, subject.split(b"."), queue)
            return
        queues = self.literals[subject]
        queues.remove(queue)
        if not queues:
            del self.literals[subject]

    def takers(self, subject: bytes) -> list[set[bytes]]:
        """Return the queue groups of each literal or wildcard subscription that matches ``subject``."""
        found: list[set[bytes]] = []
        if subject in self.literals:
            found.append(self.literals[subject])
        children = self.wild.children
        if children and (subject.partition(b".")[0] in children or not children.keys().isdisjoint(_WILDCARDS)):
            found += _takers(self.wild, subject.split(b"."))
        return found


@dataclass(slots=True)
class InterestTable:
    """The hub's subscriptions by subject and queue, with their weights."""

    on_change: OnChange | None = None
    entries_max: int = LINK_INTEREST_MAX
    overflowed: bool = False
    """Whether more was announced than fits; from then on every subject counts as wanted."""
    _weights: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    _plain: _Subscriptions = field(default_factory=_Subscriptions)
    _groups: _Subscriptions = field(default_factory=_Subscriptions)

    def __len__(self) -> int:
        return len(self._weights)

    def apply(self, change: Interest) -> None:
        """Apply one announcement of the hub; a repeated one only changes the weight."""
        key = (change.subject, change.queue)
        held = self._groups if change.queue else self._plain
        known = key in self._weights
        if not change.added:
            if known:
                del self._weights[key]
                held.remove(*key)
                self._tell(key, added=False)
        elif known:
            self._weights[key] = change.weight
        elif len(self._weights) >= self.entries_max:
            self.overflowed = True
        else:
            self._weights[key] = change.weight
            held.add(*key)
            self._tell(key, added=True)

    def replace(self, fresh: "InterestTable") -> None:
        """Take over ``fresh``, the table of a new connection, and report the differences."""
        before, after = self._weights, fresh._weights  # noqa: SLF001  # of the same class
        self._weights, self._plain, self._groups = after, fresh._plain, fresh._groups  # noqa: SLF001  # likewise
        self.overflowed = fresh.overflowed
        for key in before.keys() - after.keys():
            self._tell(key, added=False)
        for key in after.keys() - before.keys():
            self._tell(key, added=True)

    def tell(self, on_change: OnChange) -> None:
        """Report every known subscription to ``on_change`` as begun, and all changes from now on."""
        self.on_change = on_change
        for key in self._weights:
            self._tell(key, added=True)

    def weight(self, subject: bytes, queue: bytes = b"") -> int:
        """Return the number of members of exactly this subscription; 0 if there is none."""
        return self._weights.get((subject, queue), 0)

    def has_interest(self, subject: bytes) -> bool:
        """Whether a message to this literal subject has a receiver at the hub."""
        return self.overflowed or bool(self._plain.takers(subject) or self._groups.takers(subject))

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        """Whether exactly this subscription may exist."""
        return self.overflowed or self.weight(subject, queue) > 0

    @property
    def has_groups(self) -> bool:
        """Whether any queue group is subscribed."""
        return bool(self._groups)

    def queues(self, subject: bytes) -> frozenset[bytes]:
        """Return the hub's queue groups that each get one copy of a message to this literal subject."""
        found = self._groups.takers(subject)
        return frozenset().union(*found) if found else _NO_QUEUES

    def _tell(self, key: tuple[bytes, bytes], *, added: bool) -> None:
        if self.on_change is not None:
            self.on_change(*key, added)


def _remove_wild(root: _InterestNode, tokens: list[bytes], queue: bytes) -> None:
    """Remove a subscription from the tree, and the nodes left empty."""
    path = [root]
    for token in tokens:
        path.append(path[-1].children[token])
    path[-1].queues.remove(queue)
    for depth in range(len(tokens), 0, -1):
        if path[depth].queues or path[depth].children:
            break
        del path[depth - 1].children[tokens[depth - 1]]


def _takers(root: _InterestNode, tokens: list[bytes]) -> list[set[bytes]]:
    """Return the queue groups of each pattern that matches; no recursion, as a subject may have 2,000 tokens."""
    found: list[set[bytes]] = []
    level = [root]
    for token in tokens:
        below: list[_InterestNode] = []
        for node in level:
            children = node.children
            if b">" in children:
                found.append(children[b">"].queues)
            below.extend(children[step] for step in (token, b"*") if step in children)
        if not below:
            return found
        level = below
    return found + [node.queues for node in level if node.queues]
