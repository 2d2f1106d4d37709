"""A stream as a list of what happened to it: what the tests of the past compare Silt with. Slow and obvious."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

Held = tuple[int, str, bytes]
"""Sequence, subject and payload."""


class Limits(NamedTuple):
    """The part of a configuration that removes messages; -1 for no limit."""

    max_msgs: int = -1
    per_subject: int = -1


class Stood(NamedTuple):
    """How a stream stood."""

    last: int
    """Its last sequence."""
    live: tuple[int, ...]
    limits: Limits


@dataclass
class Model:
    """One stream."""

    name: str
    limits: Limits
    last: int = 0
    ever: dict[int, tuple[str, bytes]] = field(default_factory=dict)
    live: list[int] = field(default_factory=list)
    erased: set[int] = field(default_factory=set)
    after: dict[int, Stood] = field(default_factory=dict)
    """How it stood right after each message."""
    at_time: dict[int, Stood] = field(default_factory=dict)
    """How it stood at times, ns."""

    def __post_init__(self) -> None:
        self.after[0] = Stood(0, (), self.limits)

    # --- what happens ---

    def publish(self, subject: str, data: bytes) -> None:
        """Store a message."""
        self.last += 1
        self.ever[self.last] = (subject, data)
        self.live.append(self.last)
        mine = self.of_subject(subject)
        if 0 < self.limits.per_subject < len(mine):
            self.live.remove(mine[0])
        self._cut()
        self.after[self.last] = self.stands

    def remove(self, seqs: Iterable[int], *, erase: bool) -> None:
        """Delete or purge messages."""
        gone = set(seqs)
        self.live = [seq for seq in self.live if seq not in gone]
        self.erased |= gone if erase else set()

    def limit(self, limits: Limits) -> None:
        """Change the configuration."""
        self.limits = limits
        if limits.per_subject > 0:
            for subject in {self.ever[seq][0] for seq in self.live}:
                self.remove(self.of_subject(subject)[: -limits.per_subject], erase=False)
        self._cut()

    def rewind(self, then: Stood) -> None:
        """Stand as it stood."""
        self._again(self.again(then), [seq for seq in self.live if seq > then.last])

    def again(self, then: Stood) -> list[int]:
        """The messages that a rewind stores anew."""
        past = self.of(then)
        lost = [seq for seq in past if seq not in self.live]
        if self.limits.per_subject <= 0:
            return [seq for seq in past if lost and seq >= lost[0]]
        firsts = {self.ever[seq][0]: seq for seq in reversed(lost)}
        return [seq for seq in past if firsts.get(self.ever[seq][0], self.last + 1) <= seq]

    def undelete(self, then: Stood, subject: str) -> int:
        """Bring back what has been lost of a subject; return how many."""
        lost = [seq for seq in self.of(then) if seq not in self.live and self.ever[seq][0] == subject]
        self._again(lost, [])
        return len(lost)

    def branch(self, name: str, then: Stood) -> "Model":
        """Another stream that stands as this one stood."""
        new = Model(name, then.limits)
        for new.last in self.of(then):
            new.ever[new.last] = self.ever[new.last]
            new.live.append(new.last)
            new.after[new.last] = new.stands
        new.last = then.last
        new.after[new.last] = new.stands
        return new

    # --- how it stands and stood ---

    @property
    def stands(self) -> Stood:
        """How it stands."""
        return Stood(self.last, tuple(self.live), self.limits)

    def at(self, seq: int) -> Stood:
        """How it stood right after a message."""
        return self.after[max(one for one in self.after if one <= seq)]._replace(last=seq)

    def of(self, then: Stood) -> list[int]:
        """The sequences of a point that were not erased later."""
        return [seq for seq in then.live if seq not in self.erased]

    def held(self, then: Stood) -> list[Held]:
        """The messages of a point."""
        return [(seq, *self.ever[seq]) for seq in self.of(then)]

    def of_subject(self, subject: str) -> list[int]:
        """The live sequences of a subject."""
        return [seq for seq in self.live if self.ever[seq][0] == subject]

    def _again(self, again: list[int], newer: list[int]) -> None:
        self.remove([*again, *newer], erase=False)
        for seq in again:
            self.publish(*self.ever[seq])

    def _cut(self) -> None:
        if 0 < self.limits.max_msgs < len(self.live):
            self.live = self.live[-self.limits.max_msgs :]
