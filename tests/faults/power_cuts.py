"""Cut the power of the whole of ``silt up`` at random points, and hold what clients saw against what is there then.

Run alone (as root): ``python -m tests.faults.power_cuts --cuts 50 [--seed N]``. Each round starts ``silt up`` on the
disk that the last cut left, reads back all that was ever acknowledged on it, waits until what was there is settled,
publishes on until the point that the round is about has been reached, and cuts the power a random moment later. Every
few cuts begin with an empty folder, for the points at which the tables are made; the last cut of a folder is looked at
as well. A point that is not reached in time is no cut there: it is tried again, and once only.
"""

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cut_points import CREATION, FIRST_BATCH, POINTS, STEADY, Watch, settled_seq
from tests.faults.disk import Disk, mounted_disk
from tests.faults.publishers import PREFIX, STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_direct_get
from tests.faults.reckoning import History, Stored, everything_wrong
from tests.servers import Child, wait_until
from tests.wire import Wire

CHURN = "CHURN"
_SETTINGS = {
    "SILT_SETTLE__TRIGGER_INTERVAL_SECONDS": "0.2",
    "SILT_SETTLE__COMPACT_INTERVAL_SECONDS": "3",
    "SILT_SETTLE__VACUUM_INTERVAL_SECONDS": "4",
    "SILT_SETTLE__NICE": "0",
    "SILT_HISTORY__HORIZON_SECONDS": "1",
}
_READY = re.compile(r"ready (nats://\S+) (http://\S+)")
_READY_SECONDS = 300.0
_SETTLED_SECONDS = 400.0
_POINT_SECONDS = 600.0
"""A free machine needs a tenth of it; one that others keep busy takes minutes to start Spark."""
_STEADY_SECONDS = (0.5, 4.0)
_MOMENT_SECONDS = 0.4
_LOOK_SECONDS = 0.01
_WORKERS = 8
_PAUSE_SECONDS = 0.2
"""Between two messages of a publisher: cuts are what counts, and every message is read back after each of them."""


