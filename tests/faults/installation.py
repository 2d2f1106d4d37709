"""A ``silt up`` that is killed piece by piece or as a whole, and is measured all the while."""

import contextlib
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.hubs import free_port
from tests.servers import Child, NotStarted, answers_api, wait_until

_NAMES = (
    ("gateway", "api.gateway.gateway_main"),
    ("serve", "api.rest.serve_main"),
    ("spark", "org.apache.spark"),
    ("settle", "delta_store.settling.settle_main"),
    ("hub", "nats-server"),
)
"""Processes by what their command lines hold; the first match counts."""
KILLED = ("gateway", "settle", "serve", "hub")
_HOUR = 3600.0
_START_SECONDS = 300.0
_STOP_SECONDS = 180.0


def descendants(pid: int) -> dict[int, str]:
    """Every process below ``pid`` with its command line."""
    parents: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(stat[1])].append(int(folder.name))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in parents[waiting.pop()]:
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                waiting.append(child)
    return found


class Installation:
    """``silt up`` on one folder and one pair of ports, whatever happens to it."""

    def __init__(self, folder: Path, data: Path, env: dict[str, str] | None = None) -> None:
        """``env`` has settings beside the defaults."""
        self.data = data
        self._env = env or {}
        self._folder = folder
        self._ports = str(free_port()), str(free_port())
        self._child: Child | None = None
        self._starts = 0
        self.url, self.http_url = f"nats://127.0.0.1:{self._ports[0]}", f"http://127.0.0.1:{self._ports[1]}"

    def start(self) -> None:
        """Start it and wait until its API answers; Spark may take much longer. Raises ``NotStarted``."""
        self._starts += 1
        port, http_port = self._ports
        silt = str(Path(sys.executable).with_name("silt"))
        command = [silt, "up", "--data", str(self.data), "--port", port, "--http-port", http_port]
        child = self._child = Child(command, self._folder / f"silt-up-{self._starts}.log", self._env)
        child.start()
        wait_until(lambda: self._answers(child), what="the API answers", seconds=_START_SECONDS, log=child.log)

    def _answers(self, child: Child) -> bool:
        if not child.alive():
            raise NotStarted(f"silt up ended early\n{child.log.read_text(errors='replace')[-4000:]}")
        return answers_api(self.url)

    @property
    def started(self) -> bool:
        """Whether it was ever started."""
        return self._child is not None

    def stop(self) -> int | None:
        """End it in good order, within the time that it allows its children; gives the exit status, None for none."""
        assert self._child is not None
        assert self._child.process is not None
        self._child.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.process.wait(_STOP_SECONDS)
        return None

    def kill_all(self) -> None:
        """SIGKILL to the supervisor and all below it."""
        if self._child is None:
            return
        below = descendants(self._child.pid)
        self._child.kill()
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> dict[str, int]:
        """The processes that run now, by their names."""
        assert self._child is not None
        found = {"supervisor": self._child.pid} if self._child.alive() else {}
        for pid, command in descendants(self._child.pid).items():
            name = next((name for name, mark in _NAMES if mark in command), "")
            if name:
                found.setdefault(name, pid)
        return found

    def kill(self, name: str) -> bool:
        """SIGKILL to one process; False when it does not run now."""
        pid = self.pids().get(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return pid is not None


@dataclass(slots=True)
class Measures:
    """What was sampled: resident MiB by process, file counts by table."""

    rss: dict[str, dict[int, list[tuple[float, float]]]] = field(default_factory=dict)
    """By name and process id: seconds and MiB."""
    files: dict[str, list[int]] = field(default_factory=dict)

    def sample(self, installation: Installation) -> None:
        """Look once."""
        now = time.monotonic()
        for name, pid in installation.pids().items():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                found = re.search(r"VmRSS:\s+(\d+) kB", status)
                if found:
                    lives = self.rss.setdefault(name, {})
                    lives.setdefault(pid, []).append((now, int(found[1]) / 1024))
        for table in ("journal", "messages"):
            root = installation.data / table
            for what, pattern in (("files", "**/*.parquet"), ("log entries", "_delta_log/*.json")):
                with contextlib.suppress(OSError):
                    number = sum(1 for one in root.glob(pattern) if what != "files" or "_delta_log" not in one.parts)
                    self.files.setdefault(f"{table} {what}", []).append(number)

    def lines(self) -> list[str]:
        """A line for each process and each count."""
        shown = []
        for name, lives in sorted(self.rss.items()):
            values = [value for life in lives.values() for _, value in life]
            longest = max(lives.values(), key=len)
            seconds, median = longest[-1][0] - longest[0][0], statistics.median(values)
            shown.append(
                f"{name}: RSS min {min(values):.0f}, median {median:.0f}, max {max(values):.0f} MiB; "
                f"lives {len(lives)}, the longest {seconds:.0f} s with {_slope(longest):+.0f} MiB/h"
            )
        for name, numbers in sorted(self.files.items()):
            median = statistics.median(numbers)
            shown.append(f"{name}: min {min(numbers)}, median {median:.0f}, max {max(numbers)}, last {numbers[-1]}")
        return shown


def _slope(points: list[tuple[float, float]]) -> float:
    """MiB an hour by least squares over the later half of a life; 0 for too few points."""
    later = points[len(points) // 2 :]
    if len(later) < 3:
        return 0.0
    times, values = zip(*later, strict=True)
    return statistics.linear_regression(times, values).slope * _HOUR
