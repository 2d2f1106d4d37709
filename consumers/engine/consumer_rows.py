"""What the journal holds of consumers: their configurations, and their states as of each group. Pure."""

import json

from consumers.engine.stream_consumers import StreamConsumers
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.values.records import Kind, RowColumns


class ConsumerRows:
    """Appends consumers' rows, and knows whose state has yet to be recorded; ``mem_storage`` consumers have no rows."""

    __slots__ = ("_dirty", "waiting")

    def __init__(self) -> None:
        self._dirty: dict[ConsumerMachine, None] = {}
        self.waiting: dict[ConsumerMachine, None] = {}
        """Whose state belongs into the group that gathers."""

    def note(self, consumer: ConsumerMachine) -> None:
        """See whether a consumer's state has changed, and whether somebody waits for it to be durable."""
        if not consumer.progress.dirty:
            self._dirty.pop(consumer, None)
        elif not consumer.config.mem_storage:
            self._dirty[consumer] = None
            if consumer.progress.must_persist:
                self.waiting[consumer] = None

    def show(self, consumer: ConsumerMachine) -> None:
        """Somebody is about to be told of the state."""
        if consumer.progress.dirty and not consumer.config.mem_storage:
            self.waiting[consumer] = None

    @property
    def unsaved(self) -> bool:
        """Whether some changed state has not been recorded."""
        return bool(self._dirty)

    def all_wait(self) -> bool:
        """Have all changed states recorded with the next group; returns whether there are any."""
        self.waiting.update(self._dirty)
        return bool(self.waiting)

    def forget(self, consumer: ConsumerMachine) -> None:
        """The consumer is no more."""
        self._dirty.pop(consumer, None)
        self.waiting.pop(consumer, None)

    def config(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record that a consumer was created or changed."""
        self._record(home, Kind.CONSUMER, consumer, _shown(consumer), (now_ns, rows))

    def state(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record how far a consumer is."""
        self._record(home, Kind.CONSUMER_STATE, consumer, consumer.state().encode(), (now_ns, rows))

    def deleted(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record that a consumer was deleted."""
        self._record(home, Kind.CONSUMER_DELETE, consumer, b"", (now_ns, rows))

    def hand_over(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record a ``mem_storage`` consumer after all: the process ends in order, and the next one has it again."""
        at = now_ns, rows
        self._append(home, Kind.CONSUMER, consumer, _shown(consumer), at)
        self._append(home, Kind.CONSUMER_STATE, consumer, consumer.state().encode(), at)

    def take_over(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Take a ``mem_storage`` consumer out of the journal again: should this process be killed, it is gone."""
        self._append(home, Kind.CONSUMER_DELETE, consumer, b"", (now_ns, rows))

    def _record(
        self, home: StreamConsumers, kind: Kind, consumer: ConsumerMachine, data: bytes, at: tuple[int, RowColumns]
    ) -> None:
        if not consumer.config.mem_storage:
            self._append(home, kind, consumer, data, at)

    def _append(
        self, home: StreamConsumers, kind: Kind, consumer: ConsumerMachine, data: bytes, at: tuple[int, RowColumns]
    ) -> None:
        name, (now_ns, rows) = consumer.name, at
        home.state.record_consumer(kind, name=name, data=data, now_ns=now_ns, rows=rows)


def _shown(consumer: ConsumerMachine) -> bytes:
    shown = {"config": consumer.config.to_record(), "created_ns": consumer.created_ns}
    return json.dumps(shown, separators=(",", ":")).encode()
