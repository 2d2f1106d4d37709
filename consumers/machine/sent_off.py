"""Who waited when a process ended: those who asked it for messages are called back by the next one.

A client that stays connected to the hub sees nothing of a gateway that ends and starts again. So it is told as
nats-server tells it: some clients ask anew when the leader has changed, others when their request has timed out, and
none takes harm from being told both.
"""

from collections.abc import Iterable
from typing import Final

from consumers.machine.effects import Status

_NOTHING_LEFT: Final = (("Nats-Pending-Messages", "0"), ("Nats-Pending-Bytes", "0"))
"""What was left was said when the request was sent off; a process that was killed can't know it."""


class SentOff:
    """Reply subjects of one consumer's requests."""

    __slots__ = ("_recorded", "_replies")

    def __init__(self, replies: tuple[bytes, ...] = ()) -> None:
        """``replies`` belong to requests that ended with the process before this one."""
        self._replies = replies
        self._recorded: dict[bytes, None] = {}

    def take(self, replies: tuple[bytes, ...]) -> None:
        """These requests end with this process."""
        self._replies = replies

    def record(self, waiting: Iterable[bytes]) -> Iterable[bytes]:
        """All that a state has to name, each once, when ``waiting`` wait now."""
        self._recorded = dict.fromkeys((*self._replies, *waiting))
        return self._recorded

    def records(self, reply: bytes) -> bool:
        """Whether the last state named this one."""
        return reply in self._recorded

    def call_back(self) -> list[Status]:
        """Have those ask anew who were sent off: they are told once."""
        replies, self._replies = self._replies, ()
        return [
            status
            for reply in replies
            for status in (
                Status(reply, 409, "Leadership Change"),
                Status(reply, 408, "Request Timeout", _NOTHING_LEFT),
            )
        ]
