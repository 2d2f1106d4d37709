"""The consumer behind a consumption: an ordinary one, or the succession of an ordered one."""

from typing import Protocol

from consumers.client.errors import JetStreamError
from consumers.client.message import Message
from consumers.client.ordered_state import Verdict


class PullSource(Protocol):
    """The target of pulls, and the judge of their messages."""

    @property
    def next_subject(self) -> str:
        """The subject that pulls are sent to now."""
        ...

    async def prepare(self) -> None:
        """Prepare for the first pull; raises a JetStreamError, and then needs no :meth:`close`."""
        ...

    def accept(self, message: Message, /) -> Verdict:
        """Return the verdict on a message that has arrived."""
        ...

    def heartbeat(self, last_consumer: int | None, /) -> JetStreamError | None:
        """Return the gap that a heartbeat reveals, if any."""
        ...

    def handed(self, message: Message, /) -> None:
        """Record that a message was handed over to the program."""
        ...

    def mends(self, error: JetStreamError, /) -> bool:
        """Whether :meth:`recover` mends this error."""
        ...

    def abandon(self) -> JetStreamError | None:
        """Give up the consumer; return the gap, if there was one."""
        ...

    async def recover(self) -> None:
        """Create a new consumer; raises a JetStreamError, a retryable one if another attempt may succeed."""
        ...

    async def close(self) -> None:
        """Release the consumer: no more pulls follow."""
        ...


class ConsumerSource:
    """An ordinary consumer: the server keeps its state, and every message is accepted."""

    def __init__(self, next_subject: str) -> None:
        self.next_subject = next_subject

    async def prepare(self) -> None:
        """Do nothing: a missing consumer shows at the first pull."""

    def accept(self, _message: Message, /) -> Verdict:
        """Accept every message."""
        return Verdict.TAKE

    def heartbeat(self, _last_consumer: int | None, /) -> JetStreamError | None:
        """Return None: the server delivers a lost message again."""
        return None

    def handed(self, _message: Message, /) -> None:
        """Do nothing: acknowledgements record it."""

    def mends(self, _error: JetStreamError, /) -> bool:
        """Return False: no error is mended by a new consumer."""
        return False

    def abandon(self) -> JetStreamError | None:
        """Never called."""
        raise AssertionError("an ordinary consumer is not given up")

    async def recover(self) -> None:
        """Never called."""
        raise AssertionError("an ordinary consumer is not replaced")

    async def close(self) -> None:
        """Do nothing."""
