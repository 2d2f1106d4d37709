"""How fast a stream is backed up and restored by the ``nats`` CLI, its start included, and sequence for sequence right.

Half of each payload is random, so that the archive shrinks as those of records do. What is backed up was just
published.
"""

import asyncio
import random
import shutil
import subprocess
import time
from pathlib import Path

from tests.benchmarks.loads import CONTENDERS, STREAM, create_stream, stored_messages
from tests.tools import nats_cli
from tests.wire import Wire

SIZES = (128, 1024)
"""Payloads, bytes."""
_STEP = 1_000
_SUBJECTS = 100
_SECONDS_MAX = 600

Rates = dict[str, dict[str, list[dict[str, float]]]]


def backup_rates(folder: Path, *, messages: int, repetitions: int) -> Rates:
    """Messages per second of backups and restores, in the shape of ``report.Runs``."""
    runs: Rates = {"nats-server": {}, "silt": {}}
    for _ in range(repetitions):
        for size in SIZES:
            for contender, loads in runs.items():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                with CONTENDERS[contender](folder / "store") as url:
                    create_stream(url)
                    asyncio.run(_fill(url, messages, size))
                    for load, seconds in _there_and_back(url, folder / "backup").items():
                        entry = {"messages": messages, "seconds": seconds, "rate": messages / seconds}
                        loads.setdefault(f"{load} {size} B", []).append(entry)
                    assert stored_messages(url) == messages
    shutil.rmtree(folder, ignore_errors=True)
    return runs


async def _fill(url: str, messages: int, size: int) -> None:
    dice = random.Random(size)
    async with Wire.open(url) as wire:
        for start in range(0, messages, _STEP):
            for number in range(start, start + _STEP - 1):
                wire.publish(f"bench.{number % _SUBJECTS}", _payload(dice, size))
            assert await wire.ask(f"bench.{start % _SUBJECTS}", _payload(dice, size), seconds=60)


def _payload(dice: random.Random, size: int) -> bytes:
    return dice.randbytes(size // 2).ljust(size, b".")


def _there_and_back(url: str, folder: Path) -> dict[str, float]:
    """Seconds of a backup and of the restore of it, in the place of its stream."""
    took = {"backup": _run(url, "backup", STREAM, str(folder), "--no-progress")}
    _run(url, "rm", STREAM, "--force")
    return took | {"restore": _run(url, "restore", str(folder), "--no-progress")}


def _run(url: str, *arguments: str) -> float:
    command = [str(nats_cli()), "--no-context", "-s", url, "--timeout=60s", "stream", *arguments]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return time.monotonic() - started
