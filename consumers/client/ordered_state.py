"""An ordered consumer's place in its stream, and what a message or heartbeat says about a gap. Pure.

Theory of operation. The server's consumer is short-lived and asks for no acknowledgements, so whatever is lost is
noticed here: its own sequence counts deliveries from 1 without a hole. At the first hole, or when it is gone, a new
one is made that starts behind the last message taken; what the old one still sends bears the old name and is stale.

Invariant: messages are taken in the order of their stream sequence, each once, and none that matches is left out.
"""

from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from consumers.client.delivery import Metadata
from consumers.client.errors import SequenceGap


class Verdict(Enum):
    """What to do with a message."""

    TAKE = auto()
    STALE = auto()
    """From a consumer that was given up: ignore."""
    GAP = auto()
    """One before it is missing: ignore, and make a new consumer."""


class Start(NamedTuple):
    """Where the next consumer starts: behind a sequence, or as the user said."""

    after: int | None


class OrderedState:
    """Where one ordered consumer is."""

    def __init__(self) -> None:
        self.name = ""
        self.taken_seq = 0
        """Stream sequence of the last message taken into the buffer; 0 before the first."""
        self.handed_seq = 0
        """Stream sequence of the last message that the program was given."""
        self.serial = 0
        self.gap: SequenceGap | None = None
        self._consumer_seq = 0

    def started(self, name: str) -> None:
        """A new consumer of the server takes over."""
        self.name = name
        self.serial += 1
        self.gap = None
        self._consumer_seq = 0

    def abandoned(self) -> None:
        """The server's consumer is given up: all that it still sends is stale."""
        self.name = ""

    def rewind(self) -> None:
        """Forget what was taken and never handed over."""
        self.taken_seq = self.handed_seq

    @property
    def start(self) -> Start:
        """Where the next consumer starts."""
        return Start(self.taken_seq or None)

    def take(self, metadata: Metadata) -> Verdict:
        """Judge a message at its arrival."""
        if metadata.consumer != self.name:
            return Verdict.STALE
        if metadata.consumer_seq != self._consumer_seq + 1:
            self._lost(metadata.consumer_seq)
            return Verdict.GAP
        self._consumer_seq = metadata.consumer_seq
        self.taken_seq = metadata.stream_seq
        return Verdict.TAKE

    def heartbeat(self, last_consumer: int | None) -> bool:
        """Whether a heartbeat tells of a message that never came."""
        if not self.name or last_consumer is None or last_consumer <= self._consumer_seq:
            return False
        self._lost(last_consumer)
        return True

    def handed(self, metadata: Metadata) -> None:
        """The program was given a message."""
        self.handed_seq = metadata.stream_seq

    def _lost(self, received: int) -> None:
        self.gap = SequenceGap(self._consumer_seq + 1, received)
        self.abandoned()


def start_fields(
    start: Start, deliver_policy: str, opt_start_seq: int | None, opt_start_time: datetime | None
) -> dict[str, object]:
    """The consumer's start: the user's own until a message was taken, behind that one from then on."""
    if start.after is not None:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": start.after + 1, "opt_start_time": None}
    return {"deliver_policy": deliver_policy, "opt_start_seq": opt_start_seq, "opt_start_time": opt_start_time}
