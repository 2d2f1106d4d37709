"""The settle job through a Spark Connect server: batches run in a process of the server's, maintenance in its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable

from tests.spark.sparks import ROOT, connect_server, environment
from tests.spark.store import Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main"]
SUBJECTS = 3
KEPT = 4


def settled(data: Path, stream: str) -> list[int]:
    """The sequences in ``messages``, repeated ones as often as they are there."""
    table = DeltaTable(data / "messages").to_pyarrow_table(
        columns=["seq"], filters=[("stream", "=", stream), ("kind", "=", "message")]
    )
    return sorted(table["seq"].to_pylist())


def publish(store: Store, number: int) -> None:
    """Publish to a stream that keeps all, and to one that keeps a few a subject."""
    for at in range(number):
        store.publish("ALL", f"s{at % SUBJECTS}", msg_id=f"id-{store.now_ns}-{at}")
        store.publish("FEW", f"s{at % SUBJECTS}")
        store.tick()
    store.commit()


def wait_until(holds: Callable[[], bool], job: "subprocess.Popen[str]", *, seconds: float = 420) -> None:
    """Wait for the job to have done something."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert job.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.5)


@contextmanager
def settling(data: Path, *arguments: str, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """A running settle job, which ends well when it is asked to."""
    with (data / "said.log").open("a") as out:
        job = subprocess.Popen(
            [*SETTLE, "--data", str(data), *arguments],
            cwd=ROOT, env=environment() | settings, stdout=subprocess.PIPE, stderr=out, text=True,
        )  # fmt: skip
    try:
        assert job.stdout is not None
        ready = job.stdout.readline()
        assert ready, (data / "said.log").read_text()[-3000:]
        assert json.loads(ready)["ready"] is True
        yield job
        job.send_signal(signal.SIGTERM)
        assert job.wait(90) == 0
    finally:
        if job.stdout is not None:
            job.stdout.close()
        if job.poll() is None:
            os.kill(job.pid, signal.SIGKILL)
            job.wait()


def test_settles_by_a_connect_server(tmp_path: Path) -> None:
    """Once, by a query that runs on, and by queries that end: each row is settled once, and dead ones leave."""
    store = Store(cast(Any, None), tmp_path / "data")
    store.create("ALL")
    store.create("FEW", max_msgs_per_subject=KEPT)
    publish(store, 30)
    publish(store, 30)
    with connect_server(tmp_path / "server") as url:
        once = subprocess.run(
            [*SETTLE, "--data", str(store.data), "--once"],
            cwd=ROOT, env=environment() | {"SPARK_REMOTE": url},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert once.returncode == 0, once.stderr[-3000:]
        assert settled(store.data, "ALL") == list(range(1, 61))

        with settling(store.data, "--remote", url, SILT_SETTLE__COMPACT_INTERVAL_SECONDS="5") as job:
            wait_until(lambda: settled(store.data, "FEW") == store.live("FEW"), job)
            publish(store, 30)
            wait_until(lambda: len(settled(store.data, "ALL")) >= 90, job)

        with settling(store.data, "--remote", url, "--available-now") as job:
            publish(store, 30)
            wait_until(lambda: len(settled(store.data, "ALL")) >= 120, job)
    assert settled(store.data, "ALL") == list(range(1, 121))
    assert not list((store.data / "spark").iterdir())
