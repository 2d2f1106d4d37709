"""How much may be under way to a push consumer's client: a window of bytes that grows while the client answers."""

from typing import Final

WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
"""nats-server's JsFlowControlMaxPending."""
_SLOW_START: Final = 16


class FlowWindow:
    """Bytes sent, bytes that an answer will release, and the token of the request that is open."""

    __slots__ = ("_asked", "_limit", "sent", "token")

    def __init__(self) -> None:
        self._limit = WINDOW_BYTES_MAX // _SLOW_START
        self._asked = 0
        self.sent = 0
        """Bytes under way."""
        self.token = ""
        """Of the request that has not been answered, empty when there is none."""

    @property
    def open(self) -> bool:
        """Whether more may be sent."""
        return self.sent <= self._limit

    def add(self, size: int, *, eager: bool) -> bool:
        """Count a message; True when the client is to be asked for an answer (at once when ``eager``)."""
        self.sent += size
        if not self.token:
            return self.sent > self._limit // 2 or eager
        if self.sent - self._asked >= self._limit:
            self._asked += size
        return False

    def ask(self, token: str) -> None:
        """The client is asked: its answer releases all that is under way now."""
        self.token, self._asked = token, self.sent

    def answer(self, token: str) -> bool:
        """Take an answer; False when it is not to the request that is open."""
        if not self.token or token != self.token:
            return False
        self._limit = min(2 * self._limit, WINDOW_BYTES_MAX)
        self.sent -= self._asked
        self.token = ""
        return True
