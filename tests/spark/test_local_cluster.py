"""The settle process itself: on clusters, under plain spark-submit, and stopped or refused."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from tests.servers import wait_until
from tests.spark.sparks import ROOT, SPARK_HOME, delta_jars, environment, standalone
from tests.spark.store import Store

SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main"]
FILE = ROOT / "delta_store" / "settling" / "settle_main.py"
TAKEN_OVER_SECONDS = 10.0
"""Less than a query takes to start beside other tests; on an idle machine it is one second (README)."""


def publish(store: Store, number: int) -> None:
    """Publish in three groups."""
    for at in range(1, number + 1):
        store.publish("A", f"s{at % 3}")
        if at % (number // 3) == 0:
            store.commit()


def settled(data: Path) -> list[int]:
    """The sequences in ``messages``, repeated ones as often as they are there."""
    table = DeltaTable(data / "messages").to_pyarrow_table(columns=["seq"], filters=[("kind", "=", "message")])
    return sorted(table["seq"].to_pylist())


@pytest.fixture
def filled(tmp_path: Path) -> Store:
    """A journal with a few groups."""
    store = Store(cast(Any, None), tmp_path / "data")
    store.create("A", max_msgs_per_subject=5)
    publish(store, 30)
    return store


def run(command: Sequence[object], folder: Path) -> str:
    """Run a settle job until all is settled; returns the master that its ready line names."""
    ended = subprocess.run(
        list(map(str, command)),
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    [ready] = [line for line in ended.stdout.splitlines() if line.startswith('{"ready"')]
    return str(json.loads(ready)["master"])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_settles_on_clusters(filled: Store, tmp_path: Path) -> None:
    """A standalone cluster, by the command and by spark-submit with the file; then two executors of its own."""
    asked = ["--data", filled.data, "--once"]
    with standalone(tmp_path / "cluster") as master:
        assert run([*SETTLE, *asked, "--master", master], ROOT) == master
        assert settled(filled.data) == list(range(1, 31))
        publish(filled, 30)
        submit = [SPARK_HOME / "bin" / "spark-submit", "--master", master, "--jars", delta_jars()]
        assert run([*submit, FILE, *asked], tmp_path) == master
        assert settled(filled.data) == list(range(1, 61))
    publish(filled, 30)
    own = "local-cluster[2,1,1024]"
    assert run([*SETTLE, *asked, "--master", own], ROOT) == own
    assert settled(filled.data) == list(range(1, 91))


def test_stops_when_asked_and_refuses_a_second(filled: Store) -> None:
    """A long-running job settles, keeps another one out by exit code 3, and ends with 0 on SIGTERM."""
    job = [sys.executable, str(FILE), "--data", str(filled.data)]
    first = subprocess.Popen(job, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
    assert first.stdout is not None
    try:
        assert json.loads(first.stdout.readline())["ready"] is True
        second = subprocess.run(job, capture_output=True, env=environment(), timeout=60, check=False)
        assert second.returncode == 3
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
    finally:
        first.stdout.close()
        first.kill()
        first.wait()


@contextmanager
def running(command: Sequence[object]) -> "Iterator[subprocess.Popen[str]]":
    """A process that is killed when the block ends."""
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """The next line of a process."""
    assert process.stdout is not None
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


@pytest.mark.slow
def test_who_stands_by_settles_on(filled: Store) -> None:
    """Soon after the first is killed: its first batch comes before its query, on a Spark that has rehearsed both."""
    job = [sys.executable, FILE, "--data", filled.data]
    with running(job) as first:
        assert said(first)["ready"] is True
        with running([*job, "--stand-by"]) as second:
            assert said(second)["holder"] == f"process {first.pid}"
            publish(filled, 30)
            first.kill()
            killed = time.monotonic()
            wait_until(lambda: settled(filled.data) == list(range(1, 61)), what="all that waited is settled")
            assert time.monotonic() - killed < TAKEN_OVER_SECONDS
            assert said(second)["ready"] is True
            publish(filled, 30)
            wait_until(lambda: settled(filled.data) == list(range(1, 91)), what="all is settled", seconds=120)
            second.send_signal(signal.SIGTERM)
            assert second.wait(60) == 0
