"""Kill the settle job with SIGKILL at random points, and between the commits of one batch; look at all tables then.

Run alone: ``python -m tests.faults.kill_settle --rounds 20 [--seed N]``. A batch is committed to ``messages``, then to
``removed``, ``heads`` and the typed tables. A round kills the job as soon as one of these has a new commit, which is
mostly before the next one has its own; every third round kills it at random. After each kill ``silt verify`` finds no
damage, and in the end every message is in one place of each table, and the raw tables show what the streams show.
"""

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from deltalake import DeltaTable

from conf.data_location import DataLocation
from delta_store.checking.verify_store import verify_store
from delta_store.typed.table_folders import table_folder
from tests import plain_views
from tests.spark.sparks import ROOT, environment
from tests.spark.store import Store

ORDER = ("messages", "removed", "heads", "tables/A~dlq", "tables/A", "tables/L")
"""The tables that a batch is committed to, one after the other."""
_ROUND_SECONDS = 400
_SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main"]
_SETTINGS = {"SILT_SETTLE__COMPACT_INTERVAL_SECONDS": "3", "SILT_SETTLE__TRIGGER_INTERVAL_SECONDS": "0"}
_SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


class Feed:
    """Commits groups of messages, some of which do not fit, and removes some."""

    def __init__(self, data: Path, seed: int) -> None:
        self.store, self.random = Store(cast(Any, None), data), random.Random(seed)
        self.payloads: dict[int, bytes] = {}
        self.store.create("A", metadata={"silt.schema": _SCHEMA})
        self.store.create("L", metadata={"silt.schema": _SCHEMA, "silt.table": "latest"}, max_msgs_per_subject=2)

    def group(self) -> None:
        """Commit one group."""
        for _ in range(self.random.randrange(1, 60)):
            payload = json.dumps({"n": self.random.choice(["x", *range(30)])}).encode()
            seq = self.store.publish("A", f"k{self.random.randrange(5)}", payload)
            self.payloads[seq] = payload
            self.store.publish("L", f"k{self.random.randrange(20)}", json.dumps({"n": seq}).encode())
        if self.random.random() < 0.3:
            seq = self.random.choice(self.store.live("A"))
            self.store.catalog.remove("A", seq, now_ns=self.store.tick(), rows=self.store.rows)
        self.store.commit()

    def fits(self, seq: int) -> bool:
        """Whether a message of ``A`` has the schema."""
        return b"x" not in self.payloads[seq]


