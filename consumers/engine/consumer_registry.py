"""The consumers by stream and name, as the API creates, changes, shows and deletes them. Pure.

Changes are made at once and appended to the rows of the group that gathers.
"""

from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_create_rules import Company
from consumers.engine.engine_links import EngineLinks
from consumers.machine import consumer_advisories as advisories
from consumers.machine.consumer_machine import ConsumerMachine
from delta_store.index.matching import next_matching
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from delta_store.values.subjects import SubjectFilter, overlaps, subset


class ConsumerRegistry(EngineLinks):
    """Implements :class:`consumers.engine.consumer_directory.Consumers`."""

    def names(self, stream: str) -> list[str]:
        """Names of a stream's consumers, sorted."""
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

    def create(self, state: StreamState, config: MachineConfig, *, now_ns: int, rows: RowColumns) -> ConsumerMachine:
        """Add a consumer whose configuration has been checked."""
        home = self._home_of(state)
        if not config.mem_storage:
            self._catalog.require_change()
        home.drop_unwanted()
        consumer = self._add(home, config, created_ns=now_ns, now_ns=now_ns)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        self._kept.state(home, consumer, now_ns=now_ns, rows=rows)
        self.outbox.append((consumer, advisories.action(home.name, config.name, "create")))
        self._after(consumer, [])
        self.tell_if_paused(state, config.name, now_ns=now_ns)
        return consumer

    def tell_if_paused(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Advise of a pause that lasts: what asking for a consumer does, be it there already or not."""
        home, consumer = self._known(state, name)
        until_ns = consumer.config.pause_until
        if until_ns > now_ns:
            self.outbox.append((consumer, advisories.paused(home.name, name, until_ns=until_ns, now_ns=now_ns)))

    def update(
        self, state: StreamState, name: str, config: MachineConfig, *, now_ns: int, rows: RowColumns
    ) -> ConsumerMachine:
        """Give a consumer another configuration, which has been checked."""
        home, consumer = self._changeable(state, name)
        moves = config.deliver_subject != consumer.config.deliver_subject
        self._forget_subject(consumer)
        effects = consumer.reconfigure(config, now_ns)
        self._note_subject(consumer)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        home.drop_all_unwanted()
        self._after(consumer, effects)
        if moves:
            self._starting.append(consumer)
        else:
            self._activate(consumer, now_ns)
        return consumer

    def delete(self, state: StreamState, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Take a consumer away; who waits for it is told."""
        home, consumer = self._changeable(state, name)
        self._delete(home, consumer, now_ns=now_ns, rows=rows)

    def pause(self, state: StreamState, name: str, until_ns: int, *, now_ns: int, rows: RowColumns) -> ConsumerMachine:
        """Deliver nothing until then; 0 or a time that is past resumes."""
        home, consumer = self._changeable(state, name)
        effects = consumer.pause(until_ns, now_ns)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        self._after(consumer, effects)
        return consumer

    def reset(self, state: StreamState, name: str, seq: int | None, *, now_ns: int, rows: RowColumns) -> int:
        """Start over behind a sequence (the ack floor when None); returns where."""
        home, consumer = self._changeable(state, name)
        reached = consumer.reset(seq, now_ns)
        self._kept.state(home, consumer, now_ns=now_ns, rows=rows)
        self._after(consumer, [])
        return reached

    def unpin(self, state: StreamState, name: str, group: str, *, now_ns: int) -> None:
        """Let another client of a priority group be pinned."""
        _, consumer = self._known(state, name)
        self._after(consumer, consumer.unpin(group, now_ns))

    def purged(self, state: StreamState, subject: str, *, now_ns: int) -> None:
        """A purge took messages of a subject (wildcards possible), or of all when it is empty."""
        home, index = self._home_of(state), state.index
        chosen = SubjectFilter((subject,)) if subject else None
        left, first_left = index.live.next(1) or 1, next_matching(index, chosen, 1) or index.last_seq + 1
        for consumer in list(home.by_name.values()):
            filters = consumer.config.filters
            if not subject or any(subset(one, subject) for one in filters):
                first = first_left
            elif not filters or any(overlaps(one, subject) for one in filters):
                first = left
            else:
                continue
            self._after(consumer, consumer.stored(now_ns, purged_to=first))

    def listened_to(self, config: MachineConfig) -> bool:
        """Whether somebody listens where a consumer of this configuration delivers of its own accord."""
        subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
        return bool(subject) and self._listened_to(subject, group)

    def show(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Make what an info is about to say part of the group that gathers; raises 10047 where no group can."""
        _, consumer = self._known(state, name)
        self._after(consumer, consumer.stored(now_ns))
        if consumer.progress.dirty and not consumer.config.mem_storage:
            self._catalog.require_change()
        self._kept.show(consumer)
