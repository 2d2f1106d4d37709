"""Kill a Spark job with SIGKILL while it copies a stream by the format ``silt``, and count what arrived.

Run alone: ``python -m tests.spark.kill_copy --messages 1000000 --kills 20 [--seed N]``. The job reads by the source and
writes by the sink; its checkpoint lives on. Meanwhile the stream that it reads is settled now and then. In the end each
message has arrived once.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from conf.data_location import DataLocation
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_scan import scan
from delta_store.reading.slice_plan import SlicePlanner
from tests.large_store import large_store
from tests.servers import gateway, nats_server, wait_until
from tests.spark.published import create_stream
from tests.spark.sparks import ROOT, environment

JOB = [sys.executable, "-m", "tests.spark.copy_job"]
SETTLE = [sys.executable, "-m", "delta_store.settling.settle_main", "--once"]
_SETTLE_EACH = 7
"""Kills from one settling to the next."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    seed: int
    messages: int
    kills: int
    batches: int
    """That were committed; one that a kill cut short and that was repeated counts once."""
    seconds: float
    last_run_seconds: float
    """Of the run that nobody killed, from its first batch on."""
    last_run_messages: int
    lost: int
    doubled: int


@contextmanager
def store_of(folder: Path, messages: int) -> Iterator[tuple[Path, str]]:
    """Run a gateway on a store with ``messages`` in stream S, and an empty stream COPY; yield its data and address."""
    data = folder / "data"
    large_store(data, messages)
    with nats_server(folder / "hub", leaf=True) as hub, gateway(hub, data):
        create_stream(hub.url, "COPY", ["copy.>"], duplicate_window=3600.0)
        yield data, hub.url


@contextmanager
def job(data: Path, url: str, folder: Path, *more: object, until: int) -> Iterator["subprocess.Popen[str]"]:
    """Run the job in a group of processes of its own; kill it, and its JVM, in the end.

    Python's workers notice by themselves, a little later.
    """
    asked = ["--data", data, "--servers", url, "--checkpoint", folder / "checkpoint", "--until", until, *more]
    with (folder / "job.log").open("a") as out:
        running = subprocess.Popen(
            [*JOB, *map(str, asked)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=out, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield running
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        if running.stdout is not None:
            running.stdout.close()


def said(running: "subprocess.Popen[str]", word: str, folder: Path) -> None:
    """Wait for a line of the job's."""
    assert running.stdout is not None
    for line in running.stdout:
        if line.strip() == word:
            return
    raise AssertionError((folder / "job.log").read_text()[-4000:])


def until_batches(commits: Path, more: int, running: "subprocess.Popen[str]") -> None:
    """Wait until so many more batches are committed: a kill that always comes sooner would show nothing.

    A job that ends by itself, as Spark's do where a worker is slow to come, has been stopped like one that is killed.
    """
    had = _batches(commits)
    wait_until(lambda: running.poll() is not None or _batches(commits) >= had + more, what="batches", seconds=600)


def _batches(commits: Path) -> int:
    return len(list(commits.glob("[0-9]*")))


def copied(data: Path) -> list[int]:
    """The numbers in the payloads of COPY, repeated ones as often as they are there."""
    location = DataLocation(str(data))
    planned = SlicePlanner.of(location).live("COPY", MessageBounds())
    bodies = [
        body for part in planned.parts for table in scan(location, part, ["data"]) for body in table["data"].to_pylist()
    ]
    return sorted(int(body.removeprefix(b"payload ")) for body in bodies)


def kill_rounds(folder: Path, *, messages: int, kills: int, seed: int) -> Outcome:
    """Copy so many messages in ``folder``, in batches of a fortieth, through so many kills at random points."""
    dice, commits = random.Random(seed), folder / "checkpoint" / "commits"
    with store_of(folder, messages) as (data, url):
        began = time.monotonic()
        most = max(5_000, messages // 40)
        for number in range(kills):
            with job(data, url, folder, "--most", most, until=messages) as running:
                said(running, "running", folder)
                until_batches(commits, dice.randrange(3), running)
                time.sleep(dice.uniform(0, 2))
            _say(f"killed {number + 1} times: {_batches(commits)} batches, {time.monotonic() - began:.0f} s")
            if number % _SETTLE_EACH == 2:
                settle(data)
        before = len(copied(data))
        with job(data, url, folder, "--most", most, until=messages) as running:
            said(running, "running", folder)
            began_last = time.monotonic()
            said(running, "copied", folder)
            ended = time.monotonic()
        numbers = Counter(copied(data))
        return Outcome(
            seed=seed,
            messages=messages,
            kills=kills,
            batches=_batches(commits),
            seconds=round(ended - began, 1),
            last_run_seconds=round(ended - began_last, 1),
            last_run_messages=numbers.total() - before,
            lost=messages - len(numbers.keys() & set(range(1, messages + 1))),
            doubled=numbers.total() - len(numbers),
        )


def settle(data: Path) -> None:
    """Settle all there is."""
    subprocess.run([*SETTLE, "--data", str(data)], cwd=ROOT, env=environment(), check=True, timeout=900)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    """Run the command; its status is 1 if a message was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started ends, too
    with tempfile.TemporaryDirectory(prefix="silt-kill-copy-") as folder:
        outcome = kill_rounds(Path(folder), messages=asked.messages, kills=asked.kills, seed=asked.seed)
    sys.stdout.write(json.dumps(asdict(outcome), indent=2) + "\n")
    sys.exit(bool(outcome.lost or outcome.doubled))


if __name__ == "__main__":
    main()
