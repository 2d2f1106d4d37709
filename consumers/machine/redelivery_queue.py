"""Sequences that are to be delivered again, in order, and those whose last delivery has been made."""

from collections.abc import Iterable, Mapping


class RedeliveryQueue:
    """Each sequence at most once; whether it may be delivered again is decided when it comes in."""

    __slots__ = ("_counts", "max_deliver", "spent", "waiting")

    def __init__(self, counts: Mapping[int, int]) -> None:
        """``counts`` says how often each sequence has been delivered again."""
        self._counts = counts
        self.max_deliver = 0
        """How often a message may be delivered, 0 for ever."""
        self.waiting: dict[int, None] = {}
        """To be delivered as soon as somebody takes them."""
        self.spent: dict[int, None] = {}
        """To be given up when their turn comes."""

    def __len__(self) -> int:
        return len(self.waiting) + len(self.spent)

    def __contains__(self, seq: int) -> bool:
        return seq in self.waiting or seq in self.spent

    def add(self, seqs: Iterable[int]) -> None:
        """Queue sequences."""
        for seq in seqs:
            if self.max_deliver and self._counts.get(seq, 0) + 2 > self.max_deliver:
                self.spent[seq] = None
            else:
                self.waiting[seq] = None

    def drop(self, seq: int) -> None:
        """Take a sequence out, if it is in."""
        self.waiting.pop(seq, None)
        self.spent.pop(seq, None)

    def clear(self) -> None:
        """Forget all."""
        self.waiting.clear()
        self.spent.clear()
