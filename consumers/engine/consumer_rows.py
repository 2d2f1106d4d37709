"""The journal rows of consumers: their configurations, and their states as of each group. Pure."""

import json

from consumers.config.consumer_config import MachineConfig
from consumers.engine.stream_consumers import StreamConsumers
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.values.records import Kind, RowColumns


class ConsumerRows:
    """A writer of consumers' rows, with a list of unrecorded states; ``mem_storage`` consumers have no rows."""

    __slots__ = ("_dirty", "waiting")

    def __init__(self) -> None:
        self._dirty: dict[ConsumerMachine, None] = {}
        self.waiting: dict[ConsumerMachine, None] = {}
        """Consumers whose state belongs into the gathering group."""

    def note(self, consumer: ConsumerMachine) -> None:
        """Note whether a consumer's state has changed, and whether a reply waits for it to be durable."""
        if not consumer.progress.dirty:
            self._dirty.pop(consumer, None)
        elif not consumer.config.mem_storage:
            self._dirty[consumer] = None
            if consumer.progress.must_persist:
                self.waiting[consumer] = None

    def show(self, consumer: ConsumerMachine) -> None:
        """Record the state with the gathering group, as a reply shows it."""
        if consumer.progress.dirty and not consumer.config.mem_storage:
            self.waiting[consumer] = None

    @property
    def unsaved(self) -> bool:
        """Whether any changed state is unrecorded."""
        return bool(self._dirty)

    def all_wait(self) -> bool:
        """Record all changed states with the gathering group; return whether there are any."""
        self.waiting.update(self._dirty)
        return bool(self.waiting)

    def forget(self, consumer: ConsumerMachine) -> None:
        """Drop a deleted consumer."""
        self._dirty.pop(consumer, None)
        self.waiting.pop(consumer, None)

    def config(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record a consumer's creation or new configuration."""
        self._record(home, Kind.CONSUMER, consumer, _shown(consumer), (now_ns, rows))

    def state(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record a consumer's state."""
        self._record(home, Kind.CONSUMER_STATE, consumer, consumer.state().encode(), (now_ns, rows))

    def deleted(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record a consumer's deletion."""
        self._record(home, Kind.CONSUMER_DELETE, consumer, b"", (now_ns, rows))

    def hand_over(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record a ``mem_storage`` consumer for the next process, as this one ends in order."""
        at = now_ns, rows
        self._append(home, Kind.CONSUMER, consumer, _shown(consumer), at)
        self._append(home, Kind.CONSUMER_STATE, consumer, consumer.state().encode(), at)

    def take_over(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Record the deletion of a ``mem_storage`` consumer that was handed over: a killed process loses it."""
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


def config_data(config: MachineConfig, *, created_ns: int) -> bytes:
    """Return the ``data`` of a CONSUMER row."""
    return json.dumps({"config": config.to_record(), "created_ns": created_ns}, separators=(",", ":")).encode()


def _shown(consumer: ConsumerMachine) -> bytes:
    return config_data(consumer.config, created_ns=consumer.created_ns)
