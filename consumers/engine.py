"""All consumers of a shard: who is told what, what they answer, and what the journal must hold of them. Pure.

Every event goes to the consumers that it concerns; their effects are gathered in :attr:`ConsumerEngine.outbox`, which
the gateway empties after each call. Effects on the store (messages that nobody needs, consumers that nobody uses) are
applied at once and recorded: at once where an event row says so, with the group that gathers for everything that
:meth:`ConsumerEngine.seal` appends.
"""

import heapq
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from consumers import consumer_advisories as advisories
from consumers.ack_subject import AckMessage, parse_acks, parse_flow
from consumers.consumer import Consumer
from consumers.consumer_config import ConsumerConfig
from consumers.consumer_state import ConsumerState
from consumers.effects import Done, Effect, Gone, PullRequest
from consumers.stream_consumers import LIMITS, StreamConsumers
from delta_store.catalog import Catalog
from delta_store.records import Kind, RowColumns
from delta_store.stream_state import StreamState

Outbox = list[tuple[Consumer, Effect]]


class ConsumerEngine:
    """The consumers by stream and name; implements :class:`consumers.consumer_directory.Consumers`."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        interested: Callable[[bytes], bool],
        queue_interested: Callable[[bytes, bytes], bool],
        new_id: Callable[[], str],
        rows: Callable[[], RowColumns],
    ) -> None:
        """``rows`` gives those of the group that gathers now; ``queue_interested`` is asked for deliver groups."""
        self.interested = interested
        self.outbox: Outbox = []
        """Effects in order, for whoever sends them: Deliver, Status, Reply and Advisory."""
        self.ready: dict[Consumer, None] = {}
        """Consumers that may have something to deliver now."""
        self.streams: dict[str, StreamConsumers] = {}
        self._catalog = catalog
        self._queue_interested = queue_interested
        self._new_id = new_id
        self._rows = rows
        self._home: dict[Consumer, StreamConsumers] = {}
        self._by_subject: dict[bytes, dict[Consumer, None]] = {}
        self._starting: list[Consumer] = []
        self._persist: dict[Consumer, None] = {}
        self._dirty: dict[Consumer, None] = {}
        self._wakes: list[tuple[int, int, Consumer]] = []
        self._due: dict[Consumer, int] = {}
        self._tie = count()

    # --- the directory: what the API asks for ---

    def names(self, stream: str) -> list[str]:
        """Names of a stream's consumers, sorted."""
        home = self.streams.get(stream)
        return sorted(home.by_name) if home is not None else []

    def get(self, stream: str, name: str) -> Consumer | None:
        """A consumer, None when there is none of that name."""
        home = self.streams.get(stream)
        return home.by_name.get(name) if home is not None else None

    def newest(self, stream: str) -> Consumer | None:
        """The consumer that was created last, None when there is none."""
        home = self.streams.get(stream)
        return next(reversed(home.by_name.values()), None) if home is not None else None

    def count(self, stream: str) -> int:
        """How many consumers a stream has."""
        home = self.streams.get(stream)
        return len(home.by_name) if home is not None else 0

    def create(self, state: StreamState, config: ConsumerConfig, *, now_ns: int, rows: RowColumns) -> Consumer:
        """Add a consumer whose configuration has been checked."""
        home = self._home_of(state)
        home.drop_unwanted()
        consumer = Consumer(
            config,
            created_ns=now_ns,
            stream=home,
            now_ns=now_ns,
            new_id=self._new_id,
            interested=self.interested,
        )
        self._add(home, consumer)
        if not config.mem_storage:
            self._record_config(home, consumer, now_ns=now_ns, rows=rows)
            self._record_state(home, consumer, now_ns=now_ns, rows=rows)
        self.outbox.append((consumer, advisories.action(home.name, config.name, "create")))
        self._after(consumer, [])
        return consumer

    def update(
        self, state: StreamState, name: str, config: ConsumerConfig, *, now_ns: int, rows: RowColumns
    ) -> Consumer:
        """Give a consumer another configuration, which has been checked."""
        home, consumer = self._known(state, name)
        self._forget_subject(consumer)
        effects = consumer.reconfigure(config, now_ns)
        self._note_subject(consumer)
        if not config.mem_storage:
            self._record_config(home, consumer, now_ns=now_ns, rows=rows)
        home.drop_all_unwanted()
        self._after(consumer, effects)
        self._activate(consumer, now_ns)
        return consumer

    def delete(self, state: StreamState, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Take a consumer away; who waits for it is told."""
        home, consumer = self._known(state, name)
        self._remove(home, consumer, now_ns=now_ns)
        if not consumer.config.mem_storage:
            self._catalog.record_consumer(
                home.state, Kind.CONSUMER_DELETE, name=name, data=b"", now_ns=now_ns, rows=rows
            )
        home.drop_all_unwanted()

    def pause(self, state: StreamState, name: str, until_ns: int, *, now_ns: int, rows: RowColumns) -> Consumer:
        """Deliver nothing until then; 0 or a time that is past resumes."""
        home, consumer = self._known(state, name)
        effects = consumer.pause(until_ns, now_ns)
        if not consumer.config.mem_storage:
            self._record_config(home, consumer, now_ns=now_ns, rows=rows)
        self._after(consumer, effects)
        return consumer

    def reset(self, state: StreamState, name: str, seq: int | None, *, now_ns: int, rows: RowColumns) -> int:
        """Start over behind a sequence (the ack floor when None); returns where."""
        home, consumer = self._known(state, name)
        reached = consumer.reset(seq, now_ns)
        if not consumer.config.mem_storage:
            self._record_state(home, consumer, now_ns=now_ns, rows=rows)
        self._after(consumer, [])
        return reached

    def unpin(self, state: StreamState, name: str, group: str, *, now_ns: int) -> None:
        """Let another client of a priority group be pinned."""
        _, consumer = self._known(state, name)
        self._after(consumer, consumer.unpin(group, now_ns))

    def show(self, state: StreamState, name: str, *, now_ns: int) -> None:
        """Make what an info is about to say part of the group that gathers."""
        _, consumer = self._known(state, name)
        self._after(consumer, consumer.stored(now_ns))
        if consumer.dirty and not consumer.config.mem_storage:
            self._persist[consumer] = None

    # --- events from the links ---

    def pull(self, stream: str, name: str, request: PullRequest, now_ns: int) -> bool:
        """Take a request for messages; False when there is no such consumer."""
        consumer = self.get(stream, name)
        if consumer is None:
            return False
        home = self._home[consumer]
        effects = [] if consumer in home.attentive else consumer.stored(now_ns)
        effects += consumer.pull(request, now_ns)
        self._after(consumer, effects)
        return True

    def acks(self, messages: Iterable[AckMessage], now_ns: int) -> None:
        """Take messages to ack subjects; what belongs to no consumer of ours is passed over."""
        for (stream, name), acks in parse_acks(messages).items():
            consumer = self.get(stream.decode(errors="replace"), name.decode(errors="replace"))
            if consumer is not None:
                self._after(consumer, consumer.acks(acks, now_ns))

    def flow(self, subject: bytes, header: bytes, now_ns: int) -> None:
        """Take a reply to a flow control request."""
        parsed = parse_flow(subject)
        if parsed is None:
            return
        stream, name, token = parsed
        consumer = self.get(stream.decode(errors="replace"), name.decode(errors="replace"))
        if consumer is not None:
            self._after(consumer, consumer.flow_reply(token, now_ns, header))

    def interest_changed(self, subject: bytes, now_ns: int) -> None:
        """Somebody began or ceased to listen to a subject (wildcards possible)."""
        if b"*" in subject or b">" in subject:
            chosen = [one for held in self._by_subject.values() for one in held]
        else:
            chosen = list(self._by_subject.get(subject, ()))
        for consumer in chosen:
            self._activate(consumer, now_ns)

    # --- events from the store ---

    def restore(self, now_ns: int) -> None:
        """Build the consumers that the journal knows, when the catalog has been rebuilt."""
        for state in self._catalog.streams.values():
            home = self._home_of(state)
            for name, record in state.consumers.items():
                shown = json.loads(record.config)
                consumer = Consumer(
                    ConsumerConfig.from_record({**shown["config"], "name": name}),
                    created_ns=int(shown["created_ns"]),
                    stream=home,
                    now_ns=now_ns,
                    new_id=self._new_id,
                    interested=self.interested,
                    state=ConsumerState.decode(record.state) if record.state else None,
                )
                self._add(home, consumer)
                self._after(consumer, [])

    def sync_streams(self, now_ns: int) -> None:
        """Follow the catalog: streams may have been created, changed or deleted."""
        live = self._catalog.streams
        for name, home in list(self.streams.items()):
            if live.get(name) is not home.state:
                for consumer in list(home.by_name.values()):
                    self._remove(home, consumer, now_ns=now_ns)
                del self.streams[name]
        for state in live.values():
            home = self._home_of(state)
            if home.retention_changed() and home.drop_all_unwanted():
                for consumer in home.by_name.values():
                    self._after(consumer, consumer.stored(now_ns))

    def stored(self) -> None:
        """Messages were added (not yet durable): drop those of interest streams that nobody wants."""
        for home in self.streams.values():
            if home.state.config.retention != LIMITS:
                home.drop_unwanted()

    def released(self, durable: dict[str, int], now_ns: int) -> None:
        """Streams are durable up to these sequences: their consumers may go on."""
        starting, self._starting = self._starting, []
        for consumer in starting:
            if consumer in self._home:
                self._activate(consumer, now_ns)
        for stream, seq in durable.items():
            home = self.streams.get(stream)
            if home is not None and seq > home.durable_seq:
                home.durable_seq = seq
                for consumer in list(home.attentive):
                    self._after(consumer, consumer.stored(now_ns))

    # --- delivery ---

    def deliver(self, consumer: Consumer, messages: Sequence[object], missing: Iterable[int], now_ns: int) -> None:
        """Hand messages that :meth:`Consumer.upcoming` named to their consumer; ``missing`` left the stream."""
        self._after(consumer, consumer.deliver(messages, set(missing), now_ns))  # type: ignore[arg-type]

    def is_live(self, consumer: Consumer) -> bool:
        """Whether the consumer has not been deleted."""
        return consumer in self._home

    def home(self, consumer: Consumer) -> StreamConsumers:
        """The stream side of a live consumer."""
        return self._home[consumer]

    # --- time ---

    @property
    def next_wake_ns(self) -> int:
        """When :meth:`wake` is due next, 0 for never."""
        while self._wakes and self._due.get(self._wakes[0][2]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else 0

    def wake(self, now_ns: int) -> None:
        """Tell the consumers whose time has come."""
        while 0 < self.next_wake_ns <= now_ns:
            consumer = heapq.heappop(self._wakes)[2]
            del self._due[consumer]
            self._after(consumer, consumer.wake(now_ns))

    def persist_dirty(self) -> bool:
        """Have the state of all changed consumers recorded with the next group; returns whether there are any."""
        self._persist.update(self._dirty)
        return bool(self._persist) or any(home.consumed for home in self.streams.values())

    def seal(self, rows: RowColumns, now_ns: int) -> None:
        """Append what a group must record of consumers before it becomes durable."""
        for home in self.streams.values():
            if home.consumed:
                self._catalog.remove_consumed(home.state, home.take_consumed(), now_ns=now_ns, rows=rows)
        persist, self._persist = self._persist, {}
        for consumer in persist:
            home_of = self._home.get(consumer)
            if home_of is not None and consumer.dirty:
                self._record_state(home_of, consumer, now_ns=now_ns, rows=rows)
                self._after(consumer, [])

    # --- inside ---

    def _home_of(self, state: StreamState) -> StreamConsumers:
        home = self.streams.get(state.config.name)
        if home is None or home.state is not state:
            home = self.streams[state.config.name] = StreamConsumers(state, durable_seq=state.index.last_seq)
        return home

    def _known(self, state: StreamState, name: str) -> tuple[StreamConsumers, Consumer]:
        home = self._home_of(state)
        return home, home.by_name[name]

    def _add(self, home: StreamConsumers, consumer: Consumer) -> None:
        home.by_name[consumer.config.name] = consumer
        self._home[consumer] = home
        self._note_subject(consumer)
        self._starting.append(consumer)

    def _remove(self, home: StreamConsumers, consumer: Consumer, *, now_ns: int) -> None:
        self._take(consumer, consumer.close(now_ns))
        self.outbox.append((consumer, advisories.action(home.name, consumer.config.name, "delete")))
        self._forget_subject(consumer)
        del home.by_name[consumer.config.name], self._home[consumer]
        self._due.pop(consumer, None)
        for held in (home.attentive, self.ready, self._persist, self._dirty):
            held.pop(consumer, None)

    def _note_subject(self, consumer: Consumer) -> None:
        if consumer.config.deliver_subject:
            self._by_subject.setdefault(consumer.config.deliver_subject.encode(), {})[consumer] = None

    def _forget_subject(self, consumer: Consumer) -> None:
        subject = consumer.config.deliver_subject.encode()
        held = self._by_subject.get(subject)
        if held is not None:
            held.pop(consumer, None)
            if not held:
                del self._by_subject[subject]

    def _activate(self, consumer: Consumer, now_ns: int) -> None:
        """Tell a push consumer whether somebody listens."""
        config = consumer.config
        if config.deliver_subject:
            subject, group = config.deliver_subject.encode(), config.deliver_group.encode()
            active = self._queue_interested(subject, group) if group else self.interested(subject)
            effects = consumer.stored(now_ns) if active else []
            self._after(consumer, effects + consumer.set_active(active, now_ns))

    def _record_config(self, home: StreamConsumers, consumer: Consumer, *, now_ns: int, rows: RowColumns) -> None:
        shown = {"config": consumer.config.to_record(), "created_ns": consumer.created_ns}
        data = json.dumps(shown, separators=(",", ":")).encode()
        name = consumer.config.name
        self._catalog.record_consumer(home.state, Kind.CONSUMER, name=name, data=data, now_ns=now_ns, rows=rows)

    def _record_state(self, home: StreamConsumers, consumer: Consumer, *, now_ns: int, rows: RowColumns) -> None:
        data, name = consumer.state().encode(), consumer.config.name
        self._catalog.record_consumer(home.state, Kind.CONSUMER_STATE, name=name, data=data, now_ns=now_ns, rows=rows)

    def _after(self, consumer: Consumer, effects: list[Effect]) -> None:
        """Take a consumer's effects and note what it waits for now."""
        self._take(consumer, effects)
        home = self._home.get(consumer)
        if home is None:
            return
        if consumer.num_waiting or consumer.push_bound:
            home.attentive[consumer] = None
            self.ready[consumer] = None
        else:
            home.attentive.pop(consumer, None)
            self.ready.pop(consumer, None)
        if not consumer.dirty:
            self._dirty.pop(consumer, None)
        elif not consumer.config.mem_storage:
            self._dirty[consumer] = None
            if consumer.must_persist:
                self._persist[consumer] = None
        due = consumer.next_wake_ns
        if due != self._due.get(consumer, 0):
            if due:
                self._due[consumer] = due
                heapq.heappush(self._wakes, (due, next(self._tie), consumer))
            else:
                self._due.pop(consumer, None)

    def _take(self, consumer: Consumer, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Done):
                home = self._home.get(consumer)
                if home is not None:
                    home.done(effect.seqs, consumer)
            elif isinstance(effect, Gone):
                self._gone(consumer)
            else:
                self.outbox.append((consumer, effect))

    def _gone(self, consumer: Consumer) -> None:
        home = self._home.get(consumer)
        if home is not None:
            self.delete(home.state, consumer.config.name, now_ns=home.state.clock_ns, rows=self._rows())
