"""What a benchmark result must carry to mean anything: machine, file system, commit, versions."""

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.servers import ROOT, nats_server_binary
from tests.tools import NATSCLI_VERSION

_DISTRIBUTIONS = ("deltalake", "delta-spark", "nats-py", "obstore", "pyarrow", "pyspark", "uvloop")


def machine(folder: Path) -> dict[str, Any]:
    """Processor, cores, memory, kernel, and the file system of ``folder`` with the cost of one fsync on it."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    return {
        "cpu": cpu[1] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "filesystem": _output(["stat", "-f", "-c", "%T", str(folder)]),
        "fsync_4k_ms": round(_fsync_milliseconds(folder), 3),
        "load_average_before": os.getloadavg()[0],
    }


def versions() -> dict[str, Any]:
    """Commit, whether the tree was clean, and the versions of everything that takes part."""
    return {
        "commit": _output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "uncommitted_changes": bool(_output(["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"])),
        "python": platform.python_version(),
        "nats_server": _output([str(nats_server_binary()), "--version"]),
        "nats_cli": NATSCLI_VERSION,
        "java": _java_version(),
        **{name: version(name) for name in _DISTRIBUTIONS},
    }


def _fsync_milliseconds(folder: Path) -> float:
    """Median time of appending 4 KiB to a file and fsyncing it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "fsync-probe"
    times = []
    with path.open("wb", buffering=0) as out:
        for _ in range(50):
            start = time.perf_counter()
            out.write(b"x" * 4096)
            os.fsync(out.fileno())
            times.append(time.perf_counter() - start)
    path.unlink()
    return statistics.median(times) * 1000


def _java_version() -> str:
    if shutil.which("java") is None:
        return "none"
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False)
    return done.stderr.splitlines()[0] if done.stderr else "unknown"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(f"{machine(Path('build'))}\n{versions()}\n")
