"""An ordered consumer's position in its stream, and the detection of gaps. Pure.

Theory of operation. The server's consumer is short-lived and has no acknowledgements, so losses are found here: its
consumer sequence counts deliveries from 1 without a gap. At the first gap, or when the consumer is gone, a new one is
made that starts behind the last message accepted; messages of the old one bear the old name and are stale.

Invariant: messages are accepted in the order of their stream sequence, each once, and none that matches is left out.
"""

from datetime import datetime
from enum import Enum, auto
from typing import NamedTuple

from consumers.client.delivery import Metadata
from consumers.client.errors import SequenceGap


class Verdict(Enum):
    """The verdict on a message that has arrived."""

    TAKE = auto()
    STALE = auto()
    """From a consumer that was given up: ignored."""
    GAP = auto()
    """Behind a gap: ignored, and a new consumer is made."""


class Start(NamedTuple):
    """The next consumer's start: behind a sequence or, if None, the user's own."""

    after: int | None


class OrderedState:
    """The position of one ordered consumer."""

    def __init__(self) -> None:
        self.name = ""
        self.taken_seq = 0
        """Stream sequence of the last message accepted into the buffer; 0 before the first."""
        self.handed_seq = 0
        """Stream sequence of the last message handed over to the program."""
        self.serial = 0
        self.gap: SequenceGap | None = None
        self._consumer_seq = 0

    def started(self, name: str) -> None:
        """Begin with a new consumer of the server."""
        self.name = name
        self.serial += 1
        self.gap = None
        self._consumer_seq = 0

    def abandoned(self) -> None:
        """Give up the server's consumer: its further messages are stale."""
        self.name = ""

    def rewind(self) -> None:
        """Forget the messages accepted and not handed over."""
        self.taken_seq = self.handed_seq

    @property
    def start(self) -> Start:
        """The next consumer's start."""
        return Start(self.taken_seq or None)

    def take(self, metadata: Metadata) -> Verdict:
        """Return the verdict on a message that has arrived."""
        if metadata.consumer != self.name:
            return Verdict.STALE
        if metadata.consumer_seq != self._consumer_seq + 1:
            self._lost(metadata.consumer_seq)
            return Verdict.GAP
        self._consumer_seq = metadata.consumer_seq
        self.taken_seq = metadata.stream_seq
        return Verdict.TAKE

    def heartbeat(self, last_consumer: int | None) -> bool:
        """Whether a heartbeat reveals a message that never arrived."""
        if not self.name or last_consumer is None or last_consumer <= self._consumer_seq:
            return False
        self._lost(last_consumer)
        return True

    def handed(self, metadata: Metadata) -> None:
        """Record that a message was handed over to the program."""
        self.handed_seq = metadata.stream_seq

    def _lost(self, received: int) -> None:
        self.gap = SequenceGap(self._consumer_seq + 1, received)
        self.abandoned()


def start_fields(
    start: Start, deliver_policy: str, opt_start_seq: int | None, opt_start_time: datetime | None
) -> dict[str, object]:
    """Return the configuration's start fields: the user's own until a message was accepted, then behind that one."""
    if start.after is not None:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": start.after + 1, "opt_start_time": None}
    return {"deliver_policy": deliver_policy, "opt_start_seq": opt_start_seq, "opt_start_time": opt_start_time}
