"""What a link is subscribed to, now and after each attachment."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Subscriptions:
    """Subjects with their queue groups, each with a number of its own, and the frames that tell of them."""

    begin: Callable[[bytes, bytes, int], bytes]
    """The frame that begins one: subject, queue (empty for none), number. Raises ``ValueError`` for spaces."""
    end: Callable[[bytes, bytes, int], bytes]
    """The frame that ends it."""
    begun: int = 0
    """How many there ever were: the number of the newest."""
    _numbers: dict[tuple[bytes, bytes], int] = field(default_factory=dict)

    def add(self, subject: bytes, queue: bytes) -> bytes:
        """The frame of a new subscription; empty for a known one. Raises ``ValueError`` for spaces."""
        frame = self.begin(subject, queue, self.begun + 1)
        if (subject, queue) in self._numbers:
            return b""
        self.begun += 1
        self._numbers[subject, queue] = self.begun
        return frame

    def remove(self, subject: bytes, queue: bytes) -> bytes:
        """The frame that ends a subscription; empty if there is none."""
        number = self._numbers.pop((subject, queue), None)
        return b"" if number is None else self.end(subject, queue, number)

    def frames(self) -> bytes:
        """All of them, in the order in which they were made."""
        return b"".join(self.begin(subject, queue, number) for (subject, queue), number in self._numbers.items())
