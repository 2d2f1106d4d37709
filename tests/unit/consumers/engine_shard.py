"""A stream with its engine, for tests of what the engine says and what the journal holds."""

from typing import Any

from consumers.config.consumer_config import MachineConfig
from consumers.engine.ack_subject import AckMessage
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.effects import Advisory, Deliver, PullRequest
from delta_store.config.stream_config import StreamConfig
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row
from delta_store.values.records import Kind, Row, RowColumns, checksum
from delta_store.values.stream_message import StreamMessage
from tests.engines import engine_of
from tests.unit.consumers.consumer_world import EXPLICIT, START


class Shard:
    """One stream S with its engine, and what the engine said; rows are what a journal would hold."""

    def __init__(self, rows: RowColumns | None = None, **config: Any) -> None:
        self.catalog, self.rows, self.now = Catalog(), RowColumns(), START
        self.listened: set[bytes] = set()
        self.engine = engine_of(self.catalog, self.rows, listened=self.listened)
        self.messages: dict[int, StreamMessage] = {}
        self.config = StreamConfig("S", ("s.>",), **config)
        if rows is None:
            self.catalog.create(self.config, now_ns=START, rows=self.rows)
        else:
            for row in rows.rows():
                replay_row(self.catalog, row)
        self.state = self.catalog.streams["S"]
        self.engine.registry.restore(now_ns=self.now, rows=self.rows)

    def create(self, name: str = "C", **config: Any) -> ConsumerMachine:
        """Add a consumer."""
        made = MachineConfig(name=name, **{**EXPLICIT, **config})
        return self.engine.registry.create(self.state, made, now_ns=self.now, rows=self.rows)

    def store(self, *subjects: str, headers: bytes | None = None, data: bytes = b"x") -> None:
        """Messages come; they are not durable yet."""
        for subject in subjects:
            seq = self.state.index.last_seq + 1
            first = self.state.index.first_seq or 1
            place = ("S", self.state.stream_id, seq, 0, Kind.MESSAGE.value, subject, self.now, None, first, 0)
            row = Row(*place, headers, data, checksum(subject, headers, data))
            replay_row(self.catalog, row)
            self.rows.append(row)
            self.messages[seq] = StreamMessage(subject, seq, self.now, headers, data)
            self.engine.stored()

    def commit(self) -> list[object]:
        """The group becomes durable; what is delivered then."""
        self.engine.seal(self.rows, self.now)
        self.engine.released({("S", self.state.stream_id): self.state.index.last_seq}, self.now)
        return self.said()

    def said(self) -> list[object]:
        """Deliver what consumers ask for; all effects since this was last asked, deliveries as (name, sequence)."""
        while self.engine.ready:
            consumer = next(iter(self.engine.ready))
            del self.engine.ready[consumer]
            if seqs := consumer.upcoming(100, self.now):
                self.engine.deliver(consumer, [self.messages[seq] for seq in seqs], (), self.now)
        outbox = self.engine.outbox.copy()
        self.engine.outbox.clear()
        shown: list[object] = []
        for consumer, effect in outbox:
            if isinstance(effect, Deliver):
                shown += [(consumer.name, message.seq) for message in effect.messages]
            elif isinstance(effect, Advisory):
                shown.append(effect.subject.split(".")[4])
            else:
                shown.append(effect)
        return shown

    def pull(self, number: int, name: str = "C", *, expires: int = 0) -> list[object]:
        """Ask for messages."""
        self.listened.add(b"r")
        body = b'{"batch":%d,"expires":%d}' % (number, expires) if expires else b"%d" % number
        assert self.engine.pull("S", name, PullRequest(b"r", body), self.now)
        return self.said()

    def pass_time(self, passing_ns: int) -> None:
        """Let time pass, with every timer at its time."""
        end = self.now + passing_ns
        while 0 < (due := self.engine.next_wake_ns) <= end:
            self.now = max(self.now, due)
            self.engine.wake(self.now)
        self.now = end

    def ack(self, *seqs: int, name: str = "C", body: bytes = b"", reply: bytes = b"") -> list[object]:
        """Ack messages that were delivered in the order of their sequences."""
        subjects = [b"$JS.ACK.S.%b.1.%d.%d.1.0" % (name.encode(), seq, seq) for seq in seqs]
        assert self.engine.acks([AckMessage(one, reply, b"", body) for one in subjects], self.now) == []
        return self.said()

    def live(self) -> list[int]:
        """The stream's sequences."""
        seqs: list[int] = self.state.index.live.sequences(1, self.state.index.last_seq).tolist()
        return seqs

    def restarted(self) -> "Shard":
        """The same stream after a restart: only what is in the rows is known."""
        again = Shard(self.rows)
        again.messages = self.messages
        return again
