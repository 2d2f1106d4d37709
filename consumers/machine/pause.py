"""Until when a consumer delivers nothing."""

from consumers.config.consumer_config import MachineConfig
from consumers.machine import consumer_advisories as advisories
from consumers.machine.effects import Advisory


class Pause:
    """The pause of one consumer."""

    __slots__ = ("_consumer", "_stream", "due_ns", "until_ns")

    def __init__(self, stream: str, config: MachineConfig, now_ns: int) -> None:
        self._stream = stream
        self._consumer = config.name
        self.until_ns = config.pause_until
        """The end that was last asked for, 0 for none; it may be over."""
        self.due_ns = self.until_ns if self.until_ns > now_ns else 0
        """When it ends, 0 for never: then it is to be :meth:`set` anew."""

    def holds(self, now_ns: int) -> bool:
        """Whether nothing is delivered now."""
        return self.until_ns > now_ns

    def set(self, until_ns: int, now_ns: int) -> list[Advisory]:
        """Take an end of the pause, or notice that it has come; what is as it was is not told."""
        if until_ns == self.until_ns and not 0 < self.due_ns <= now_ns:
            return []
        self.until_ns = until_ns
        self.due_ns = until_ns if until_ns > now_ns else 0
        return [advisories.paused(self._stream, self._consumer, until_ns=until_ns, now_ns=now_ns)]
