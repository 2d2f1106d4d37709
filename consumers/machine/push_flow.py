"""Flow control of a push consumer: a window of bytes under way that grows while the client replies."""

from typing import Final

WINDOW_BYTES_MAX: Final = 32 * 1024 * 1024
"""nats-server's JsFlowControlMaxPending."""
_SLOW_START: Final = 16


class FlowWindow:
    """The bytes under way, those that a reply will release, and the token of the open request."""

    __slots__ = ("_asked", "_limit", "sent", "token")

    def __init__(self) -> None:
        self._limit = WINDOW_BYTES_MAX // _SLOW_START
        self._asked = 0
        self.sent = 0
        """Bytes under way."""
        self.token = ""
        """Token of the open flow control request, empty for none."""

    @property
    def open(self) -> bool:
        """Whether more may be sent."""
        return self.sent <= self._limit

    def add(self, size: int, *, eager: bool) -> bool:
        """Count a message; return whether to send a flow control request (``eager``: at once)."""
        self.sent += size
        if not self.token:
            return self.sent > self._limit // 2 or eager
        if self.sent - self._asked >= self._limit:
            self._asked += size
        return False

    def ask(self, token: str) -> None:
        """Open a request, whose reply releases the bytes under way now."""
        self.token, self._asked = token, self.sent

    def answer(self, token: str) -> bool:
        """Apply a reply; return False if it is not to the open request."""
        if not self.token or token != self.token:
            return False
        self._limit = min(2 * self._limit, WINDOW_BYTES_MAX)
        self.sent -= self._asked
        self.token = ""
        return True
