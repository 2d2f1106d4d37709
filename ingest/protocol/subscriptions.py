"""The subscriptions of a link, sent again at each attachment."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Subscriptions:
    """Subjects with their queue groups, each with a number of its own, and the frames that announce them."""

    begin: Callable[[bytes, bytes, int], bytes]
    """Encodes the frame that begins one: subject, queue (empty for none), number. ``ValueError`` for spaces."""
    end: Callable[[bytes, bytes, int], bytes]
    """Encodes the frame that ends it; arguments likewise."""
    begun: int = 0
    """Number of the newest subscription: how many there ever were."""
    _numbers: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def add(self, subject: bytes, queue: bytes) -> bytes:
        """Add a subscription; return its frame, empty if it is known. Raises ``ValueError`` for spaces."""
        frame = self.begin(subject, queue, self.begun + 1)
        if (subject, queue) in self._numbers:
            return b""
        self.begun += 1
        self._numbers[subject, queue] = self.begun
        return frame

    def remove(self, subject: bytes, queue: bytes) -> bytes:
        """Remove a subscription; return the frame that ends it, empty if there is none."""
        number = self._numbers.pop((subject, queue), None)
        return b"" if number is None else self.end(subject, queue, number)

    def frames(self) -> bytes:
        """Return the frames of all subscriptions, oldest first."""
        return b"".join(self.begin(subject, queue, number) for (subject, queue), number in self._numbers.items())
