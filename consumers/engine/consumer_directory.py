"""Which consumers there are: by stream and name, and by the subjects that they deliver to. Pure."""

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

    __slots__ = ("_catalog", "delivering", "homes", "retaining", "streams")

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.streams: dict[str, StreamConsumers] = {}
        self.homes: dict[ConsumerMachine, StreamConsumers] = {}
        """Every live consumer, with the consumers of its stream."""
        self.delivering: SubjectTrie[ConsumerMachine] = SubjectTrie()
        """Push consumers by their deliver subjects."""
        self.retaining: list[StreamConsumers] = []
        """Streams that lose messages when consumers are through with them."""

    def names(self, stream: str) -> list[str]:
        """Names of a stream's consumers, sorted; none for a stream that is not there."""
        home = self.streams.get(stream)
        return sorted(home.by_name) if home is not None else []

    def get(self, stream: str, name: str) -> ConsumerMachine | None:
        """A consumer, None when there is none of that name."""
        home = self.streams.get(stream)
        return home.by_name.get(name) if home is not None else None

    def newest(self, stream: str) -> ConsumerMachine | None:
        """The consumer that was created last, None when there is none."""
        home = self.streams.get(stream)
        return next(reversed(home.by_name.values()), None) if home is not None else None

    def company(self, stream: str) -> Company:
        """A stream's consumers, counted; none for a stream that is not there."""
        home = self.streams.get(stream)
        return home.company if home is not None else Company()

    def home_of(self, state: StreamState) -> StreamConsumers:
        """The consumers of a stream of the catalog."""
        home = self.streams.get(state.config.name)
        if home is None or home.state is not state:
            home = self.streams[state.config.name] = StreamConsumers(
                state, durable_seq=state.index.last_seq, copies=partial(local_copies, self._catalog, state.name)
            )
        return home

    def known(self, state: StreamState, name: str) -> tuple[StreamConsumers, ConsumerMachine]:
        """A consumer that is there, and those of its stream."""
        home = self.home_of(state)
        return home, home.by_name[name]

    def follow_streams(self) -> None:
        """See which streams the catalog has, and how they retain."""
        for state in self._catalog.streams.values():
            self.home_of(state)
        self.retaining = [home for home in self.streams.values() if home.retention != LIMITS or home.consumed]

    def add(self, home: StreamConsumers, consumer: ConsumerMachine) -> None:
        """A consumer is new."""
        home.by_name[consumer.name] = consumer
        self.homes[consumer] = home
        self.enter(consumer)

    def remove(self, consumer: ConsumerMachine) -> None:
        """A consumer is no more."""
        self.withdraw(consumer)
        home = self.homes.pop(consumer)
        del home.by_name[consumer.name]
        home.attentive.pop(consumer, None)

    def enter(self, consumer: ConsumerMachine) -> None:
        """Enter what a consumer's configuration says of it."""
        home = self.homes[consumer]
        home.company.join(consumer.config, home.state.config)
        if consumer.config.deliver_subject:
            self.delivering.add(consumer.config.deliver_subject, consumer)

    def withdraw(self, consumer: ConsumerMachine) -> None:
        """Take back what :meth:`enter` entered, before the configuration changes."""
        home = self.homes[consumer]
        home.company.leave(consumer.config, home.state.config)
        self.delivering.discard(consumer.config.deliver_subject, consumer)
