"""The settle process itself: on a cluster of two workers, under plain spark-submit, and stopped or killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyspark
import pytest

from tests.spark.store import Store

ROOT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent


def settled_in(process: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """The ready line of a settle process that ended well."""
    assert process.returncode == 0, process.stderr[-3000:]
    [ready] = [line for line in process.stdout.splitlines() if line.startswith('{"ready"')]
    return json.loads(ready)


def environment() -> dict[str, str]:
    """What a user's shell has, without what this test process added for its own workers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    return kept | {"SPARK_HOME": str(SPARK_HOME)}


@pytest.fixture
def filled(store: Callable[..., Store]) -> Store:
    """A journal with a few groups."""
    here = store()
    here.create("A", max_msgs_per_subject=5)
    for number in range(30):
        here.publish("A", f"s{number % 3}")
        if number % 10 == 9:
            here.commit()
    return here


def test_settles_on_a_cluster(filled: Store) -> None:
    """Two executors in processes of their own settle what a local session reads back."""
    command = [sys.executable, "-m", "delta_store.settling.settle_main", "--data", str(filled.data), "--once"]
    process = subprocess.run(
        [*command, "--master", "local-cluster[2,1,1024]"],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert settled_in(process)["master"] == "local-cluster[2,1,1024]"
    assert filled.settled_seqs("A") == list(range(1, 31))


def test_settles_under_spark_submit_and_stops_when_asked(filled: Store) -> None:
    """A plain spark-submit settles and ends; a long-running one takes SIGTERM between batches and ends with 0."""
    jars = filled.spark.conf.get("spark.jars", "")
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", "--jars", jars]
    job = [str(ROOT / "delta_store" / "settling" / "settle_main.py"), "--data", str(filled.data)]
    process = subprocess.run(
        [*submit, *job, "--once"],
        cwd=filled.data, env=environment() | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert settled_in(process)["master"] == "local[2]"
    assert filled.settled_seqs("A") == list(range(1, 31))
    running = subprocess.Popen(
        [sys.executable, *job], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    )
    try:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())["ready"] is True
        second = subprocess.run([sys.executable, *job], capture_output=True, env=environment(), timeout=60, check=False)
        assert second.returncode == 3
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.wait()
