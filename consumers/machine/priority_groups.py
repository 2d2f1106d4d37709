"""The pin of a priority group: one client gets all messages until it is silent for too long."""

from collections.abc import Callable

from consumers.config.consumer_config import MachineConfig
from consumers.machine import advisories
from consumers.machine.effects import Advisory
from consumers.machine.waiting import WaitingRequest


class Pin:
    """The pinned client of a consumer's priority group."""

    __slots__ = ("_config", "_new_id", "_stream", "due_ns", "group", "id", "since_ns")

    def __init__(self, stream: str, config: MachineConfig, new_id: Callable[[], str]) -> None:
        self._stream = stream
        self._config = config
        self._new_id = new_id
        self.id = ""
        """Id assigned to the pinned client, empty when nobody is pinned."""
        self.group = ""
        self.since_ns = 0
        self.due_ns = 0
        """Time (ns) at which the pin lapses, 0 for never."""

    def configure(self, config: MachineConfig) -> None:
        """Apply another configuration."""
        self._config = config

    def assign(self, request: WaitingRequest, now_ns: int) -> list[Advisory]:
        """Pin the client of a pull, which learns its id from its first message."""
        if not request.group:
            return []
        self.id = request.id = self._new_id()
        self.group, self.since_ns = request.group, now_ns
        self.prolong(now_ns)
        return [advisories.pinned(self._stream, self._config.name, group=self.group, pin_id=self.id)]

    def prolong(self, now_ns: int) -> None:
        """Restart the pin's timeout after a sign of the pinned client."""
        self.due_ns = now_ns + self._config.priority_timeout if self._config.priority_timeout else 0

    def release(self) -> None:
        """End the pin without an advisory."""
        self.id, self.since_ns, self.due_ns = "", 0, 0

    def unpin(self, group: str, reason: str) -> list[Advisory]:
        """End the pin; return the advisory with its reason (``admin`` or ``timeout``)."""
        self.release()
        return [advisories.unpinned(self._stream, self._config.name, group=group, reason=reason)]
