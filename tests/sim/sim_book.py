"""The book that is kept about a simulated gateway: what it has promised to whom, and whether it holds it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ingest.protocol.wire_protocol import WireMessage


class Broken(AssertionError):
    """The gateway does not do what it promised."""


class Sent(NamedTuple):
    """A message as its publisher knows it; the payload is the name of it."""

    stream: str
    subject: str
    name: bytes
    has_id: bool


class Held(NamedTuple):
    """A message as the gateway gives it."""

    seq: int
    subject: str
    payload: bytes


@dataclass
class ConsumerBook:
    """One consumer of a stream whose messages all stay."""

    stream: str
    name: str
    delivered: dict[int, bytes] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    """Acks that were sent."""
    confirmed: set[int] = field(default_factory=set)
    """Those that the gateway has confirmed."""
    floor: int = 0

    def take(self, seq: int, payload: bytes) -> None:
        """A message was delivered."""
        if seq in self.confirmed:
            raise Broken(f"{self.name}: {seq} is delivered again after its ack was confirmed")
        if self.delivered.setdefault(seq, payload) != payload:
            raise Broken(f"{self.name}: {seq} was {self.delivered[seq]!r} and is {payload!r}")

    def look(self, info: dict[str, object]) -> None:
        """The consumer was described."""
        floor = info["ack_floor"]["stream_seq"]  # type: ignore[index]
        passed = set(range(1, floor + 1)) - self.acked
        if passed:
            raise Broken(f"{self.name}: the ack floor is {floor}, and {min(passed)} was never acked")
        self.floor = floor


class Book:
    """Publishes, readings and consumers."""

    def __init__(self) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.acked: dict[bytes, int] = {}
        """Sequence of each message that was acknowledged."""
        self.by_seq: dict[tuple[str, int], bytes] = {}
        self.consumers: dict[str, ConsumerBook] = {}
        self.past: dict[tuple[str, str, int], tuple[Held, ...]] = {}
        self.created: set[str] = set()
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        """Something happened once more."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def published(self, sent: Sent, answer: WireMessage) -> bool:
        """The gateway answered a publish; whether it holds the message."""
        told = json.loads(answer.payload)
        if "error" in told:
            self.count("refused")
            return False
        seq = told["seq"]
        known = self.acked.setdefault(sent.name, seq)
        if known != seq:
            raise Broken(f"{sent.name!r} was {known} in {sent.stream}, and is {seq}: stored twice")
        other = self.by_seq.setdefault((sent.stream, seq), sent.name)
        if other != sent.name:
            raise Broken(f"sequence {seq} of {sent.stream} is {other!r} and {sent.name!r}")
        self.count("duplicates" if told.get("duplicate") else "acked")
        return True

    def read_past(self, stream: str, filter_: str, point: int, rows: Sequence[Held]) -> None:
        """A reader was told what was the last message of each subject at a point that is durable."""
        answer = tuple(rows)
        before = self.past.setdefault((stream, filter_, point), answer)
        self.count("readings")
        if before != answer:
            raise Broken(f"{stream} {filter_} at {point} was {before} and is {answer}")
        last = {row.subject: row.seq for row in rows}
        for row in rows:
            self._check(stream, row)
        for name, seq in self.acked.items():
            one = self.sent[name]
            mine = one.stream == stream and seq <= point and (filter_.endswith(">") or filter_ == one.subject)
            if mine and last.get(one.subject, 0) < seq:
                raise Broken(f"{stream} {filter_} at {point}: {name!r}, {seq}, is missing")

    def read_all(self, stream: str, rows: Sequence[Held], last: int) -> None:
        """All of a stream without limits was read."""
        seqs = [row.seq for row in rows]
        if seqs != list(range(1, last + 1)):
            raise Broken(f"{stream} has a hole: {sorted(set(range(1, last + 1)) - set(seqs))} of {last}")
        for row in rows:
            self._check(stream, row)
        ids = [row.payload for row in rows if self.sent[row.payload].has_id]
        twice = {one for one in ids if ids.count(one) > 1}
        if twice:
            raise Broken(f"{stream} holds {sorted(twice)} twice")
        held = {row.payload: row.seq for row in rows}
        for name, seq in self.acked.items():
            if self.sent[name].stream == stream and held.get(name) != seq:
                raise Broken(f"{stream}: {name!r} was acknowledged as {seq}, and is {held.get(name)}")

    def missing(self, consumer: ConsumerBook) -> set[int]:
        """What was stored and has not been delivered yet."""
        return {
            seq for name, seq in self.acked.items() if self.sent[name].stream == consumer.stream
        } - consumer.delivered.keys()

    def _check(self, stream: str, row: Held) -> None:
        name = self.by_seq.get((stream, row.seq))
        if name is not None and name != row.payload:
            raise Broken(f"sequence {row.seq} of {stream} is {row.payload!r}, acknowledged for {name!r}")
        sent = self.sent.get(row.payload)
        if sent is None or sent.subject != row.subject:
            raise Broken(f"{stream}: nobody sent {row}")
