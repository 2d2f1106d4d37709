"""What it means to consumers that the links to the hub, and this process, come and go. Pure."""

from consumers.engine.engine_core import EngineCore


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
            called = consumer.sent_off.call_back()
            if called:
                self.outbox += [(consumer, status) for status in called]
                consumer.progress.dirty = True
                self._kept.note(consumer)

    def send_off(self, now_ns: int) -> None:
        """The process ends: tell whoever waits, and hand over what only memory holds, if there can be commits."""
        for consumer, home in list(self._home.items()):
            self._after(consumer, consumer.close(for_now=True))
            if consumer.config.mem_storage and not self._catalog.held:
                self._kept.hand_over(home, consumer, now_ns=now_ns, rows=self._rows())
