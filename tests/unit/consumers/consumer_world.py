"""A stream and its consumers with a virtual clock: what the consumer tests drive."""

from dataclasses import dataclass, field
from typing import Any

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_machine import ConsumerMachine
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Ack, Advisory, Deliver, Effect, PullRequest, Status
from delta_store.index.stream_index import StreamIndex
from delta_store.values.stream_message import StreamMessage

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
EXPLICIT: dict[str, Any] = {
    "ack_policy": "explicit",
    "ack_wait": 30 * SECOND,
    "max_ack_pending": 1000,
    "max_waiting": 512,
}


@dataclass
class Stream:
    """A stream in memory; everything is durable unless ``held`` is set."""

    name: str = "S"
    retention: str = "limits"
    index: StreamIndex = field(default_factory=StreamIndex)
    messages: dict[int, StreamMessage] = field(default_factory=dict)
    durable_seq: int = 0
    is_open: bool = True

    @property
    def removals(self) -> int:
        """Changes when messages leave."""
        return self.index.last_seq - self.index.msgs

    def content_size(self, seq: int) -> int:
        """Bytes of the payload."""
        return len(self.messages[seq].data)

    def store(self, subject: str, *, now_ns: int = START, data: bytes = b"x", durable: bool = True) -> int:
        """Add a message."""
        seq = self.index.last_seq + 1
        self.messages[seq] = StreamMessage(subject, seq, now_ns, None, data)
        self.index.append(seq, self.index.table.intern(subject), ts_ns=now_ns, size=len(data))
        if durable:
            self.durable_seq = seq
        return seq

    def remove(self, seq: int) -> None:
        """Take a message out."""
        self.index.remove(seq)


class World:
    """One consumer of one stream, and what it said."""

    def __init__(
        self, stream: Stream | None = None, state: ConsumerState | None = None, now: int = START, **config: Any
    ) -> None:
        self.stream = stream or Stream()
        self.now = now
        self.deaf: set[bytes] = set()
        self.ids = 0
        policy = {} if config.get("ack_policy") else EXPLICIT
        self.consumer = ConsumerMachine(
            MachineConfig(name="C", **{**policy, **config}),
            created_ns=self.now,
            stream=self.stream,
            now_ns=self.now,
            new_id=self.new_id,
            interested=lambda subject: subject not in self.deaf,
            state=state,
        )

    def new_id(self) -> str:
        """The next id."""
        self.ids += 1
        return f"id{self.ids}"

    def store(self, *subjects: str, data: bytes = b"x") -> list[Effect]:
        """Store messages, tell the consumer, and deliver what it wants."""
        for subject in subjects:
            self.stream.store(subject, now_ns=self.now, data=data)
        return self.consumer.stored(self.now) + self.run()

    def pull(self, body: bytes = b"", reply: bytes = b"r") -> list[Effect]:
        """Ask for messages, and deliver."""
        return self.consumer.pull(PullRequest(reply, body), self.now) + self.run()

    def run(self) -> list[Effect]:
        """Give the consumer whatever it asks for; it may not ask without end for what it does not take."""
        effects: list[Effect] = []
        rounds = 0
        while seqs := self.consumer.upcoming(100, self.now):
            rounds += 1
            assert rounds < 200, f"asks without end for {seqs}"
            there = [self.stream.messages[seq] for seq in seqs if self.stream.index.live.sid_of(seq) >= 0]
            gone = {seq for seq in seqs if self.stream.index.live.sid_of(seq) < 0}
            effects += self.consumer.deliver(there, gone, self.now)
        return effects

    def pass_time(self, seconds: float) -> list[Effect]:
        """Let time pass, with every timer at its time."""
        effects: list[Effect] = []
        end = self.now + int(seconds * SECOND)
        while 0 < (due := self.consumer.next_wake_ns) <= end:
            self.now = max(self.now, due)
            effects += self.consumer.wake(self.now) + self.run()
        self.now = end
        return effects + self.run()

    def ack(self, seq: int, body: bytes = b"", *, cseq: int = 0, count: int = 1, reply: bytes = b"") -> list[Effect]:
        """Ack one message, and deliver."""
        cseq = cseq or self.consumer.progress.pending.cseqs.get(seq, 1)
        return self.consumer.acks([Ack(seq, cseq, count, body, reply)], self.now) + self.run()


def got(effects: list[Effect]) -> list[tuple[str, int, int, int]]:
    """What was delivered: receiver, stream sequence, consumer sequence, count."""
    return [
        (effect.subject.decode(), message.seq, cseq, count)
        for effect in effects
        if isinstance(effect, Deliver)
        for message, cseq, count in zip(effect.messages, effect.consumer_seqs, effect.counts, strict=True)
    ]


def seqs(effects: list[Effect]) -> list[int]:
    """The stream sequences that were delivered."""
    return [seq for _, seq, _, _ in got(effects)]


def statuses(effects: list[Effect]) -> list[tuple[str, int, str]]:
    """The statuses: receiver, code, text."""
    return [(one.subject.decode(), one.code, one.text) for one in effects if isinstance(one, Status)]


def advisories(effects: list[Effect]) -> list[tuple[str, dict[str, Any]]]:
    """The advisories: kind and fields."""
    return [(one.kind, one.fields) for one in effects if isinstance(one, Advisory)]
