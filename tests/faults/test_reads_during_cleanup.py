"""Reads of the past while all that deletes runs in a loop: each answer is the true one, or says that it is past."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from unittest import mock

import pytest
from deltalake import DeltaTable

from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.settled import SettledTable
from delta_store.values.read_errors import PastHorizon
from tests.tables import History, Tables

ROUNDS = 60
PER_ROUND = 12
SUBJECTS = 5
HORIZON_SECONDS = 1.0
"""Time that a starved reader has for one look at the present; much of the past is older at any time."""
READERS = 2
VERSIONS_KEPT = 12
"""Log entries that cleanup leaves: three rounds or so."""
POINTS_BACK = (8 * PER_ROUND, ROUNDS * PER_ROUND)
"""How far back is asked: a little, so that answers come, and far, so that some is past, however fast the rounds are."""
SECONDS = 15.0


def expected(seq: int) -> dict[str, bytes]:
    """The last message of each subject right after message ``seq``: subjects take turns, none is ever removed whole."""
    return {f"s.{one % SUBJECTS}": b"S/%d" % one for one in range(max(1, seq - SUBJECTS + 1), seq + 1)}


@dataclass
class Scene:
    """A store whose past is deleted as fast as it comes to be."""

    data: Path
    dice: random.Random
    older: bool = False
    """Whether ``messages`` is kept as versions before Silt's own committer did."""
    committed: int = 0
    tables: Tables = field(init=False)
    history: History = field(default_factory=lambda: History(per_subject=1))

    def __post_init__(self) -> None:
        self.tables = Tables(self.data, by_delta_rs=self.older, horizon_seconds=HORIZON_SECONDS)
        self.tables.commit([self.history.create()])
        self.fill()

    def fill(self) -> None:
        """Publish a round; part of it stays in the journal."""
        rows = [self.history.publish(f"s.{(self.history.seq + 1) % SUBJECTS}") for _ in range(PER_ROUND)]
        self.tables.commit(rows)
        self.committed = self.history.seq
        self.tables.settle(self.tables.rows[: len(self.tables.rows) - self.dice.randrange(PER_ROUND)])

    def clean_up(self) -> None:
        """Deletion of dead rows, compaction, truncation, vacuum, checkpoints and log cleanup of both tables."""
        self.tables.apply_limits()
        if self.dice.random() < 0.5:
            self.tables.compact()
        self.tables.truncate()
        self.tables.journal.checkpoint()
        self.tables.journal.cleanup(min_age_seconds=0)
        if not self.older:
            with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", VERSIONS_KEPT):
                self.tables.owner.upkeep()
            if self.dice.random() < 0.5:
                self.tables.owner.vacuum()
            return
        table = DeltaTable(str(self.data / "messages"))
        if self.dice.random() < 0.5:
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)
        if self.dice.random() < 0.5:
            table.create_checkpoint()
            self._clean_log(table.version())

    def _clean_log(self, checkpoint: int) -> None:
        """As Delta does it: oldest first, nothing that the newest versions need."""
        log = self.data / "messages" / "_delta_log"
        points = sorted(int(path.name[:20]) for path in log.glob("*.checkpoint.parquet"))
        base = max((point for point in points if point <= checkpoint - VERSIONS_KEPT), default=0)
        for path in sorted(log.glob("0*")):
            if int(path.name[:20]) < base:
                path.unlink()

    def read_on(self, stop: Event, seed: int) -> Counter[str]:
        """Ask again and again until told to stop; counts answers and refusals, fails on all else."""
        dice, seen = random.Random(seed), Counter[str]()
        settled = SettledTable(str(self.data / "messages"), cache_bytes=1 << 16)
        past = PointInTime(settled, JournalTail(str(self.data / "journal"), cache_bytes=1 << 16))
        while not stop.is_set():
            before = self.committed
            if dice.random() < 0.3:
                state = past.multi_last("S", ["s.>"])
                assert before <= state.up_to_seq
                seq, asked = state.up_to_seq, "now"
            else:
                seq, asked = dice.randint(max(1, before - dice.choice(POINTS_BACK)), before), "past"
                try:
                    state = past.multi_last("S", ["s.>"], up_to_seq=seq)
                except PastHorizon:
                    seen["refused"] += 1
                    continue
            assert {one.subject: one.data for one in state.messages} == expected(seq), (asked, seq, settled.version)
            seen[asked] += 1
        return seen


@pytest.mark.timeout(280)
@pytest.mark.parametrize("older", [False, True])
def test_the_past_is_true_or_refused_amid_all_that_deletes(tmp_path: Path, *, older: bool) -> None:
    """No wrong answer, no missing file; the present is never refused."""
    seed = 17
    scene, stop = Scene(tmp_path, random.Random(seed), older=older), Event()
    with ThreadPoolExecutor(READERS) as pool:
        reading = [pool.submit(scene.read_on, stop, seed + number) for number in range(READERS)]
        try:
            rounds, until = 0, time.monotonic() + SECONDS
            while (rounds < ROUNDS or time.monotonic() < until) and not any(one.done() for one in reading):
                scene.fill()
                scene.clean_up()
                rounds += 1
        finally:
            stop.set()
        seen = sum((one.result() for one in reading), Counter[str]())
    assert seen["past"] > 100, seen
    assert seen["now"] > 50, seen
    assert seen["refused"] > 20, "hardly anything was past: nothing was cleaned up under the readers"
