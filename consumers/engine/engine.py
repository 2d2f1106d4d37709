"""All consumers of a store: the events that reach them, their effects, and their journal rows. Pure.

Every event goes to the consumers that it concerns; their effects are gathered in :attr:`ConsumerEngine.outbox`, which
the gateway empties after each call. Effects on the store (removal of messages that nobody needs and of consumers that
nobody uses) are applied at once, and recorded at once or by :meth:`ConsumerEngine.seal` with the gathering group.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from consumers.engine.ack_subject import ACK_PREFIX, AckMessage, parse_acks, parse_flow
from consumers.engine.consumer_directory import ConsumerDirectory
from consumers.engine.consumer_registry import ConsumerRegistry
from consumers.engine.deliver_subjects import DeliverSubjects
from consumers.engine.effect_desk import EffectDesk
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.effects import PullRequest
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from delta_store.values.stream_message import StreamMessage


class ConsumerEngine:
    """The dispatcher of events to consumers, and of their effects to the desk."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        interested: Callable[[bytes], bool],
        listened_to: Callable[[bytes, bytes], bool],
        new_id: Callable[[], str],
        rows: Callable[[], RowColumns],
    ) -> None:
        """``rows`` returns the rows of the gathering group.

        ``listened_to`` returns whether there is a subscription of exactly this deliver subject and queue group (empty
        for none).
        """
        self.directory = directory = ConsumerDirectory(catalog)
        self._desk = desk = EffectDesk(catalog, directory, rows=rows)
        self._subjects = DeliverSubjects(directory, desk, listened_to)
        self.registry = ConsumerRegistry(catalog, directory, desk, self._subjects, interested=interested, new_id=new_id)
        self.outbox = desk.outbox
        """Effects to send, in order: Deliver, Status, Reply and Advisory; the sender empties the list."""
        self.ready = desk.ready
        """Consumers that may have something to deliver now."""
        self._catalog = catalog
        self._rows = rows

    # --- events from the links ---

    def pull(self, stream: str, name: str, request: PullRequest, now_ns: int) -> bool:
        """Apply a pull; return False if there is no such consumer."""
        consumer = self.directory.get(stream, name)
        if consumer is None:
            return False
        home = self.directory.homes[consumer]
        effects = [] if consumer in home.attentive else consumer.stored(now_ns)
        effects += consumer.pull(request, now_ns)
        self._desk.after(consumer, effects)
        return True

    def acks(self, messages: Iterable[AckMessage], now_ns: int) -> list[bytes]:
        """Apply messages to ack subjects; return the prefixes of those subjects that no consumer takes acks on."""
        unheard: list[bytes] = []
        for (stream, name), acks in parse_acks(messages).items():
            consumer = self.directory.get(stream.decode(errors="replace"), name.decode(errors="replace"))
            if consumer is None or consumer.config.ack_policy == "none":
                unheard.append(b"%b%b.%b." % (ACK_PREFIX, stream, name))
            else:
                self._desk.after(consumer, consumer.acks(acks, now_ns))
        return unheard

    def flow(self, subject: bytes, header: bytes, now_ns: int) -> None:
        """Apply a reply to a flow control request."""
        parsed = parse_flow(subject)
        if parsed is None:
            return
        stream, name, token = parsed
        consumer = self.directory.get(stream.decode(errors="replace"), name.decode(errors="replace"))
        if consumer is not None:
            self._desk.after(consumer, consumer.flow_reply(token, now_ns, header))

    def interest_changed(self, subject: bytes, now_ns: int) -> None:
        """Apply a change of interest in a subject (wildcards possible)."""
        self._subjects.changed(subject, now_ns)

    # --- the links, and this process, come and go ---

    def attached(self, attached: bool, now_ns: int) -> None:  # noqa: FBT001  # a state, told as it is
        """Record that the hub is attached, or not; attached, the time of disuse begins anew, as at a start."""
        self._desk.reachable = attached
        if attached:
            for consumer in self.directory.homes:
                consumer.disuse.begin_anew(now_ns)
                self._desk.wakes.expect(consumer, consumer.next_wake_ns)

    def call_back(self) -> None:
        """Send statuses that make clients pull again whose pulls waited when the previous process ended."""
        for consumer in self.directory.homes:
            called = consumer.sent_off.call_back()
            if called:
                self.outbox += [(consumer, status) for status in called]
                consumer.progress.dirty = True
                self._desk.kept.note(consumer)

    def send_off(self, now_ns: int) -> None:
        """End all pulls, as the process ends, and record ``mem_storage`` consumers for the next one, if possible."""
        for consumer, home in list(self.directory.homes.items()):
            self._desk.after(consumer, consumer.close(for_now=True))
            if consumer.config.mem_storage and not self._catalog.held:
                self._desk.kept.hand_over(home, consumer, now_ns=now_ns, rows=self._rows())

    # --- events from the store ---

    def stored(self) -> None:
        """Drop new messages (not durable yet) that nobody wants from interest streams."""
        for home in self.directory.retaining:
            home.drop_unwanted()

    def copied(self, state: StreamState, seqs: Sequence[int]) -> None:
        """Remove messages that mirrors or sources have copied and nobody else needs."""
        self.directory.home_of(state).done(seqs, None)

    def released(self, reached: Mapping[tuple[str, int], int], now_ns: int) -> None:
        """Let consumers deliver up to these sequences, by stream name and id, which are durable now."""
        self._subjects.tell_new(now_ns)
        for (stream, stream_id), seq in reached.items():
            home = self.directory.streams.get(stream)
            if home is None or home.state.stream_id != stream_id:
                continue
            told = home.attentive
            if home.removals_changed():
                told = told | {one: None for one in home.by_name.values() if one.num_ack_pending}
            elif seq <= home.durable_seq:
                continue
            home.durable_seq = max(seq, home.durable_seq)
            for consumer in list(told):
                self._desk.after(consumer, consumer.stored(now_ns))

    # --- delivery ---

    def deliver(
        self, consumer: ConsumerMachine, messages: Sequence[StreamMessage], missing: Collection[int], now_ns: int
    ) -> None:
        """Pass messages that :meth:`ConsumerMachine.upcoming` named to their consumer; ``missing`` left the stream."""
        self._desk.after(consumer, consumer.deliver(messages, missing, now_ns))

    # --- time ---

    @property
    def next_wake_ns(self) -> int:
        """Time (ns) at which :meth:`wake` is due next, 0 for never."""
        return self._desk.wakes.next_ns

    def wake(self, now_ns: int) -> None:
        """Wake the consumers whose time has come."""
        wakes = self._desk.wakes
        while 0 < wakes.next_ns <= now_ns:
            consumer = wakes.take()
            self._desk.after(consumer, consumer.wake(now_ns))

    # --- what the journal must hold ---

    @property
    def unsaved(self) -> bool:
        """Whether any consumer's state is unrecorded."""
        return self._desk.kept.unsaved

    def persist_dirty(self) -> bool:
        """Record the states of all changed consumers with the gathering group; return whether there are any."""
        return self._desk.kept.all_wait() or any(home.consumed for home in self.directory.retaining)

    def seal(self, rows: RowColumns, now_ns: int) -> None:
        """Append the consumers' rows of a group before it is committed."""
        for home in self.directory.retaining:
            if home.consumed:
                home.state.record_removal(home.take_consumed(), "consumed", now_ns=now_ns, rows=rows)
        kept = self._desk.kept
        if not kept.waiting:
            return
        waiting, kept.waiting = kept.waiting, {}
        for consumer in waiting:
            home_of = self.directory.homes.get(consumer)
            if home_of is not None and consumer.progress.dirty:
                kept.state(home_of, consumer, now_ns=now_ns, rows=rows)
                self._desk.after(consumer)

    def resume(self) -> None:
        """There can be commits again: let out what waited for one."""
        self._desk.resume()
