"""Creation, change and deletion of consumers: by the API, with their streams, and from the journal at a start. Pure.

Changes are made at once and appended to the rows of the group that gathers.
"""

import json
from collections.abc import Callable

from consumers.config.consumer_config import MachineConfig
from consumers.config.past_point import place_of
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.deliver_subjects import DeliverSubjects
from consumers.engine.effect_desk import EffectDesk
from consumers.engine.past_views import PastViews
from consumers.engine.stream_consumers import LIMITS, StreamConsumers
from consumers.machine import advisories
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.past_view import PastPlace, PastView
from delta_store.index.matching import next_matching
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from delta_store.values.subjects import SubjectFilter, overlaps, subset


class ConsumerRegistry:
    """The operations that create, change and delete the consumers of a directory."""

    def __init__(
        self,
        catalog: Catalog,
        directory: ConsumerDirectory,
        desk: EffectDesk,
        subjects: DeliverSubjects,
        *,
        interested: Callable[[bytes], bool],
        new_id: Callable[[], str],
    ) -> None:
        self.directory = directory
        self.interested = interested
        """Whether a subject has interest now."""
        self.listened_to = subjects.listened_to
        self._catalog = catalog
        self._desk = desk
        self._kept = desk.kept
        self._subjects = subjects
        self.views = PastViews(directory, desk)
        self.new_id = new_id
        self._synced = -1

    # --- with their streams ---

    def restore(self, *, now_ns: int, rows: RowColumns) -> None:
        """Restore the consumers that the journal has, after the catalog was rebuilt."""
        self.directory.follow_streams()
        for home in list(self.directory.streams.values()):
            self.adopt(home.state, now_ns=now_ns, rows=rows)

    def adopt(self, state: StreamState, *, anew: str = "", now_ns: int, rows: RowColumns) -> None:
        """Begin with the consumers that the journal has of a stream and are not known yet, or with one ``anew``."""
        home = self.directory.home_of(state)
        for name, record in list(state.consumers.items()):
            known = home.by_name.get(name)
            if known is not None and name != anew:
                continue
            if known is not None:
                self._desk.remove(known)
            shown = json.loads(record.config)
            config = MachineConfig.from_record({**shown["config"], "name": name})
            place = place_of(config.metadata)
            consumer = self._add(
                home,
                config,
                created_ns=int(shown["created_ns"]),
                now_ns=now_ns,
                state=ConsumerState.decode(record.state) if record.state else None,
                view=None if place is None else self.views.at(state, PastPlace(*place)),
            )
            self._desk.after(consumer)
            if consumer.config.mem_storage:
                self._kept.take_over(home, consumer, now_ns=now_ns, rows=rows)

    def sync_streams(self, now_ns: int) -> None:
        """Follow the catalog, whose streams may have been created, updated or deleted.

        Messages that nobody wants leave a stream whose retention has become interest.
        """
        if self._synced == self._catalog.changes:
            return
        self._synced = self._catalog.changes
        live, streams = self._catalog.streams, self.directory.streams
        for name, home in list(streams.items()):
            if live.get(name) is not home.state:
                for consumer in list(home.by_name.values()):
                    self._desk.remove(consumer)
                del streams[name]
        self.directory.follow_streams()
        for home in streams.values():
            if (home.retention_changed() | home.copies_changed()) and home.drop_all_unwanted():
                for consumer in home.by_name.values():
                    self._desk.after(consumer, consumer.stored(now_ns))

    def purged(self, state: StreamState, subject: str, *, now_ns: int) -> None:
        """Tell consumers of a purge of a subject (wildcards possible), or of all messages if empty."""
        home, index = self.directory.home_of(state), state.index
        chosen = SubjectFilter((subject,)) if subject else None
        left, first_left = index.live.next(1) or 1, next_matching(index, chosen, 1) or index.last_seq + 1
        for consumer in list(home.by_name.values()):
            filters = consumer.config.filters
            if consumer.past is not None:
                if not consumer.past.is_open:
                    continue
                first = consumer.past.index.live.next(1) or 1
            elif not subject or any(subset(one, subject) for one in filters):
                first = first_left
            elif not filters or any(overlaps(one, subject) for one in filters):
                first = left
            else:
                continue
            self._desk.after(consumer, consumer.stored(now_ns, purged_to=first))

    # --- by the API ---

    def create(
        self, state: StreamState, config: MachineConfig, *, now_ns: int, rows: RowColumns, view: PastView | None = None
    ) -> ConsumerMachine:
        """Create a consumer whose configuration has been checked and whose name is free; ``view`` is what it reads."""
        home = self.directory.home_of(state)
        if not config.mem_storage:
            self._catalog.require_change()
        home.drop_unwanted()
        consumer = self._add(home, config, created_ns=now_ns, now_ns=now_ns, view=view)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        self._kept.state(home, consumer, now_ns=now_ns, rows=rows)
        self._desk.outbox.append((consumer, advisories.action(home.name, config.name, "create")))
        self._desk.after(consumer)
        self.tell_if_paused(state, config.name, now_ns=now_ns)
        return consumer

    def tell_if_paused(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Send the advisory of a pause that lasts; each create request does, for an existing consumer too."""
        home, consumer = self.directory.known(state, name)
        until_ns = consumer.config.pause_until
        if until_ns > now_ns:
            paused = advisories.paused(home.name, name, until_ns=until_ns, now_ns=now_ns)
            self._desk.outbox.append((consumer, paused))

    def update(
        self, state: StreamState, name: str, config: MachineConfig, *, now_ns: int, rows: RowColumns
    ) -> ConsumerMachine:
        """Update a consumer to a configuration that has been checked."""
        home, consumer = self._changeable(state, name)
        moves = config.deliver_subject != consumer.config.deliver_subject
        self.directory.withdraw(consumer)
        effects = consumer.reconfigure(config, now_ns)
        self.directory.enter(consumer)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        home.drop_all_unwanted()
        self._desk.after(consumer, effects)
        if moves:
            self._subjects.tell_later(consumer)
        else:
            self._subjects.tell(consumer, now_ns)
        return consumer

    def delete(self, state: StreamState, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Delete a consumer; its waiting pulls get a status."""
        _, consumer = self._changeable(state, name)
        self._desk.delete(consumer, now_ns=now_ns, rows=rows)

    def pause(self, state: StreamState, name: str, until_ns: int, *, now_ns: int, rows: RowColumns) -> ConsumerMachine:
        """Pause a consumer until a time; 0 or a past time resumes it."""
        home, consumer = self._changeable(state, name)
        effects = consumer.pause(until_ns, now_ns)
        self._kept.config(home, consumer, now_ns=now_ns, rows=rows)
        self._desk.after(consumer, effects)
        return consumer

    def reset(self, state: StreamState, name: str, seq: int | None, *, now_ns: int, rows: RowColumns) -> int:
        """Reset to a sequence, or behind the ack floor; return the sequence.

        Raises :class:`consumers.machine.consumer_machine.InvalidReset`.
        """
        home, consumer = self._changeable(state, name)
        reached = consumer.reset(seq, now_ns)
        self._kept.state(home, consumer, now_ns=now_ns, rows=rows)
        self._desk.after(consumer)
        return reached

    def unpin(self, state: StreamState, name: str, group: str, *, now_ns: int) -> None:
        """Unpin a priority group's client, so that another is pinned."""
        _, consumer = self.directory.known(state, name)
        self._desk.after(consumer, consumer.unpin(group, now_ns))

    def show(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Record the state that an info shows with the gathering group; raises 10047 while nothing can be committed."""
        _, consumer = self.directory.known(state, name)
        self._desk.after(consumer, consumer.stored(now_ns))
        if consumer.progress.dirty and not consumer.config.mem_storage:
            self._catalog.require_change()
        self._kept.show(consumer)

    def recorded(
        self, state: StreamState, *, now_ns: int, rows: RowColumns
    ) -> list[tuple[str, MachineConfig, ConsumerState]]:
        """Record what has changed of a stream's consumers; return them with name and state, but those of past points.

        Raises 10047 while nothing can be committed.
        """
        home, found = self.directory.home_of(state), []
        for name, consumer in home.by_name.items():
            if consumer.past is not None:
                continue
            if consumer.progress.dirty and not consumer.config.mem_storage:
                self._catalog.require_change()
                self._kept.state(home, consumer, now_ns=now_ns, rows=rows)
                self._desk.after(consumer)
            found.append((name, consumer.config, consumer.state()))
        return found

    def _changeable(self, state: StreamState, name: str) -> tuple[StreamConsumers, ConsumerMachine]:
        """Return a consumer for a change that must be recorded; raises 10047 while nothing can be committed."""
        home, consumer = self.directory.known(state, name)
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
        view: PastView | None = None,
    ) -> ConsumerMachine:
        """Add a new consumer, or one with a recorded ``state``."""
        consumer = ConsumerMachine(
            config,
            created_ns=created_ns,
            stream=home if view is None else view,
            now_ns=now_ns,
            new_id=self.new_id,
            interested=self.interested,
            state=state,
        )
        self.directory.add(home, consumer)
        self._subjects.tell_later(consumer)
        return consumer
