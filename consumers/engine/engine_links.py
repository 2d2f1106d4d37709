"""What it means to consumers that the links to the hub, and this process, come and go. Pure.

A client that stays connected to the hub sees nothing of a gateway that ends and starts again. So whoever waits is told,
as nats-server tells it, and is called back by the next gateway: some clients ask anew when the leader has changed,
others when their request has timed out, and none takes harm from being told both.
"""

from typing import Final

from consumers.engine.engine_core import EngineCore
from consumers.machine.effects import Status

_NOTHING_LEFT: Final = (("Nats-Pending-Messages", "0"), ("Nats-Pending-Bytes", "0"))
"""What was left was said when the request was sent off; a process that was killed can't know it."""


class EngineLinks(EngineCore):
    """The core with the events of the links as a whole."""

    def attached(self, now_ns: int) -> None:
        """Clients can be heard again: the time that consumers may be unused begins anew, as when a server starts."""
        self.reachable = True
        for consumer in self._home:
            consumer.disuse.begin_anew(now_ns)
            self._wakes.expect(consumer, consumer.next_wake_ns)

    def call_back(self) -> None:
        """Have those ask anew who waited when the process before this one ended, or when it last recorded progress."""
        for consumer in self._home:
            for reply in consumer.sent_off:
                self.outbox.append((consumer, Status(reply, 409, "Leadership Change")))
                self.outbox.append((consumer, Status(reply, 408, "Request Timeout", _NOTHING_LEFT)))
            if consumer.sent_off:
                consumer.sent_off, consumer.dirty = (), True
                self._kept.note(consumer)

    def send_off(self, now_ns: int) -> None:
        """The process ends: tell whoever waits, and hand over what only memory holds, if there can be commits."""
        for consumer, home in list(self._home.items()):
            self._after(consumer, consumer.close(for_now=True))
            if consumer.config.mem_storage and not self._catalog.held:
                self._kept.hand_over(home, consumer, now_ns=now_ns, rows=self._rows())
