"""The redelivery queue: sequences to deliver again, in order, and those that reached ``max_deliver``."""

from collections.abc import Iterable, Mapping


class RedeliveryQueue:
    """A queue of unique sequences; ``max_deliver`` is checked when a sequence is added."""

    __slots__ = ("_counts", "max_deliver", "spent", "waiting")

    def __init__(self, counts: Mapping[int, int]) -> None:
        """``counts`` has the number of redeliveries by sequence."""
        self._counts = counts
        self.max_deliver = 0
        """Most deliveries of a message, 0 for no limit."""
        self.waiting: dict[int, None] = {}
        """Sequences to deliver to the next receiver."""
        self.spent: dict[int, None] = {}
        """Sequences to give up when there is a receiver."""

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
        """Remove a sequence, if it is queued."""
        self.waiting.pop(seq, None)
        self.spent.pop(seq, None)

    def clear(self) -> None:
        """Remove all sequences."""
        self.waiting.clear()
        self.spent.clear()