@dataclass(slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all invariants held."""

    seed: int
    points: Counter[str] = field(default_factory=Counter)
    """Cuts by the point at which they were made, each reached before."""
    missed: Counter[str] = field(default_factory=Counter)
    """Points that were waited for in vain."""
    looks: int = 0
    """Starts that only looked at what a folder's last cut had left."""
    seconds: float = 0.0
    sent: int = 0
    acknowledged: int = 0
    set_aside: int = 0
    """Cuts after which something of ``messages`` was torn and set aside."""
    seconds_to_answer_most: float = 0.0
    seconds_to_settle_most: float = 0.0
    problems: list[str] = field(default_factory=list)


def cut_rounds(folder: Path, *, cuts: int, seed: int, say: bool = False) -> Outcome:
    """Make ``cuts`` cuts; the same seed gives the same points, moments and messages."""
    outcome, begun = Outcome(seed), time.monotonic()
    with mounted_disk(folder, mib=1000) as disk:
        course = _Course(disk, folder, random.Random(seed), outcome)
        for point in _points(cuts, course.rng):
            if not course.cut(point) and not course.cut(point):
                outcome.problems.append(f"{point} was not reached, twice")
            outcome.seconds = round(time.monotonic() - begun, 1)
            if say:
                sys.stdout.write(f"{outcome}\n")
                sys.stdout.flush()
            if outcome.problems:
                return outcome
        course.look()
    return outcome


def _points(cuts: int, rng: random.Random) -> Iterator[str]:
    """All points again and again, in an order of chance but for the two that begin with an empty folder."""
    while cuts > 0:
        later = list(POINTS[2:])
        rng.shuffle(later)
        for point in (*POINTS[:2], *later)[:cuts]:
            yield point
            cuts -= 1


class _Course:
    """The folders and rounds of one run."""

    def __init__(self, disk: Disk, logs: Path, rng: random.Random, outcome: Outcome) -> None:
        self.rng = rng
        self._disk, self._logs, self._outcome = disk, logs, outcome
        self._rounds = 0
        self._folder: _Folder | None = None

    def cut(self, point: str) -> bool:
        """Cut at the point, in an empty folder where it needs one; returns whether the point was reached."""
        if self._folder is None or self._folder.is_past(point):
            self.look()
            self._folder = _Folder(self._disk, self._logs, self.rng, self._outcome, number=self._rounds)
        before = self._outcome.points[point]
        self._folder.round(self._rounds, point)
        self._rounds += 1
        return self._outcome.points[point] > before or bool(self._outcome.problems)

    def look(self) -> None:
        """Look at what the folder's last cut left, and cut no more in it."""
        if self._folder is not None:
            self._folder.round(self._rounds, "")
            self._rounds += 1
            self._outcome.looks += 1


class _Folder:
    """One data folder over several cuts."""

    def __init__(self, disk: Disk, logs: Path, rng: random.Random, outcome: Outcome, *, number: int) -> None:
        self._disk, self._logs, self._rng, self._outcome = disk, logs, rng, outcome
        self._data = disk.mount_point / f"data-{number}"
        for old in disk.mount_point.glob("data-*"):
            shutil.rmtree(old)
        self._history = History()

    def is_past(self, point: str) -> bool:
        """Whether the point can't be reached any more."""
        if point == CREATION:
            return bool(self._history.sent)
        return point == FIRST_BATCH and settled_seq(self._data, STREAM) > 0

    def round(self, number: int, point: str) -> None:
        """Start, look, go on until ``point``, cut; without a point only look."""
        log = self._logs / f"up-{number}.log"
        command = [str(Path(sys.executable).with_name("silt")), "up", "--data", str(self._data)]
        child = Child([*command, "--port", "0", "--http-port", "0"], log, _SETTINGS)
        begun = time.monotonic()
        child.start()
        try:
            url, http = child.wait_log(_READY, seconds=_READY_SECONDS).groups()
            self._longest("seconds_to_answer_most", begun)
            asyncio.run(self._live(url, http, point, number))
        except (Exception, ExceptionGroup) as error:  # noqa: BLE001  # whatever it is, it is what the run shows
            self._outcome.problems.append(f"round {number} ({point}): {error!r}")
        self._cut(child)

    def _cut(self, child: Child) -> None:
        """No more reaches the disk; then the machine goes off, and on again."""
        self._disk.cut_power()
        for pid in _session(child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.kill()
        self._disk.unmount(seconds=20)
        self._disk.mount()

    async def _live(self, url: str, http: str, point: str, number: int) -> None:
        async with asyncio.timeout(1200), Wire.open(url, inbox=f"_INBOX.cut{number}") as wire:
            await _create_streams(wire)
            await self._look_back(wire, http, settles=point != FIRST_BATCH)
            if point:
                label = f"r{number}-"
                publishers = Publishers(
                    wire, workers=_WORKERS, rng=self._rng, label=label, pause_seconds=_PAUSE_SECONDS
                )
                tasks = [asyncio.create_task(publishers.run()), asyncio.create_task(_churn(wire))]
                try:
                    reached = await asyncio.to_thread(self._until, point)
                    self._disk.cut_power()
                    (self._outcome.points if reached else self._outcome.missed)[point] += 1
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                self._take_over(publishers.history)

    def _take_over(self, history: History) -> None:
        self._history.sent |= history.sent
        self._history.acked += history.acked
        self._outcome.sent += len(history.sent)
        self._outcome.acknowledged += len(history.acked)
        self._outcome.problems += unexpected_refusals(history.refused)

    async def _look_back(self, wire: Wire, http: str, *, settles: bool) -> None:
        """All that was acknowledged is there, by NATS and by HTTP, and is settled before long where it ``settles``."""
        begun = time.monotonic()
        stored = await by_direct_get(wire, STREAM)
        wrong = everything_wrong(self._history, stored)
        wrong += await asyncio.to_thread(_not_by_http, http, stored)
        if stored and settles:
            await asyncio.to_thread(
                wait_until,
                lambda: settled_seq(self._data, STREAM) >= max(stored) or None,
                what=f"{STREAM} is settled up to {max(stored)}",
                seconds=_SETTLED_SECONDS,
            )
            self._longest("seconds_to_settle_most", begun)
            again = await by_direct_get(wire, STREAM)
            wrong += [] if again == stored else ["Direct Get answers otherwise once all is settled"]
        self._outcome.problems += wrong[:10]
        aside = sum("set aside" in one.read_text() for one in (self._data / "logs").glob("settle.log"))
        self._outcome.set_aside = max(self._outcome.set_aside, aside)

    def _until(self, point: str) -> bool:
        """Return a random moment after the point was reached, or when it takes too long; says whether it was."""
        if point == STEADY:
            time.sleep(self._rng.uniform(*_STEADY_SECONDS))
            return True
        watch = Watch(self._data, STREAM)
        deadline = time.monotonic() + _POINT_SECONDS
        while not (reached := point in watch.reached()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        time.sleep(self._rng.uniform(0, _MOMENT_SECONDS))
        return reached

    def _longest(self, name: str, begun: float) -> None:
        setattr(self._outcome, name, round(max(getattr(self._outcome, name), time.monotonic() - begun), 1))


def _not_by_http(http: str, stored: dict[int, Stored]) -> list[str]:
    """HTTP shows as many messages, up to the same last one."""

    def shown() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{http}/v1/streams/{STREAM}", timeout=20) as reply:
            state = json.load(reply)["state"]
            return (state["messages"], state["last_seq"]) == (len(stored), max(stored, default=0))
        return False

    wait_until(shown, what=f"HTTP shows {len(stored)} messages", seconds=60)
    return []


async def _create_streams(wire: Wire) -> None:
    """Make the stream that is reckoned, and one whose messages supersede each other."""
    configs = [
        {"name": STREAM, "subjects": [f"{PREFIX}.>"], "allow_direct": True},
        {"name": CHURN, "subjects": ["churn.>"], "max_msgs_per_subject": 1},
    ]
    for config in configs:
        for _ in range(200):
            reply = await wire.ask(f"$JS.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode(), seconds=5)
            if reply is not None and not reply.status and b'"error"' not in reply.payload:
                break
            await asyncio.sleep(0.1)
        else:
            raise TimeoutError(f"STREAM.CREATE is not answered: {reply}")


async def _churn(wire: Wire) -> None:
    for number in range(1_000_000):
        await wire.ask(f"churn.{number % 7}", b"%d" % number, seconds=1)
        await asyncio.sleep(_PAUSE_SECONDS)


def _session(pid: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, waiting = [pid], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def main() -> int:
    """Run from the command line; status 1 when an invariant did not hold."""
    parser = argparse.ArgumentParser(description="Cut the power of silt up at random points under load.")
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="silt-power-"))
    outcome = cut_rounds(folder, cuts=options.cuts, seed=options.seed, say=True)
    sys.stdout.write(f"{outcome}\n")
    if not outcome.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
