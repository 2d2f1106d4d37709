"""What consuming needs to know about the consumer behind it: an ordinary one, or an ordered one that is replaced."""

from typing import Protocol

from consumers.client.errors import JetStreamError
from consumers.client.message import Message
from consumers.client.ordered_state import Verdict


class PullSource(Protocol):
    """Where pulls go to, and what becomes of what they bring."""

    @property
    def next_subject(self) -> str:
        """The subject that pulls are sent to now."""
        ...

    async def prepare(self) -> None:
        """Be ready for the first pull; raises a JetStreamError, and then nothing is to be closed."""
        ...

    def accept(self, message: Message, /) -> Verdict:
        """Judge a message at its arrival."""
        ...

    def heartbeat(self, last_consumer: int | None, /) -> JetStreamError | None:
        """What a heartbeat tells to be missing."""
        ...

    def handed(self, message: Message, /) -> None:
        """The program was given a message."""
        ...

    def mends(self, error: JetStreamError, /) -> bool:
        """Whether :meth:`recover` is the answer to that error."""
        ...

    def abandon(self) -> JetStreamError | None:
        """Give up the consumer; gives the gap, if one was seen."""
        ...

    async def recover(self) -> None:
        """Make a new consumer; raises a JetStreamError, a retryable one when it should be tried again."""
        ...

    async def close(self) -> None:
        """No more pulls will come."""
        ...


class ConsumerSource:
    """An ordinary consumer: it keeps its own state, and every message of it is taken."""

    def __init__(self, next_subject: str) -> None:
        self.next_subject = next_subject

    async def prepare(self) -> None:
        """Nothing to do: the consumer exists, or the first pull tells."""

    def accept(self, _message: Message, /) -> Verdict:
        """Take it."""
        return Verdict.TAKE

    def heartbeat(self, _last_consumer: int | None, /) -> JetStreamError | None:
        """Nothing: what got lost is delivered again."""
        return None

    def handed(self, _message: Message, /) -> None:
        """Nothing: acknowledgements tell."""

    def mends(self, _error: JetStreamError, /) -> bool:
        """Never."""
        return False

    def abandon(self) -> JetStreamError | None:
        """Never called."""
        raise AssertionError("an ordinary consumer is not given up")

    async def recover(self) -> None:
        """Never called."""
        raise AssertionError("an ordinary consumer is not replaced")

    async def close(self) -> None:
        """Nothing to do."""
