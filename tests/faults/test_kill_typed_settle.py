"""The settle process killed at random points while it keeps typed tables: each message stays in one place."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from delta_store.typed.table_folders import table_folder
from tests.spark.sparks import ROOT, environment
from tests.spark.store import Store

ROUNDS = 5
_ROUND_SECONDS = 400
SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main"]
SETTINGS = {"SILT_SETTLE__COMPACT_INTERVAL_SECONDS": "3", "SILT_SETTLE__TRIGGER_INTERVAL_SECONDS": "0"}
SCHEMA = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


class Feed:
    """Commits groups of messages, one in a hundred of which does not fit, and removes some."""

    def __init__(self, data: Path, seed: int) -> None:
        self.store, self.random = Store(cast(Any, None), data), random.Random(seed)
        self.payloads: dict[int, bytes] = {}
        self.store.create("A", metadata={"silt.schema": SCHEMA})
        self.store.create("L", metadata={"silt.schema": SCHEMA, "silt.table": "latest"}, max_msgs_per_subject=2)

    def group(self) -> None:
        """Commit one group."""
        for _ in range(self.random.randrange(1, 60)):
            payload = json.dumps({"n": self.random.choice(["x", *range(100)])}).encode()
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


def _seqs(data: Path, name: str, *, dead_letters: bool = False) -> list[int]:
    table = DeltaTable(data / table_folder(name, dead_letters=dead_letters)).to_pyarrow_table(columns=["seq"])
    return sorted(table["seq"].to_pylist())


def _batches(data: Path) -> int:
    """The appends to ``messages``."""
    log = (data / "messages" / "_delta_log").glob("*.json")
    return sum(b'"operation":"WRITE"' in path.read_bytes() for path in log)


def _settle(data: Path, feed: Feed, batches: int, seconds: float) -> None:
    """Run the settle job and feed it until it has settled so many batches; kill it so long after."""
    before, said = _batches(data), data / "said.log"
    with said.open("ab") as out:
        job = subprocess.Popen(
            [*SETTLE, "--data", str(data)],
            cwd=ROOT, env=environment() | SETTINGS, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        until = time.monotonic() + _ROUND_SECONDS
        while _batches(data) < before + batches:
            assert job.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < until, said.read_text()[-3000:]
            feed.group()
            time.sleep(0.1)
        time.sleep(seconds)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1])
def test_typed_tables_are_whole_after_kills(tmp_path: Path, seed: int) -> None:
    """Every message is in its table or its dead letters, once; of a table of latest ones, the last of each subject."""
    data = tmp_path / "data"
    feed = Feed(data, seed)
    feed.group()
    for _ in range(ROUNDS):
        _settle(data, feed, feed.random.randrange(2, 9), feed.random.uniform(0, 1.5))
    ended = subprocess.run(
        [*SETTLE, "--data", str(data), "--once"],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    rows = DeltaTable(data / "messages").to_pyarrow_table(columns=["stream", "subject", "seq", "kind"]).to_pylist()
    messages = sorted((row["seq"], row["stream"], row["subject"]) for row in rows if row["kind"] == "message")
    live = set(feed.store.live("A"))
    assert live <= {seq for seq, stream, _ in messages if stream == "A"}
    found, dead = _seqs(data, "A"), _seqs(data, "A", dead_letters=True)
    assert live <= {*found, *dead}
    assert sorted(found + dead) == sorted({*found, *dead})
    assert all(map(feed.fits, found))
    assert not any(map(feed.fits, dead))
    newest = {subject: seq for seq, stream, subject in messages if stream == "L"}
    assert _seqs(data, "L") == sorted(newest.values())
