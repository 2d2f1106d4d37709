"""Cut the power of the whole of ``silt up`` at random points, and hold what clients saw against what is there then.

Run alone (as root): ``python -m tests.faults.power_cuts --cuts 50 [--seed N]``. Each round starts ``silt up`` on the
disk that the last cut left, reads back all that was ever acknowledged on it, waits until what was there is settled,
publishes on until the point that the round is about has been reached, and cuts the power a random moment later. Every
few cuts begin with an empty folder, for the points at which the tables are made.
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

from tests.faults.disk import Disk, mounted_disk
from tests.faults.publishers import PREFIX, STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_direct_get
from tests.faults.reckoning import History, Stored, everything_wrong
from tests.servers import Child, wait_until
from tests.wire import Wire

POINTS = ("creation", "first batch", "steady", "truncation", "compaction", "vacuum", "checkpoint")
"""What is under way, or has just been done, when the power goes; the first two need an empty folder."""
CHURN = "CHURN"
_SETTINGS = {
    "SILT_SETTLE__TRIGGER_INTERVAL_SECONDS": "0.2",
    "SILT_SETTLE__COMPACT_INTERVAL_SECONDS": "3",
    "SILT_SETTLE__VACUUM_INTERVAL_SECONDS": "4",
    "SILT_SETTLE__CHECKPOINT_COMMITS": "5",
    "SILT_HISTORY__HORIZON_SECONDS": "1",
}
_READY = re.compile(r"ready (nats://\S+) (http://\S+)")
_READY_SECONDS = 300.0
_SETTLED_SECONDS = 400.0
_POINT_SECONDS = 120.0
_STEADY_SECONDS = (0.5, 4.0)
_MOMENT_SECONDS = 0.4
_WORKERS = 8


@dataclass(slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all invariants held."""

    seed: int
    points: Counter[str] = field(default_factory=Counter)
    """Cuts by the point at which they were made."""
    sent: int = 0
    acknowledged: int = 0
    set_aside: int = 0
    """Cuts after which something of ``messages`` was torn and set aside."""
    seconds_to_answer_most: float = 0.0
    seconds_to_settle_most: float = 0.0
    problems: list[str] = field(default_factory=list)


def cut_rounds(folder: Path, *, cuts: int, seed: int, say: bool = False) -> Outcome:
    """Make ``cuts`` cuts; the same seed gives the same points, moments and messages."""
    outcome = Outcome(seed)
    rng = random.Random(seed)
    with mounted_disk(folder, mib=1000) as disk:
        run = _Folder(disk, folder, rng, outcome, number=0)
        for number, point in enumerate(_points(cuts, rng)):
            if point == POINTS[0]:
                run = _Folder(disk, folder, rng, outcome, number=number)
            run.round(number, point)
            if say:
                sys.stdout.write(f"cut {number + 1} ({point}): {outcome}\n")
                sys.stdout.flush()
            if outcome.problems:
                return outcome
        run.round(cuts, "")
    return outcome


def _points(cuts: int, rng: random.Random) -> Iterator[str]:
    """All points again and again, in an order of chance but for the two that begin with an empty folder."""
    while cuts > 0:
        later = list(POINTS[2:])
        rng.shuffle(later)
        for point in (*POINTS[:2], *later)[:cuts]:
            yield point
            cuts -= 1


class _Folder:
    """One data folder over several cuts."""

    def __init__(self, disk: Disk, logs: Path, rng: random.Random, outcome: Outcome, *, number: int) -> None:
        self._disk, self._logs, self._rng, self._outcome = disk, logs, rng, outcome
        self._data = disk.mount_point / f"data-{number}"
        for old in disk.mount_point.glob("data-*"):
            shutil.rmtree(old)
        self._history = History()

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
        self._outcome.points[point or "end"] += 1

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
            await self._look_back(wire, http)
            if point:
                publishers = Publishers(wire, workers=_WORKERS, rng=self._rng, label=f"r{number}-")
                tasks = [asyncio.create_task(publishers.run()), asyncio.create_task(_churn(wire))]
                try:
                    await asyncio.to_thread(self._until, point)
                    self._disk.cut_power()
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

    async def _look_back(self, wire: Wire, http: str) -> None:
        """All that was acknowledged is there, by NATS and by HTTP, and is settled before long."""
        begun = time.monotonic()
        stored = await by_direct_get(wire, STREAM)
        wrong = everything_wrong(self._history, stored)
        wrong += await asyncio.to_thread(_not_by_http, http, stored)
        if stored:
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

    def _until(self, point: str) -> None:
        """Return a random moment after the point was reached, or when it takes too long."""
        watch = _Watch(self._data)
        deadline = time.monotonic() + _POINT_SECONDS
        if point == "steady":
            time.sleep(self._rng.uniform(*_STEADY_SECONDS))
            return
        while point not in watch.reached() and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(self._rng.uniform(0, _MOMENT_SECONDS))

    def _longest(self, name: str, begun: float) -> None:
        setattr(self._outcome, name, round(max(getattr(self._outcome, name), time.monotonic() - begun), 1))


class _Watch:
    """What has happened in a data folder since this was made."""

    def __init__(self, data: Path) -> None:
        self._journal, self._messages = data / "journal" / "_delta_log", data / "messages" / "_delta_log"
        self._data = data / "messages"
        self._known = self._files()
        self._parquet = self._parquet_files()

    def reached(self) -> set[str]:
        """The points that were reached."""
        files = self._files()
        new = files - self._known
        done = {"creation"} if self._messages.is_dir() else set()
        if any(path.parent.parent.name == "messages" and path.name.endswith("1.json") for path in new):
            done.add("first batch")
        if any(path.name.endswith(".checkpoint.parquet") for path in new):
            done.add("checkpoint")
        now = self._parquet_files()
        if self._parquet - now:
            done.add("vacuum")
        self._parquet |= now
        texts = [_text(path) for path in new if path.suffix == ".json"]
        if any('"operation":"TRUNCATE"' in text for text in texts):
            done.add("truncation")
        if any('"operation":"OPTIMIZE"' in text or '"operation":"MERGE"' in text for text in texts):
            done.add("compaction")
        return done

    def _files(self) -> set[Path]:
        return {path for log in (self._journal, self._messages) if log.is_dir() for path in log.iterdir()}

    def _parquet_files(self) -> set[str]:
        return {path for path, _, names in os.walk(self._data) for path in (f"{path}/{name}" for name in names)
                if path.endswith(".parquet") and "_delta_log" not in path}  # fmt: skip


def settled_seq(data: Path, stream: str) -> int:
    """The last settled sequence, by the newest entry of the log that says so."""
    log = data / "messages" / "_delta_log"
    for entry in sorted(log.glob("*.json"), reverse=True) if log.is_dir() else ():
        for line in _text(entry).splitlines()[:3]:
            with suppress(ValueError, KeyError):
                note = json.loads(json.loads(line)["commitInfo"]["userMetadata"])
                mark = note["watermarks"].get(stream, {"seq": 0})
                return int(mark["seq"])
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _not_by_http(http: str, stored: dict[int, Stored]) -> list[str]:
    """HTTP shows as many messages, up to the same last one."""

    def shown() -> bool | None:
        with suppress(OSError), urllib.request.urlopen(f"{http}/v1/streams/{STREAM}", timeout=20) as reply:
            state = json.load(reply)["state"]
            return (state["messages"], state["last_seq"]) == (len(stored), max(stored, default=0)) or None
        return None

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
