"""How fast Spark settles: against a bare append of the same rows, and how far it lags behind a steady load.

The rate is taken from two journals of different size: (rows₂ - rows₁) / (seconds₂ - seconds₁), whole processes timed
and the least time of each taken, as whatever else the machine does only adds. So what it costs to start a JVM and a
session, the same for both contenders, drops out. Processor time is that of the whole machine meanwhile, less the same.
"""

import contextlib
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable

from tests.benchmarks.loads import SIZE, STREAM, bench, create_stream
from tests.servers import ROOT, silt_server, silt_up

SMALL_ROWS = 20_000
SUBJECTS = 10
LAG_RATE = 10_000
_PROCESS_SECONDS_MAX = 900
_TICK_SECONDS = 0.01
_PUBLISH = ("js", "pub", "async", "--batch=5000", "--multisubject", f"--multisubjectmax={SUBJECTS}")


def make_journal(folder: Path, rows: int) -> Path:
    """Publish ``rows`` messages into a fresh gateway and stop it; gives its data folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with silt_server(folder) as running:
        create_stream(running.hub.url, subjects="bench.>")
        bench(running.hub.url, _PUBLISH, rows, folder=folder)
    return folder / "data"


class Taken(NamedTuple):
    """What a whole process took, its children included."""

    seconds: float
    cpu_seconds: float

    def least(self, other: "Taken") -> "Taken":
        """Return the least of each."""
        return Taken(min(self.seconds, other.seconds), min(self.cpu_seconds, other.cpu_seconds))


def settle_once(data: Path, scratch: Path) -> Taken:
    """Settle a copy of ``data`` to its end; gives what the whole process took."""
    copy = _copy(data, scratch / "settle")
    taken = _timed([sys.executable, "-m", "delta_store.settling.settle_main", "--data", str(copy), "--once"], scratch)
    found = _messages(copy / "messages")
    assert found == _messages(data / "journal"), f"settled {found} messages"
    return taken


def append_once(data: Path, scratch: Path) -> Taken:
    """Append the journal's rows to a bare table; gives what the whole process took."""
    target = scratch / "bare"
    shutil.rmtree(target, ignore_errors=True)
    module = "tests.benchmarks.bare_append"
    taken = _timed([sys.executable, "-m", module, str(data / "journal"), str(target)], scratch)
    assert _messages(target / "table") == _messages(data / "journal")
    return taken


