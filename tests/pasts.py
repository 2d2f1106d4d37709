"""Random histories with everything that removes a message, in two tables that settle now and then; and their pasts."""

import random
from dataclasses import dataclass
from pathlib import Path

from conf.data_location import DataLocation
from delta_store.values.records import Kind, Row
from tests.tables import History, Tables, live_before, live_sequences

MAX_AGE_NS = 2_000
END = 1 << 61


@dataclass
class Pasts:
    """A data folder with the stream ``S``, whose newest incarnation is ``history``, and another stream beside it."""

    tables: Tables
    history: History
    ages: bool
    """Whether ``S`` has a ``max_age`` of :data:`MAX_AGE_NS`."""

    @property
    def now_ns(self) -> int:
        """A time at which the oldest messages of a stream with ``max_age`` have outlived it."""
        return self.history.now_ns + MAX_AGE_NS // 2

    def live(self) -> list[int]:
        """The live sequences now."""
        oldest = self.now_ns - MAX_AGE_NS if self.ages else 0
        return [seq for seq in self._sorted(live_sequences(self.history.rows)) if self.times[seq] > oldest]

    def at(self, seq: int) -> list[int]:
        """The live sequences right after a message."""
        return self._sorted(live_sequences(self.history.rows, seq if seq < self.history.seq else END))

    def before(self, ts_ns: int) -> list[int]:
        """The live sequences at a time."""
        return self._sorted(live_before(self.history.rows, ts_ns))

    def last(self, seqs: list[int]) -> dict[str, int]:
        """The last of each subject among some sequences."""
        subjects = {row.seq: row.subject for row in self.history.rows if row.kind == Kind.MESSAGE}
        return {subjects[seq]: seq for seq in sorted(seqs)}

    @property
    def times(self) -> dict[int, int]:
        """The time of each message."""
        return {row.seq: row.ts_ns for row in self.history.rows if row.kind == Kind.MESSAGE}

    @staticmethod
    def _sorted(seqs: set[int]) -> list[int]:
        return sorted(seqs)


def difference(before: dict[str, int], after: dict[str, int]) -> list[tuple[str, str, int | None, int | None]]:
    """The subjects whose last message differs: subject, change, sequence before and after."""
    found = []
    for subject in sorted(before.keys() | after.keys()):
        first, second = before.get(subject), after.get(subject)
        if first != second:
            change = "added" if first is None else "removed" if second is None else "changed"
            found.append((subject, change, first, second))
    return found


def grown(data: Path, dice: random.Random, *, rounds: int = 8, store: DataLocation | None = None) -> Pasts:
    """A history in many commits, settled in many steps; limits, truncation and compaction come now and then."""
    ages, ttl = dice.random() < 0.3, dice.random() < 0.3
    fields = {"max_age": MAX_AGE_NS if ages else 0, "allow_msg_ttl": ttl}
    limits = {"per_subject": dice.choice([-1, 1, 2]), "max_msgs": dice.choice([-1, 20])}
    history, other, tables = History(**limits), History(stream="OTHER"), Tables(data, store=store)
    tables.commit([history.create(**fields), other.create()])
    for number in range(rounds):
        if number == rounds // 3 and dice.random() < 0.4:
            history = _made_again(history, tables, limits, fields)
        tables.commit([row for _ in range(dice.randrange(1, 9)) for row in (*step(history, dice), other.step(dice))])
        if dice.random() < 0.8:
            tables.settle(tables.rows[: len(tables.rows) - dice.randrange(0, 5)])
        for chance, work in ((0.4, tables.apply_limits), (0.3, tables.truncate), (0.2, tables.compact)):
            if dice.random() < chance and tables.marks:
                work()
    return Pasts(tables, history, ages and not ttl)


def step(history: History, dice: random.Random) -> list[Row]:
    """Random rows: mostly a message, else something that removes messages."""
    live, what = sorted(history.live), dice.random()
    if what < 0.7 or not live:
        return [history.publish(f"s.{dice.randrange(5)}")]
    if what < 0.78:
        return [history.remove([dice.choice(live)], "delete", erase=dice.random() < 0.7)]
    if what < 0.84:
        return [history.remove(live[: dice.randrange(1, 4)], "age", erase=False)]
    subject = history.live[dice.choice(live)]
    mine = [seq for seq in live if history.live[seq] == subject]
    if what < 0.92:
        return [history.remove(mine, "purge", erase=dice.random() < 0.5)]
    return [history.remove(mine, "rollup", erase=False), history.publish(subject)]


def _made_again(old: History, tables: Tables, limits: dict[str, int], fields: dict[str, object]) -> History:
    """Delete the stream and make it again."""
    old.event_no += 1
    tables.commit([old._event(Kind.STREAM_DELETE, b"{}")])
    new = History(stream_id=old.now_ns + 1_000, now_ns=old.now_ns + 1_000, **limits)
    tables.commit([new.create(**fields)])
    return new
