"""The texts of ``silt views`` in a DuckDB with its own extension ``delta``, in a process of its own."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from conf.clock import SystemClock
from delta_store.entries import head_rows
from delta_store.heads import view_text
from delta_store.heads.head_tables import HeadTables
from delta_store.heads.stored_rows import read_heads
from delta_store.heads.view_text import LIVE_VIEW, PastPoint, ViewEngine
from tests.tables import History, Tables, live_sequences
from tests.tools import duckdb_with_delta

DUCKDB = """
import json, sys
import duckdb
from duckdb_extensions import import_extension

answers, sys.stdout = sys.stdout, sys.stderr
import_extension("delta")
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false; LOAD delta")
for line in sys.stdin:
    text, query = json.loads(line)
    connection.execute(text.partition("LOAD delta;")[2] or text)
    print(json.dumps(sorted(row[0] for row in connection.sql(query).fetchall())), file=answers, flush=True)
"""
KEYS = 3
Ask = Callable[[str, str], list[int]]
"""Makes a view, and answers a query of it by the values of its first column, in order."""


@contextmanager
def asking() -> Iterator[Ask]:
    """Start a DuckDB."""
    folder = str(duckdb_with_delta())
    environment = {**os.environ, "PYTHONPATH": folder, "HOME": folder}
    process = subprocess.Popen(
        [sys.executable, "-c", DUCKDB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    talk, answers = process.stdin, process.stdout

    def ask(text: str, query: str) -> list[int]:
        talk.write(json.dumps([text, query]) + "\n")
        talk.flush()
        found: list[int] = json.loads(answers.readline())
        return found

    try:
        yield ask
    finally:
        talk.close()
        answers.close()
        assert process.wait(60) == 0


class Kept:
    """Tables of one stream, and heads and removed behind them."""

    def __init__(self, data: Path, **limits: int) -> None:
        self.history, self.tables = History(stream="S", **limits), Tables(data)
        self.tables.rows.append(self.history.create())
        self.heads = HeadTables.open(self.tables.owner, clock=SystemClock())

    def settle(self) -> None:
        """Settle all rows."""
        before = set(self.tables.owner.snapshot.files)
        self.tables.settle()
        self.heads.follow([path for path in self.tables.owner.snapshot.files if path not in before])


def test_states_are_those_of_a_replay(tmp_path: Path) -> None:
    """Of a random history with evictions, limits, deletes, purges and cleanup: now, and at past sequences."""
    dice, kept = random.Random(11), Kept(tmp_path, per_subject=2, max_msgs=20)
    with asking() as ask:
        for number in range(6):
            kept.tables.rows += [kept.history.step(dice) for _ in range(9)]
            kept.settle()
            if number % 3 == 1:
                kept.tables.apply_limits()
                kept.heads.maintain(applied=kept.tables.owner.snapshot.version)
            text = view_text.live_view(ViewEngine.DUCKDB, str(tmp_path), name="S", stream="S")
            assert ask(text, "SELECT seq FROM S") == sorted(live_sequences(kept.tables.rows))
        heads = read_heads(str(tmp_path / "messages"))
        for seq in range(3, kept.tables.marks["S"].seq, 9):
            head = head_rows.holding(heads, "S", seq=seq)
            assert head is not None
            text = view_text.past_view(ViewEngine.DUCKDB, str(tmp_path), PastPoint(head, seq, None))
            assert ask(text, "SELECT seq FROM S") == sorted(live_sequences(kept.tables.rows, seq)), seq


def test_heads_are_pinned_before_the_others(tmp_path: Path) -> None:
    """While batches that replace every value are committed one after the other, a view shows each key once, of one."""
    kept, stop = Kept(tmp_path, per_subject=1), Event()

    def settle() -> None:
        kept.tables.rows += [kept.history.publish(f"s.{key}") for key in range(KEYS)]
        kept.settle()

    def settle_on() -> None:
        while not stop.wait(0.1):
            settle()

    settle()
    text, shown = view_text.live_view(ViewEngine.DUCKDB, str(tmp_path)), []
    writer = Thread(target=settle_on)
    writer.start()
    try:
        with asking() as ask:
            for _ in range(25):
                seqs = ask(text, f"SELECT seq FROM {LIVE_VIEW}")
                assert seqs == list(range(seqs[0], seqs[0] + KEYS))
                assert seqs[0] % KEYS == 1
                shown.append(seqs[0])
    finally:
        stop.set()
        writer.join()
    assert shown == sorted(shown)
    assert len(set(shown)) > 10
