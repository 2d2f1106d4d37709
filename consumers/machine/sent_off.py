"""Pulls that waited when a process ended: the next one has their clients pull again.

A client that stays connected to the hub does not notice a restart of the gateway. So it gets the statuses of
nats-server: some clients pull again after a leadership change, others after a timeout, and both statuses harm none.
"""

from collections.abc import Iterable
from typing import Final

from consumers.machine.effects import Status

_NOTHING_LEFT: Final = (("Nats-Pending-Messages", "0"), ("Nats-Pending-Bytes", "0"))
"""The rest was reported when the pull was sent off; a killed process can't know it."""


class SentOff:
    """The reply subjects of one consumer's pulls that were sent off."""

    __slots__ = ("_recorded", "_replies")

    def __init__(self, replies: tuple[bytes, ...] = ()) -> None:
        """``replies`` are those of pulls that ended with the previous process."""
        self._replies = replies
        self._recorded: dict[bytes, None] = {}

    def take(self, replies: tuple[bytes, ...]) -> None:
        """Record pulls that end with this process."""
        self._replies = replies

    def record(self, waiting: Iterable[bytes]) -> Iterable[bytes]:
        """Return the reply subjects to record in a state, each once, given those that wait now."""
        self._recorded = dict.fromkeys((*self._replies, *waiting))
        return self._recorded

    def records(self, reply: bytes) -> bool:
        """Whether the last state recorded this reply subject."""
        return reply in self._recorded

    def call_back(self) -> list[Status]:
        """Return, once, the statuses that make the clients pull again."""
        replies, self._replies = self._replies, ()
        return [
            status
            for reply in replies
            for status in (
                Status(reply, 409, "Leadership Change"),
                Status(reply, 408, "Request Timeout", _NOTHING_LEFT),
            )
        ]
