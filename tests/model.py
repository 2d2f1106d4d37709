"""The model of a stream: a list and two dicts that behave as Silt's streams must.

One message at a time, one limit after the other, no index. Property tests drive it beside the real store.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from delta_store.config.stream_config import StreamConfig
from delta_store.values.subjects import matches


class Stored(NamedTuple):
    """A live message of the model."""

    seq: int
    subject: str
    ts_ns: int
    size: int
    msg_id: str


class Outcome(NamedTuple):
    """The result of a publish."""

    seq: int = 0
    duplicate: bool = False
    error: int = 0
    """``err_code``, 0 for none."""
    first_seq: int = 0
    evicts: int = 0
    ts_ns: int = 0


@dataclass
class ModelStream:
    """The model of one stream."""

    config: StreamConfig
    messages: list[Stored] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    last_seq: int = 0
    last_ts: int = 0
    last_msg_id: str = ""
    clock_ns: int = 0

    @property
    def first_seq(self) -> int:
        """First sequence as nats-server shows it."""
        if self.messages:
            return self.messages[0].seq
        return self.last_seq + 1 if self.last_seq else 0

    @property
    def bytes(self) -> int:
        """Sum of the stored sizes of the live messages."""
        return sum(message.size for message in self.messages)

    def tick(self, now_ns: int) -> int:
        """Return the time of the next row."""
        self.clock_ns = max(now_ns, self.clock_ns + 1)
        return self.clock_ns

    def of(self, pattern: str) -> list[Stored]:
        """Return the live messages that a filter matches, in order."""
        return [message for message in self.messages if matches(pattern, message.subject)]

    def last_of(self, pattern: str) -> int:
        """Return the last sequence that a filter matches, or 0."""
        found = self.of(pattern)
        return found[-1].seq if found else 0

    def live_ids(self, now_ns: int) -> dict[str, int]:
        """Return the message ids in the duplicate window."""
        return {key: seq for key, seq in self.ids.items() if self.times[key] > now_ns - self.config.duplicate_window}

    def publish(self, subject: str, *, sizes: tuple[int, int], headers: dict[str, str], now_ns: int) -> Outcome:
        """Publish one message; ``sizes`` are those of header block and payload."""
        if 0 < self.config.max_msg_size < sum(sizes):
            return Outcome(error=10054)
        error = self._expectation(subject, headers)
        if error:
            return Outcome(error=error)
        msg_id = headers.get("Nats-Msg-Id", "")
        original = self.live_ids(now_ns).get(msg_id, 0) if msg_id else 0
        if original:
            return Outcome(seq=original, duplicate=True)
        if headers.get("Nats-Expected-Last-Msg-Id", self.last_msg_id) != self.last_msg_id:
            return Outcome(error=10070)
        size = 30 + len(subject.encode()) + sum(sizes) + (4 if sizes[0] else 0)
        if self._full(subject, size):
            return Outcome(error=10077)
        return self._store(subject, size, msg_id, now_ns)

    def remove(self, seq: int) -> bool:
        """Delete one message; return whether it was live."""
        before = len(self.messages)
        self.messages = [message for message in self.messages if message.seq != seq]
        return len(self.messages) != before

    def purge(self, pattern: str, seq: int, keep: int) -> int:
        """Purge by filter, below ``seq`` or all but the last ``keep``; return the number removed."""
        gone = [message.seq for message in self.of(pattern or ">")]
        if seq:
            gone = [one for one in gone if one < seq]
        elif keep:
            gone = gone[: max(0, len(gone) - keep)]
        lost = set(gone)
        self.messages = [message for message in self.messages if message.seq not in lost]
        return len(gone)

    def expire(self, now_ns: int) -> int:
        """Remove messages beyond ``max_age``; return the number removed."""
        before = len(self.messages)
        if self.config.max_age > 0:
            self.messages = [one for one in self.messages if one.ts_ns + self.config.max_age > now_ns]
        return before - len(self.messages)

    def reconfigure(self, config: StreamConfig) -> int:
        """Apply a new configuration; return the number of messages that its limits remove."""
        self.config = config
        before = len(self.messages)
        limit = config.max_msgs_per_subject
        if limit > 0:
            self.messages = [
                one
                for one in self.messages
                if sum(other.subject == one.subject and other.seq >= one.seq for other in self.messages) <= limit
            ]
        self._cut_front()
        return before - len(self.messages)

    def _expectation(self, subject: str, headers: dict[str, str]) -> int:
        if headers.get("Nats-Expected-Stream", self.config.name) != self.config.name:
            return 10060
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        of = headers.get("Nats-Expected-Last-Subject-Sequence-Subject")
        if expected is not None and int(expected) != self.last_of(of or subject):
            return 10071
        if expected is None and of is not None:
            return 10193
        last = headers.get("Nats-Expected-Last-Sequence")
        return 10071 if last is not None and int(last) != self.last_seq else 0

    def _full(self, subject: str, size: int) -> bool:
        if self.config.discard != "new":
            return False
        mine = [message for message in self.messages if message.subject == subject]
        replaces = 0 < self.config.max_msgs_per_subject <= len(mine)
        if 0 < self.config.max_msgs <= len(self.messages) and not replaces:
            return True
        too_large = 0 < self.config.max_bytes < self.bytes + size
        return too_large and not (replaces and mine[0].size >= size)

    def _store(self, subject: str, size: int, msg_id: str, now_ns: int) -> Outcome:
        mine = [message.seq for message in self.messages if message.subject == subject]
        self.last_seq += 1
        self.last_ts = self.tick(now_ns)
        self.messages.append(Stored(self.last_seq, subject, self.last_ts, size, msg_id))
        evicts = mine[0] if 0 < self.config.max_msgs_per_subject <= len(mine) else 0
        self.remove(evicts)
        self._cut_front()
        if msg_id and self.config.duplicate_window > 0:
            self.ids[msg_id], self.times[msg_id] = self.last_seq, self.last_ts
        self.last_msg_id = msg_id
        return Outcome(self.last_seq, first_seq=self.first_seq, evicts=evicts, ts_ns=self.last_ts)

    def _cut_front(self) -> None:
        if self.config.discard != "old":
            return
        while 0 < self.config.max_msgs < len(self.messages):
            self.messages.pop(0)
        while 0 < self.config.max_bytes < self.bytes:
            self.messages.pop(0)
