"""The directory of consumers: by stream and name, and by deliver subject. Pure."""

from functools import partial

from consumers.config.consumer_create_rules import Company
from consumers.engine.stream_consumers import LIMITS, StreamConsumers
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.streams.catalog import Catalog
from delta_store.streams.copies_here import local_copies
from delta_store.streams.stream_state import StreamState
from delta_store.values.subject_relations import SubjectTrie


class ConsumerDirectory:
    """The consumers of all streams of a catalog."""

    __slots__ = ("_catalog", "delivering", "homes", "of_past", "retaining", "streams")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.streams: dict[str, StreamConsumers] = {}
        self.homes: dict[ConsumerMachine, StreamConsumers] = {}
        """All consumers, with those of their stream."""
        self.of_past: dict[ConsumerMachine, None] = {}
        """Those that read past states."""
        self.delivering: SubjectTrie[ConsumerMachine] = SubjectTrie()
        """Push consumers by deliver subject."""
        self.retaining: list[StreamConsumers] = []
        """Streams that remove messages when consumers are done with them."""

    def names(self, stream: str) -> list[str]:
        """Return the sorted names of a stream's consumers; none for an unknown stream."""
        home = self.streams.get(stream)
        return sorted(home.by_name) if home is not None else []

    def get(self, stream: str, name: str) -> ConsumerMachine | None:
        """Return a consumer, None if there is none of that name."""
        home = self.streams.get(stream)
        return home.by_name.get(name) if home is not None else None

    def newest(self, stream: str) -> ConsumerMachine | None:
        """Return the consumer created last, None if there is none."""
        home = self.streams.get(stream)
        return next(reversed(home.by_name.values()), None) if home is not None else None

    def company(self, stream: str) -> Company:
        """Return the counts of a stream's consumers; empty for an unknown stream."""
        home = self.streams.get(stream)
        return home.company if home is not None else Company()

    def home_of(self, state: StreamState) -> StreamConsumers:
        """Return the consumers of a stream of the catalog."""
        home = self.streams.get(state.config.name)
        if home is None or home.state is not state:
            home = self.streams[state.config.name] = StreamConsumers(
                state, durable_seq=state.index.last_seq, copies=partial(local_copies, self._catalog, state.name)
            )
        return home

    def known(self, state: StreamState, name: str) -> tuple[StreamConsumers, ConsumerMachine]:
        """Return an existing consumer, and the consumers of its stream."""
        home = self.home_of(state)
        return home, home.by_name[name]

    def follow_streams(self) -> None:
        """Follow the catalog's streams and their retention."""
        for state in self._catalog.streams.values():
            self.home_of(state)
        self.retaining = [home for home in self.streams.values() if home.retention != LIMITS or home.consumed]

    def add(self, home: StreamConsumers, consumer: ConsumerMachine) -> None:
        """Add a new consumer."""
        home.by_name[consumer.name] = consumer
        self.homes[consumer] = home
        if consumer.past is not None:
            self.of_past[consumer] = None
        self.enter(consumer)

    def remove(self, consumer: ConsumerMachine) -> None:
        """Remove a consumer."""
        self.withdraw(consumer)
        home = self.homes.pop(consumer)
        del home.by_name[consumer.name]
        home.attentive.pop(consumer, None)
        self.of_past.pop(consumer, None)
        if consumer.past is not None and not any(one.past is consumer.past for one in self.of_past):
            consumer.past.leave()

    def enter(self, consumer: ConsumerMachine) -> None:
        """Enter a consumer under its configuration."""
        home = self.homes[consumer]
        home.company.join(consumer.config, home.state.config)
        if consumer.config.deliver_subject:
            self.delivering.add(consumer.config.deliver_subject, consumer)

    def withdraw(self, consumer: ConsumerMachine) -> None:
        """Undo :meth:`enter`, before the configuration changes."""
        home = self.homes[consumer]
        home.company.leave(consumer.config, home.state.config)
        self.delivering.discard(consumer.config.deliver_subject, consumer)
