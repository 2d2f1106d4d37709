"""The pause of a consumer's deliveries."""

from consumers.config.consumer_config import MachineConfig
from consumers.machine import advisories
from consumers.machine.effects import Advisory


class Pause:
    """The pause of one consumer."""

    __slots__ = ("_consumer", "_stream", "due_ns", "until_ns")

    def __init__(self, stream: str, config: MachineConfig, now_ns: int) -> None:
        self._stream = stream
        self._consumer = config.name
        self.until_ns = config.pause_until
        """The end last requested (ns), 0 for none; it may be past."""
        self.due_ns = self.until_ns if self.until_ns > now_ns else 0
        """Time (ns) at which to call :meth:`set` again, as the pause ends; 0 for never."""

    def holds(self, now_ns: int) -> bool:
        """Whether the pause lasts now."""
        return self.until_ns > now_ns

    def set(self, until_ns: int, now_ns: int) -> list[Advisory]:
        """Set the end of the pause, or apply that it has come; return the advisory of a change."""
        if until_ns == self.until_ns and not 0 < self.due_ns <= now_ns:
            return []
        self.until_ns = until_ns
        self.due_ns = until_ns if until_ns > now_ns else 0
        return [advisories.paused(self._stream, self._consumer, until_ns=until_ns, now_ns=now_ns)]
