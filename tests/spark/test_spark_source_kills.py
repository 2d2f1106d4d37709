"""The format ``silt`` on clusters and under kill -9: what goes through source and sink arrives once."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conf.data_location import DataLocation
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_scan import scan
from delta_store.reading.slice_plan import SlicePlanner
from tests.large_store import large_store
from tests.servers import gateway, nats_server, wait_until
from tests.spark.published import create_stream
from tests.spark.sparks import ROOT, connect_server, environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
JOB = [sys.executable, "-m", "tests.spark.copy_job"]
SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main", "--once"]


@contextmanager
def store_of(folder: Path, messages: int) -> Iterator[tuple[Path, str]]:
    """A gateway on a store with ``messages`` in stream S, and an empty stream COPY; yields its data and address."""
    data = folder / "data"
    large_store(data, messages)
    with nats_server(folder / "hub", leaf=True) as hub, gateway(hub, data):
        create_stream(hub.url, "COPY", ["copy.>"], duplicate_window=3600.0)
        yield data, hub.url


def job(data: Path, url: str, folder: Path, *more: object, until: int) -> "subprocess.Popen[str]":
    """Start the job in a group of processes of its own."""
    asked = ["--data", data, "--servers", url, "--checkpoint", folder / "checkpoint", "--until", until, *more]
    with (folder / "job.log").open("a") as out:
        return subprocess.Popen(
            [*JOB, *map(str, asked)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=out, text=True,
            start_new_session=True,
        )  # fmt: skip


def said(running: "subprocess.Popen[str]", word: str, folder: Path) -> None:
    """Wait for a line of the job's."""
    assert running.stdout is not None
    for line in running.stdout:
        if line.strip() == word:
            return
    raise AssertionError((folder / "job.log").read_text()[-4000:])


def kill(running: "subprocess.Popen[str]") -> None:
    """Kill the job and its JVM; Python's workers notice by themselves, a little later."""
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    if running.stdout is not None:
        running.stdout.close()


def until_batches(commits: Path, more: int) -> None:
    """Wait until so many more batches are committed: a kill that always comes sooner would show nothing."""
    had = len(list(commits.glob("[0-9]*")))
    wait_until(lambda: len(list(commits.glob("[0-9]*"))) >= had + more or None, what="batches", seconds=600)


def copied(data: Path) -> list[int]:
    """The numbers in the payloads of COPY, repeated ones as often as they are there."""
    location = DataLocation(str(data))
    planned = SlicePlanner.of(location).live("COPY", MessageBounds())
    bodies = [
        body for part in planned.parts for table in scan(location, part, ["data"]) for body in table["data"].to_pylist()
    ]
    return sorted(int(body.removeprefix(b"payload ")) for body in bodies)


@pytest.mark.parametrize(("messages", "kills"), [(20_000, 3), (1_000_000, 20)])
def test_each_message_arrives_once_through_kills(tmp_path: Path, messages: int, kills: int) -> None:
    """Source and sink, killed at random points, settled now and then: nothing is lost and nothing doubled."""
    dice = random.Random(kills)
    with store_of(tmp_path, messages) as (data, url):
        for number in range(kills):
            running = job(data, url, tmp_path, "--most", max(5_000, messages // 40), until=messages)
            said(running, "running", tmp_path)
            until_batches(tmp_path / "checkpoint" / "commits", dice.randrange(3))
            time.sleep(dice.uniform(0, 2))
            kill(running)
            if number % 7 == 2:
                subprocess.run([*SETTLE, "--data", str(data)], cwd=ROOT, env=environment(), check=True, timeout=900)
        running = job(data, url, tmp_path, until=messages)
        try:
            said(running, "copied", tmp_path)
        finally:
            kill(running)
        assert copied(data) == list(range(1, messages + 1))


def test_executors_of_a_cluster_read_and_write(tmp_path: Path) -> None:
    """Two executors in processes of their own, which have nothing but the package."""
    with store_of(tmp_path, 30_000) as (data, url):
        running = job(data, url, tmp_path, "--master", "local-cluster[2,1,1024]", "--most", 10_000, until=30_000)
        try:
            said(running, "copied", tmp_path)
        finally:
            kill(running)
        assert copied(data) == list(range(1, 30_001))


def test_a_session_of_spark_connect_reads_and_writes(tmp_path: Path) -> None:
    """The server plans and publishes; the client only asks."""
    with store_of(tmp_path, 30_000) as (data, url), connect_server(tmp_path / "server") as remote:
        running = job(data, url, tmp_path, "--remote", remote, "--most", 10_000, until=30_000)
        try:
            said(running, "copied", tmp_path)
        finally:
            kill(running)
        assert copied(data) == list(range(1, 30_001))
