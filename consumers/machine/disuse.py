"""When a consumer that nobody uses goes. Pure."""

from typing import Final

from conf.limits import CONSUMER_RETURN_SECONDS
from consumers.config.consumer_config import MachineConfig

_PULL_GRACE_NS: Final = 100_000_000
"""How much longer than its ``inactive_threshold`` an unused pull consumer stays (nats-server's least jitter)."""
_AGAIN_NS: Final = 1_000_000_000
"""How long after it was found unused a consumer is looked at again, if it could not be deleted then."""
_LATE_NS: Final = 5_000_000_000
"""Who is asked so much later than was due has missed time: the clock stepped, or the process stood still."""
_RETURN_NS: Final = CONSUMER_RETURN_SECONDS * 1_000_000_000


class Disuse:
    """The time that passes while nobody uses a consumer."""

    __slots__ = ("_last_ns", "_return_ns", "_threshold_ns", "due_ns")

    def __init__(self, config: MachineConfig, now_ns: int) -> None:
        self.configure(config)
        self.begin(now_ns)

    def configure(self, config: MachineConfig) -> None:
        """Take the threshold of a (new) configuration."""
        threshold = config.inactive_threshold
        self._threshold_ns = threshold + _PULL_GRACE_NS if threshold and not config.is_push else threshold

    def begin(self, now_ns: int) -> None:
        """From now on it counts as unused."""
        self._last_ns = now_ns
        self._return_ns = 0
        self.due_ns = now_ns + self._threshold_ns if self._threshold_ns else 0
        """When to ask whether the time is :meth:`over`, 0 for never."""

    def begin_anew(self, now_ns: int) -> None:
        """Clients can be heard again: if it counts as unused, then from now on, and they have time to come back."""
        if self.due_ns:
            self.begin(now_ns)
            self._return_ns = now_ns + _RETURN_NS
            self.due_ns = max(self.due_ns, self._return_ns)

    def end(self) -> None:
        """It is in use until :meth:`begin`."""
        self.due_ns = 0

    def put_off(self, now_ns: int) -> None:
        """It is deleted now, or looked at again a little later."""
        self.due_ns = now_ns + _AGAIN_NS

    def heard(self, now_ns: int) -> None:
        """An ack of any kind, or a request, shows that somebody is at work, whatever becomes of it."""
        self._last_ns, self._return_ns = now_ns, 0
        self.due_ns = min(self.due_ns, now_ns + self._threshold_ns)

    def over(self, now_ns: int, *, used_ns: int = 0, unacked_ns: int = 0) -> bool:
        """Whether it has been unused for too long; else when to ask again is noted.

        ``used_ns`` is when it was last used, ``unacked_ns`` until when the last ack may come that is missing.
        """
        if now_ns > self.due_ns + _LATE_NS:
            self.begin_anew(now_ns)
            return False
        self.due_ns = max(max(used_ns, self._last_ns) + self._threshold_ns, self._return_ns)
        if self.due_ns <= now_ns and unacked_ns:
            self.due_ns = unacked_ns + self._threshold_ns
        return self.due_ns <= now_ns