@dataclass(slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all was as it should be."""

    seed: int
    cuts: dict[str, int] = field(default_factory=Counter)
    """How often the job ended behind the commit to one table and before that to the next."""
    messages: int = 0
    problems: list[str] = field(default_factory=list)


def kill_rounds(data: Path, *, rounds: int, seed: int) -> Outcome:
    """Settle in a folder, killed so often; then to the end, and compare."""
    outcome, feed = Outcome(seed), Feed(data, seed)
    for number in range(rounds):
        for _ in range(4):
            feed.group()
        if number % 3 == 2:
            _kill_at_random(data, feed)
        else:
            place = feed.random.randrange(len(ORDER) - 1)
            if _kill_behind(data, place):
                outcome.cuts[f"{ORDER[place]} | {ORDER[place + 1]}"] += 1
        outcome.problems += [f"round {number}: {one}" for one in _damage(data)]
    ended = subprocess.run(
        [*_SETTLE, "--data", str(data), "--once"],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    outcome.messages = len(feed.payloads)
    outcome.problems += [f"in the end: {one}" for one in (*_damage(data), *_differences(data, feed))]
    return outcome


@contextmanager
def _settling(data: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the settle job, and kill it with its JVM when the block ends."""
    with (data / "said.log").open("ab") as out:
        job = subprocess.Popen(
            [*_SETTLE, "--data", str(data)],
            cwd=ROOT, env=environment() | _SETTINGS, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield job
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


class _Commits:
    """The commits to a table from now on that add rows."""

    def __init__(self, data: Path, table: str = ORDER[0]) -> None:
        self._log = data / table / "_delta_log"
        known = [int(path.stem) for path in self._log.glob("*.json") if path.stem.isdecimal()]
        self._next = max(known, default=-1) + 1

    def one_more(self) -> bool:
        """Whether there is one that was not asked for yet."""
        while (entry := self._log / f"{self._next:020d}.json").exists():
            self._next += 1
            if b'"operation":"WRITE"' in entry.read_bytes():
                return True
        return False


def _kill_at_random(data: Path, feed: Feed) -> None:
    """Feed the job until it has settled some batches, and kill it a little later."""
    commits, batches = _Commits(data), feed.random.randrange(2, 9)
    with _settling(data) as job:
        for _ in range(batches):
            _wait(data, job, commits, seconds=0.05, meanwhile=feed.group)
        time.sleep(feed.random.uniform(0, 1.5))


def _kill_behind(data: Path, place: int) -> bool:
    """Kill the job when it has committed to the table at this place; return whether the next one has nothing new."""
    ahead, behind = _Commits(data, ORDER[place]), _Commits(data, ORDER[place + 1])
    with _settling(data) as job:
        _wait(data, job, ahead, seconds=0.0002)
    return not behind.one_more()


def _wait(
    data: Path,
    job: "subprocess.Popen[bytes]",
    commits: _Commits,
    *,
    seconds: float,
    meanwhile: Callable[[], object] = int,
) -> None:
    """Wait for a commit, and look so often."""
    until, said = time.monotonic() + _ROUND_SECONDS, data / "said.log"
    while not commits.one_more():
        assert job.poll() is None, said.read_text()[-3000:]
        assert time.monotonic() < until, said.read_text()[-3000:]
        meanwhile()
        time.sleep(seconds)


def _damage(data: Path) -> Iterator[str]:
    """Iterate over what ``silt verify`` finds, but for files that were written and not committed."""
    report = verify_store(DataLocation(str(data)))
    if not report.is_whole:
        yield from map(str, report.findings)


def _differences(data: Path, feed: Feed) -> Iterator[str]:
    """Iterate over what is not as the messages are."""
    rows = DeltaTable(data / "messages").to_pyarrow_table(columns=["stream", "subject", "seq", "kind"]).to_pylist()
    messages = sorted((row["seq"], row["stream"], row["subject"]) for row in rows if row["kind"] == "message")
    live = {name: set(feed.store.live(name)) for name in ("A", "L")}
    if not live["A"] <= {seq for seq, stream, _ in messages if stream == "A"}:
        yield "live messages are not in messages"
    found, dead = _seqs(data, "A"), _seqs(data, "A", dead_letters=True)
    if not live["A"] <= {*found, *dead}:
        yield "live messages are in no typed table"
    if sorted(found + dead) != sorted({*found, *dead}):
        yield "a message is in a typed table twice"
    if not all(map(feed.fits, found)) or any(map(feed.fits, dead)):
        yield "a row is among the dead letters, or a dead letter among the rows"
    newest = {subject: seq for seq, stream, subject in messages if stream == "L"}
    if _seqs(data, "L") != sorted(newest.values()):
        yield "the table of the latest ones has others"
    for shown in plain_views.live(data):
        if shown != live:
            yield f"the raw tables show {shown}, live is {live}"


def _seqs(data: Path, name: str, *, dead_letters: bool = False) -> list[int]:
    table = DeltaTable(data / table_folder(name, dead_letters=dead_letters)).to_pyarrow_table(columns=["seq"])
    return sorted(table["seq"].to_pylist())


def main() -> None:
    """Run the command; its status is 1 if there were problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="silt-kill-settle-") as folder:
        outcome = kill_rounds(Path(folder) / "data", rounds=asked.rounds, seed=asked.seed)
    sys.stdout.write(json.dumps({part.name: getattr(outcome, part.name) for part in fields(outcome)}, indent=2) + "\n")
    sys.exit(bool(outcome.problems))


if __name__ == "__main__":
    main()
