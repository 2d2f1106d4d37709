"""All consumers of a stream through random histories, and what a kill at any point leaves of them.

The journal is cut where the last group ended, and a new engine is built from what is left: consumers that were shown
as created are there, those that were shown as deleted are not, what an answered double ack named does not come again,
and what was delivered before the last record is not delivered as if for the first time.
"""

import random
from dataclasses import dataclass, field
from itertools import islice

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.effects import Reply
from delta_store.values.records import RowColumns
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND
from tests.unit.consumers.engine_shard import Shard

NAMES = ("A", "B", "C")
STEPS = 120


@dataclass
class Book:
    """What clients were told of one consumer, and what waits for the group that gathers."""

    delivered: set[int] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)
    asked: dict[bytes, int] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)


class History:
    """One shard that lives, with the book, and the rows that are durable."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shard = Shard()
        self.books: dict[str, Book] = {}
        self.durable_rows = len(self.shard.rows)
        self.durable_names: set[str] = set()
        self.note(self.shard.commit())

    def note(self, said: list[object]) -> None:
        """Write down what was delivered, and which answers are on their way."""
        for one in said:
            if type(one) is tuple:
                name, seq = one
                self.books[name].delivered.add(seq)

    def step(self) -> None:
        """Something happens."""
        shard, name = self.shard, self.rng.choice(NAMES)
        known = name in self.books
        what = self.rng.choice(("store", "store", "pull", "pull", "ack", "ack", "commit", "record", "change", "time"))
        if what == "store":
            shard.store(self.rng.choice(("s.a", "s.b")))
        elif what == "commit":
            self.commit()
        elif what == "record":
            shard.engine.persist_dirty()
            for book in self.books.values():
                book.recorded |= book.delivered
            self.commit()
        elif what == "time":
            shard.pass_time(self.rng.choice((1, 40)) * SECOND)
            self.note(shard.said())
        elif what == "change":
            self.change(name, known=known)
        elif known and what == "pull":
            self.note(shard.pull(self.rng.randint(1, 4), name, expires=10 * SECOND))
        elif known and self.books[name].delivered:
            self.ack(name)

    def change(self, name: str, *, known: bool) -> None:
        """Create, change or delete a consumer; the answer leaves with the group."""
        shard, dice = self.shard, self.rng.random()
        if not known:
            shard.create(name, filter_subject=self.rng.choice(("", "s.a")))
            self.books[name] = Book()
        elif dice < 0.5:
            config = MachineConfig(name=name, **{**EXPLICIT, "max_ack_pending": self.rng.randint(2, 9)})
            shard.engine.registry.update(shard.state, name, config, now_ns=shard.now, rows=shard.rows)
        else:
            shard.engine.registry.delete(shard.state, name, now_ns=shard.now, rows=shard.rows)
            del self.books[name]
        self.note(shard.said())

    def ack(self, name: str) -> None:
        """Ack a message, three times of four with a double ack."""
        book = self.books[name]
        seq = self.rng.choice(sorted(book.delivered))
        reply = b"%b.%d" % (name.encode(), seq) if self.rng.random() < 0.75 else b""
        for one in self.shard.ack(seq, name=name, reply=reply):
            if isinstance(one, Reply):
                book.asked[one.subject] = seq
            else:
                self.note([one])

    def commit(self) -> None:
        """The group becomes durable, and what it holds is told."""
        said = self.shard.commit()
        self.durable_rows = len(self.shard.rows)
        self.durable_names = set(self.books)
        for book in self.books.values():
            book.answered |= set(book.asked.values())
            book.asked.clear()
        self.note(said)

    def killed(self) -> Shard:
        """What the next process finds."""
        kept = RowColumns()
        for row in islice(self.shard.rows.rows(), self.durable_rows):
            kept.append(row)
        again = Shard(kept)
        again.messages = self.shard.messages
        return again


@pytest.mark.parametrize("seed", range(12))
def test_a_kill_at_any_point_leaves_what_was_told(seed: int) -> None:
    """After each step of a random history a kill is tried."""
    history = History(seed)
    for _ in range(STEPS):
        history.step()
        again = history.killed()
        assert set(again.engine.directory.names("S")) == history.durable_names
        for name in history.durable_names & set(history.books):
            book, consumer = history.books[name], again.engine.directory.get("S", name)
            assert consumer is not None
            if not book.answered and not book.recorded:
                continue
            assert consumer.progress.position.next_seq > max(book.recorded, default=0)
            again.now = history.shard.now + 60 * SECOND
            again.engine.wake(again.now)
            came = {seq for got, seq in again.pull(1000, name, expires=SECOND) if got == name}
            assert not came & book.answered
