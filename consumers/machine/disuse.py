"""The time after which an unused consumer is deleted."""

from typing import Final

from conf.limits import CONSUMER_RETURN_SECONDS
from consumers.config.consumer_config import MachineConfig

_PULL_GRACE_NS: Final = 100_000_000
"""Time that an unused pull consumer outlives its ``inactive_threshold`` (nats-server's least jitter)."""
_AGAIN_NS: Final = 1_000_000_000
"""Time until an unused consumer is checked again, if it could not be deleted."""
_LATE_NS: Final = 5_000_000_000
"""A check this much later than due means a step of the clock or a pause of the process."""
_RETURN_NS: Final = CONSUMER_RETURN_SECONDS * 1_000_000_000


class Disuse:
    """The time since a consumer was last used."""

    __slots__ = ("_last_ns", "_return_ns", "_threshold_ns", "due_ns")

    def __init__(self, config: MachineConfig, now_ns: int) -> None:
        self.configure(config)
        self.begin(now_ns)

    def configure(self, config: MachineConfig) -> None:
        """Apply the threshold of a (new) configuration."""
        threshold = config.inactive_threshold
        self._threshold_ns = threshold + _PULL_GRACE_NS if threshold and not config.is_push else threshold

    def begin(self, now_ns: int) -> None:
        """Begin to count the consumer as unused."""
        self._last_ns = now_ns
        self._return_ns = 0
        self.due_ns = now_ns + self._threshold_ns if self._threshold_ns else 0
        """Time (ns) at which to check :meth:`over`, 0 for never."""

    def begin_anew(self, now_ns: int) -> None:
        """Restart the count, if it runs, with time for clients to return: the hub is attached again."""
        if self.due_ns:
            self.begin(now_ns)
            self._return_ns = now_ns + _RETURN_NS
            self.due_ns = max(self.due_ns, self._return_ns)

    def end(self) -> None:
        """Stop the count until :meth:`begin`."""
        self.due_ns = 0

    def put_off(self, now_ns: int) -> None:
        """Set the next check, should the consumer not be deleted now."""
        self.due_ns = now_ns + _AGAIN_NS

    def heard(self, now_ns: int) -> None:
        """Record an ack of any kind, or a pull, as a sign of use."""
        self._last_ns, self._return_ns = now_ns, 0
        self.due_ns = min(self.due_ns, now_ns + self._threshold_ns)

    def over(self, now_ns: int, *, used_ns: int = 0, unacked_ns: int = 0) -> bool:
        """Whether the consumer was unused for too long; if not, set the next check.

        ``used_ns`` is the time of its last use, ``unacked_ns`` the latest time at which a pending ack is due.
        """
        if now_ns > self.due_ns + _LATE_NS:
            self.begin_anew(now_ns)
            return False
        self.due_ns = max(max(used_ns, self._last_ns) + self._threshold_ns, self._return_ns)
        if self.due_ns <= now_ns and unacked_ns:
            self.due_ns = unacked_ns + self._threshold_ns
        return self.due_ns <= now_ns
