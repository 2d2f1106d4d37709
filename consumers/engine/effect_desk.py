"""The handling of consumers' effects: some change the store, some wait for a commit, the others leave. Pure."""

from collections.abc import Callable, Iterable

from conf.limits import CONSUMER_ANSWERS_MAX
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.consumer_rows import ConsumerRows
from consumers.engine.stream_consumers import LIMITS
from consumers.engine.wakes import Wakes
from consumers.machine import advisories
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.effects import Done, Effect, Gone, Reply
from delta_store.streams.catalog import Catalog
from delta_store.values.records import RowColumns

Outbox = list[tuple[ConsumerMachine, Effect]]


class EffectDesk:
    """The place where effects of consumers are applied, put off or queued to leave."""

    __slots__ = (
        "_catalog", "_directory", "_homes", "_put_off", "_rows", "kept", "outbox", "reachable", "ready", "wakes",
    )  # fmt: skip

    def __init__(self, catalog: Catalog, directory: ConsumerDirectory, *, rows: Callable[[], RowColumns]) -> None:
        """``rows`` returns the rows of the gathering group."""
        self.outbox: Outbox = []
        """Effects to send, in order: Deliver, Status, Reply and Advisory."""
        self.ready: dict[ConsumerMachine, None] = {}
        """Consumers that may have something to deliver now."""
        self.reachable = True
        """Whether the hub is attached, so that clients can reach their consumers."""
        self.kept = ConsumerRows()
        self.wakes = Wakes()
        self._catalog = catalog
        self._directory = directory
        self._homes = directory.homes
        self._rows = rows
        self._put_off: list[tuple[ConsumerMachine, Done | Reply]] = []
        """Effects that wait until commits are possible again: done messages, replies to double acks."""

    def after(self, consumer: ConsumerMachine, effects: Iterable[Effect] = ()) -> None:
        """Apply a consumer's effects, and update its entries among the ready, the dirty and the wakes."""
        self._take(consumer, effects)
        home = self._homes.get(consumer)
        if home is None:
            return
        if consumer.attended:
            home.attentive[consumer] = None
            self.ready[consumer] = None
        else:
            home.attentive.pop(consumer, None)
            self.ready.pop(consumer, None)
        self.kept.note(consumer)
        self.wakes.expect(consumer, consumer.next_wake_ns)

    def resume(self) -> None:
        """Apply the effects put off, as commits are possible again."""
        put_off, self._put_off = self._put_off, []
        for consumer, effect in put_off:
            self._take(consumer, (effect,))

    def remove(self, consumer: ConsumerMachine) -> None:
        """End and remove a consumer, also one whose stream is deleted; its waiting pulls get a status."""
        self._take(consumer, consumer.close())
        self.outbox.append((consumer, advisories.action(consumer.stream_name, consumer.name, "delete")))
        self._directory.remove(consumer)
        self.wakes.expect(consumer, 0)
        self.kept.forget(consumer)
        self.ready.pop(consumer, None)

    def delete(self, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        """Delete a consumer; messages that only it wanted leave an interest stream."""
        home = self._homes[consumer]
        self.remove(consumer)
        self.kept.deleted(home, consumer, now_ns=now_ns, rows=rows)
        home.drop_all_unwanted()

    def _take(self, consumer: ConsumerMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if self._waits(consumer, effect):
                continue
            if isinstance(effect, Done):
                home = self._homes.get(consumer)
                if home is not None:
                    home.done(effect.seqs, consumer)
            elif isinstance(effect, Gone):
                home = self._homes.get(consumer)
                if home is not None:
                    self.delete(consumer, now_ns=home.state.clock_ns, rows=self._rows())
            else:
                self.outbox.append((consumer, effect))

    def _waits(self, consumer: ConsumerMachine, effect: Effect) -> bool:
        """Whether an effect waits because nothing can be committed; a :class:`Gone` is dropped, as it comes again.

        Nobody can use a consumer while the hub is not attached.
        """
        if isinstance(effect, Gone) and not self.reachable:
            return True
        if not self._catalog.held:
            return False
        unrecorded = consumer.config.mem_storage
        if isinstance(effect, Done) or (isinstance(effect, Reply) and not unrecorded):
            if isinstance(effect, Done) or len(self._put_off) < CONSUMER_ANSWERS_MAX:
                self._put_off.append((consumer, effect))
            return True
        home = self._homes.get(consumer)
        return isinstance(effect, Gone) and (not unrecorded or (home is not None and home.retention != LIMITS))
