"""All consumers of a shard: who is told what, what they answer, and what the journal must hold of them. Pure.

Every event goes to the consumers that it concerns; their effects are gathered in :attr:`ConsumerEngine.outbox`, which
the gateway empties after each call. Effects on the store (messages that nobody needs, consumers that nobody uses) are
applied at once and recorded: at once where an event row says so, with the group that gathers for everything that
:meth:`ConsumerEngine.seal` appends.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from consumers.config.consumer_config import MachineConfig
from consumers.engine.ack_subject import ACK_PREFIX, AckMessage, parse_acks, parse_flow
from consumers.engine.consumer_registry import ConsumerRegistry
from consumers.engine.stream_consumers import StreamConsumers
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import PullRequest
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import RowColumns
from delta_store.values.stream_message import StreamMessage


class ConsumerEngine(ConsumerRegistry):
    """The registry with the events that reach its consumers."""

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

    def acks(self, messages: Iterable[AckMessage], now_ns: int) -> list[bytes]:
        """Take messages to ack subjects; gives the beginnings of those subjects that no consumer takes acks on."""
        unheard: list[bytes] = []
        for (stream, name), acks in parse_acks(messages).items():
            consumer = self.get(stream.decode(errors="replace"), name.decode(errors="replace"))
            if consumer is None or consumer.config.ack_policy == "none":
                unheard.append(b"%b%b.%b." % (ACK_PREFIX, stream, name))
            else:
                self._after(consumer, consumer.acks(acks, now_ns))
        return unheard

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
        found = self._delivering.overlapping(subject.decode(errors="replace"))
        for consumer in {one.value: None for one in found}:
            self._activate(consumer, now_ns)

    # --- events from the store ---

    def restore(self, now_ns: int) -> None:
        """Build the consumers that the journal knows, when the catalog has been rebuilt."""
        self._look_at_streams()
        for home in self.streams.values():
            for name, record in list(home.state.consumers.items()):
                shown = json.loads(record.config)
                consumer = self._add(
                    home,
                    MachineConfig.from_record({**shown["config"], "name": name}),
                    created_ns=int(shown["created_ns"]),
                    now_ns=now_ns,
                    state=ConsumerState.decode(record.state) if record.state else None,
                )
                self._after(consumer, [])
                if consumer.config.mem_storage:
                    self._kept.take_over(home, consumer, now_ns=now_ns, rows=self._rows())

    def sync_streams(self, now_ns: int) -> None:
        """Follow the catalog: streams may have been created, changed or deleted."""
        if self._synced == self._catalog.changes:
            return
        self._synced = self._catalog.changes
        live = self._catalog.streams
        for name, home in list(self.streams.items()):
            if live.get(name) is not home.state:
                for consumer in list(home.by_name.values()):
                    self._remove(home, consumer)
                del self.streams[name]
        self._look_at_streams()
        for home in self.streams.values():
            if (home.retention_changed() | home.copies_changed()) and home.drop_all_unwanted():
                for consumer in home.by_name.values():
                    self._after(consumer, consumer.stored(now_ns))

    def stored(self) -> None:
        """Messages were added (not yet durable): drop those of interest streams that nobody wants."""
        for home in self._retaining:
            home.drop_unwanted()

    def copied(self, state: StreamState, seqs: Sequence[int]) -> None:
        """Mirrors or sources have taken messages: those that nobody else needs leave the stream."""
        self._home_of(state).done(seqs, None)

    def released(self, reached: Mapping[tuple[str, int], int], now_ns: int) -> None:
        """Streams are durable up to these sequences: their consumers may go on."""
        starting, self._starting = self._starting, []
        for consumer in starting:
            if consumer in self._home:
                self._activate(consumer, now_ns)
        for (stream, stream_id), seq in reached.items():
            home = self.streams.get(stream)
            if home is None or home.state.stream_id != stream_id:
                continue
            told = home.attentive
            if home.removals_changed():
                told = told | {one: None for one in home.by_name.values() if one.num_ack_pending}
            elif seq <= home.durable_seq:
                continue
            home.durable_seq = max(seq, home.durable_seq)
            for consumer in list(told):
                self._after(consumer, consumer.stored(now_ns))

    # --- delivery ---

    def deliver(
        self, consumer: ConsumerMachine, messages: Sequence[StreamMessage], missing: Collection[int], now_ns: int
    ) -> None:
        """Hand messages that :meth:`ConsumerMachine.upcoming` named to their consumer; ``missing`` left the stream."""
        self._after(consumer, consumer.deliver(messages, missing, now_ns))

    def is_live(self, consumer: ConsumerMachine) -> bool:
        """Whether the consumer has not been deleted."""
        return consumer in self._home

    def home(self, consumer: ConsumerMachine) -> StreamConsumers:
        """The stream side of a live consumer."""
        return self._home[consumer]

    # --- time ---

    @property
    def next_wake_ns(self) -> int:
        """When :meth:`wake` is due next, 0 for never."""
        return self._wakes.next_ns

    def wake(self, now_ns: int) -> None:
        """Tell the consumers whose time has come."""
        while 0 < self._wakes.next_ns <= now_ns:
            consumer = self._wakes.take()
            self._after(consumer, consumer.wake(now_ns))

    @property
    def unsaved(self) -> bool:
        """Whether some consumer's progress has not been recorded."""
        return self._kept.unsaved

    def persist_dirty(self) -> bool:
        """Have the state of all changed consumers recorded with the next group; returns whether there is anything."""
        return self._kept.all_wait() or any(home.consumed for home in self._retaining)

    def seal(self, rows: RowColumns, now_ns: int) -> None:
        """Append what a group must record of consumers before it becomes durable."""
        for home in self._retaining:
            if home.consumed:
                self._catalog.record_removal(home.state, home.take_consumed(), "consumed", now_ns=now_ns, rows=rows)
        if not self._kept.waiting:
            return
        waiting, self._kept.waiting = self._kept.waiting, {}
        for consumer in waiting:
            home_of = self._home.get(consumer)
            if home_of is not None and consumer.progress.dirty:
                self._kept.state(home_of, consumer, now_ns=now_ns, rows=rows)
                self._after(consumer, [])
