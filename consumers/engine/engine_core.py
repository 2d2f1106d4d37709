"""The consumers of all streams and what each of them waits for: what API calls and events have in common. Pure."""

from collections.abc import Callable, Iterable
from functools import partial

from conf.limits import CONSUMER_ANSWERS_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.engine.consumer_rows import ConsumerRows
from consumers.engine.stream_consumers import LIMITS, StreamConsumers
from consumers.engine.wakes import Wakes
from consumers.machine import consumer_advisories as advisories
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Done, Effect, Gone, Reply
from delta_store.streams.catalog import Catalog
from delta_store.streams.copies_here import local_copies
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from delta_store.values.subject_relations import SubjectTrie

Outbox = list[tuple[ConsumerMachine, Effect]]


class EngineCore:
    """Streams with their consumers, effects on their way out, and who is ready, waits, or is to be woken."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        interested: Callable[[bytes], bool],
        listened_to: Callable[[bytes, bytes], bool],
        new_id: Callable[[], str],
        rows: Callable[[], RowColumns],
    ) -> None:
        """``rows`` gives those of the group that gathers now.

        ``listened_to`` says of a deliver subject and its group (empty for none) whether there is such a subscription,
        wildcards not counted.
        """
        self.interested = interested
        self.outbox: Outbox = []
        """Effects in order, for whoever sends them: Deliver, Status, Reply and Advisory."""
        self.ready: dict[ConsumerMachine, None] = {}
        """Consumers that may have something to deliver now."""
        self.reachable = True
        """Whether clients can be heard."""
        self.streams: dict[str, StreamConsumers] = {}
        self._catalog = catalog
        self._synced = -1
        self._listened_to = listened_to
        self._new_id = new_id
        self._rows = rows
        self._home: dict[ConsumerMachine, StreamConsumers] = {}
        self._delivering: SubjectTrie[ConsumerMachine] = SubjectTrie()
        """Push consumers by their deliver subjects."""
        self._starting: list[ConsumerMachine] = []
        self._retaining: list[StreamConsumers] = []
        """Streams that lose messages when consumers are through with them."""
        self._put_off: list[tuple[ConsumerMachine, Done | Reply]] = []
        """What waits until there can be commits again: messages that nobody needs any more, answers to double acks."""
        self._kept = ConsumerRows(catalog)
        self._wakes = Wakes()

    @property
    def domain(self) -> str:
        """The JetStream domain, empty for none."""
        return self._catalog.domain

    def is_kept(self, subject: str) -> bool:
        """Whether a stream takes messages of a subject."""
        return self._catalog.stream_of(subject) is not None

    def _home_of(self, state: StreamState) -> StreamConsumers:
        home = self.streams.get(state.config.name)
        if home is None or home.state is not state:
            home = self.streams[state.config.name] = StreamConsumers(
                state, durable_seq=state.index.last_seq, copies=partial(local_copies, self._catalog, state.name)
            )
        return home

    def _look_at_streams(self) -> None:
        """Follow the catalog's streams: which there are and how they retain."""
        for state in self._catalog.streams.values():
            self._home_of(state)
        self._retaining = [home for home in self.streams.values() if home.retention != LIMITS or home.consumed]

    def _known(self, state: StreamState, name: str) -> tuple[StreamConsumers, ConsumerMachine]:
        home = self._home_of(state)
        return home, home.by_name[name]

    def _changeable(self, state: StreamState, name: str) -> tuple[StreamConsumers, ConsumerMachine]:
        """As :meth:`_known`, to change it in a way that must be recorded; raises 10047 while nothing can be."""
        home, consumer = self._known(state, name)
        if not consumer.config.mem_storage or home.retention != LIMITS:
            self._catalog.require_change()
        return home, consumer

    def _add(
        self,
        home: StreamConsumers,
        config: MachineConfig,
        *,
        created_ns: int,
        now_ns: int,
        state: ConsumerState | None = None,
    ) -> ConsumerMachine:
        """A new consumer, or one that stands where ``state`` says."""
        consumer = ConsumerMachine(
            config,
            created_ns=created_ns,
            stream=home,
            now_ns=now_ns,
            new_id=self._new_id,
            interested=self.interested,
            state=state,
        )
        home.by_name[config.name] = consumer
        self._home[consumer] = home
        self._note_subject(consumer)
        self._starting.append(consumer)
        return consumer

    def _remove(self, home: StreamConsumers, consumer: ConsumerMachine) -> None:
        self._take(consumer, consumer.close())
        self.outbox.append((consumer, advisories.action(home.name, consumer.config.name, "delete")))
        self._forget_subject(consumer)
        del home.by_name[consumer.config.name], self._home[consumer]
        self._wakes.expect(consumer, 0)
        self._kept.forget(consumer)
        home.attentive.pop(consumer, None)
        self.ready.pop(consumer, None)

    def _delete(self, home: StreamConsumers, consumer: ConsumerMachine, *, now_ns: int, rows: RowColumns) -> None:
        self._remove(home, consumer)
        self._kept.deleted(home, consumer, now_ns=now_ns, rows=rows)
        home.drop_all_unwanted()

    def _note_subject(self, consumer: ConsumerMachine) -> None:
        home = self._home[consumer]
        home.company.join(consumer.config, home.state.config)
        if consumer.config.deliver_subject:
            self._delivering.add(consumer.config.deliver_subject, consumer)

    def _forget_subject(self, consumer: ConsumerMachine) -> None:
        home = self._home[consumer]
        home.company.leave(consumer.config, home.state.config)
        self._delivering.discard(consumer.config.deliver_subject, consumer)

    def _activate(self, consumer: ConsumerMachine, now_ns: int) -> None:
        """Tell a push consumer whether somebody listens."""
        config = consumer.config
        if config.deliver_subject:
            subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
            active = self._listened_to(subject, group)
            effects = consumer.stored(now_ns) if active else []
            self._after(consumer, effects + consumer.set_active(active, now_ns))

    def _after(self, consumer: ConsumerMachine, effects: list[Effect]) -> None:
        """Take a consumer's effects and note what it waits for now."""
        self._take(consumer, effects)
        home = self._home.get(consumer)
        if home is None:
            return
        if consumer.attended:
            home.attentive[consumer] = None
            self.ready[consumer] = None
        else:
            home.attentive.pop(consumer, None)
            self.ready.pop(consumer, None)
        self._kept.note(consumer)
        self._wakes.expect(consumer, consumer.next_wake_ns)

    def resume(self) -> None:
        """There can be commits again: let out what waited for one."""
        put_off, self._put_off = self._put_off, []
        for consumer, effect in put_off:
            self._take(consumer, (effect,))

    def _waits(self, consumer: ConsumerMachine, effect: Effect) -> bool:
        """Whether an effect has to wait, as nothing can be recorded for now; a consumer can also be deleted later.

        Nobody can use a consumer while the hub is away.
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
        home = self._home.get(consumer)
        return isinstance(effect, Gone) and (not unrecorded or (home is not None and home.retention != LIMITS))

    def _take(self, consumer: ConsumerMachine, effects: Iterable[Effect]) -> None:
        for effect in effects:
            home = self._home.get(consumer)
            if self._waits(consumer, effect):
                continue
            if isinstance(effect, Done):
                if home is not None:
                    home.done(effect.seqs, consumer)
            elif isinstance(effect, Gone):
                if home is not None:
                    self._delete(home, consumer, now_ns=home.state.clock_ns, rows=self._rows())
            else:
                self.outbox.append((consumer, effect))