def settle_rates(folder: Path, *, rows: int, repetitions: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Rows per second of the settle job and of the bare append, interleaved, in the shape of ``report.Runs``.

    Raises ``RuntimeError`` where the larger journal took no longer than the small one: the machine is too busy to tell.
    """
    journals = {SMALL_ROWS: make_journal(folder / "small", SMALL_ROWS), rows: make_journal(folder / "large", rows)}
    contenders = {"bare Spark append": append_once, "silt": settle_once}
    least = {contender: dict.fromkeys(journals, Taken(math.inf, math.inf)) for contender in contenders}
    for _ in range(repetitions):
        for contender, once in contenders.items():
            for size, journal in journals.items():
                least[contender][size] = least[contender][size].least(once(journal, folder))
    return {contender: {"settle": [_rate(rows, taken)]} for contender, taken in least.items()}


def _rate(rows: int, taken: dict[int, Taken]) -> dict[str, float]:
    large, small = taken[rows], taken[SMALL_ROWS]
    more = large.seconds - small.seconds
    if more <= 0:
        raise RuntimeError(f"{rows} rows took no longer than {SMALL_ROWS}: {taken}; run it on a machine that is idle")
    each = (large.cpu_seconds - small.cpu_seconds) / (rows - SMALL_ROWS)
    return {
        "rate": (rows - SMALL_ROWS) / more,
        "cpu_microseconds": each * 1e6,
        "seconds": large.seconds,
        "small_seconds": small.seconds,
        "cpu_seconds": large.cpu_seconds,
        "small_cpu_seconds": small.cpu_seconds,
    }


@dataclass(slots=True)
class _Pacer:
    """Publishes at a steady rate over one socket and remembers when each message left."""

    url: str
    rate: int
    sent: list[float] = field(default_factory=list)
    """Monotonic time at which message ``index + 1`` was sent; acknowledgements come in this order."""
    acknowledged: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        host, port = self.url.removeprefix("nats://").split(":")
        with socket.create_connection((host, int(port))) as peer:
            peer.sendall(b'CONNECT {"verbose":false}\r\nSUB _INBOX.pace 1\r\n')
            reader = threading.Thread(target=self._count, args=(peer,), daemon=True)
            reader.start()
            each = max(1, int(self.rate * _TICK_SECONDS))
            frame = f"PUB bench.%d _INBOX.pace {SIZE}\r\n{'x' * SIZE}\r\n"
            start = time.monotonic()
            while not self.stop.is_set():
                peer.sendall("".join(frame % (number % SUBJECTS) for number in range(each)).encode())
                self.sent += [time.monotonic()] * each
                due = start + len(self.sent) / self.rate
                time.sleep(max(0.0, due - time.monotonic()))
            # Its acknowledgements are still on their way.
            deadline = time.monotonic() + 10
            while self.acknowledged < len(self.sent) and time.monotonic() < deadline:
                time.sleep(_TICK_SECONDS)

    def _count(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := peer.recv(1 << 20):
                self.acknowledged += chunk.count(b"MSG _INBOX.pace")


@contextlib.contextmanager
def _paced(url: str, rate: int) -> Iterator[_Pacer]:
    pacer = _Pacer(url, rate)
    thread = threading.Thread(target=pacer.run, daemon=True)
    thread.start()
    try:
        yield pacer
    finally:
        pacer.stop.set()
        thread.join(30)


def lag(folder: Path, *, rate: int = LAG_RATE, seconds: float = 60, warm_up: float = 20) -> dict[str, float]:
    """Run ``silt up`` under a steady load and sample the age of the oldest message not yet in ``messages``.

    The first ``warm_up`` seconds (Spark compiles its code) are reported apart.
    """
    shutil.rmtree(folder, ignore_errors=True)
    samples: list[float] = []
    early: list[float] = []
    with silt_up(folder) as running:
        create_stream(running.url)
        with _paced(running.url, rate) as pacer:
            start = time.monotonic()
            while (elapsed := time.monotonic() - start) < warm_up + seconds:
                time.sleep(0.5)
                settled = _settled_seq(running.data / "messages")
                oldest = pacer.sent[settled] if settled < len(pacer.sent) else time.monotonic()
                (early if elapsed < warm_up else samples).append(time.monotonic() - oldest)
            sent, taken = len(pacer.sent), time.monotonic() - start
        assert pacer.acknowledged == len(pacer.sent), "not every message of the steady load was acknowledged"
    return {
        "rate": sent / taken,
        "median_seconds": statistics.median(samples),
        "max_seconds": max(samples),
        "warm_up_max_seconds": max(early),
    }


def _settled_seq(table: Path) -> int:
    """The last sequence of the stream that ``messages`` has reached, by the watermark of its newest commit."""
    if not (table / "_delta_log").exists():
        return 0
    for commit in DeltaTable(str(table)).history(20):
        metadata = commit.get("userMetadata")
        if metadata:
            return int(json.loads(metadata)["watermarks"].get(STREAM, {}).get("seq", 0))
    return 0


def _messages(table: Path) -> int:
    """How many message rows a table holds."""
    kinds = DeltaTable(str(table)).to_pyarrow_table(columns=["kind"]).column("kind")
    return sum(kind == "message" for kind in kinds.to_pylist())


def _copy(data: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(data, target)
    return target


def _timed(command: list[str], scratch: Path) -> Taken:
    with (scratch / "process.log").open("wb") as log:
        start, busy = time.perf_counter(), _busy_seconds()
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=_PROCESS_SECONDS_MAX, check=False)
        taken = Taken(time.perf_counter() - start, _busy_seconds() - busy)
    assert done.returncode == 0, (scratch / "process.log").read_text(errors="replace")[-4000:]
    return taken


def _busy_seconds() -> float:
    """Processor seconds that this machine has been busy since its start; a JVM's are not those of any child."""
    user, nice, system = Path("/proc/stat").read_text().split(maxsplit=4)[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")
