"""``silt up`` under every kind of client for a long time, with kills and a power cut, all reckoned in the end.

Run alone: ``python -m tests.faults.soak --minutes 20 [--seed N]``, or ``make soak``. Processes are killed by SIGKILL at
random; where the machine has root and loop devices, the data stands on one whose power is cut half-way. Spark's own
maintenance (deletes, compaction, vacuum, log cleanup under a short horizon) races all the while with commits and reads
of the past. In the end what was acknowledged is there unaltered, no sequence was used twice, every consumer got
everything and nothing again after its double ack was answered, the past was what it was or refused as beyond the
horizon, and each version of either table's log was written once. Memory and file counts are reported.
"""

import argparse
import asyncio
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.faults.disk import Disk, NoDisk, mounted_disk
from tests.faults.installation import KILLED, Installation, Measures
from tests.faults.readings import Refused, by_delta, by_direct_get
from tests.faults.reckoning import Stored, digest, everything_wrong, unequal
from tests.faults.soak_load import BUCKET, FILES, STREAM, TROUBLE, Load, connected, past, prepare, reading
from tests.faults.workers import consumer_info
from tests.faults.written_once import WrittenOnce

_WEIGHTS = (4, 2, 2, 2)
"""How often each of the processes is killed."""
KILLS_APART_SECONDS = (4.0, 16.0)
_SAMPLE_SECONDS = 3.0
_DISK_MIB = 4096
_FINISH_SECONDS = 180.0
_ENV = {
    "SILT_SETTLE__COMPACT_INTERVAL_SECONDS": "15",
    "SILT_SETTLE__VACUUM_INTERVAL_SECONDS": "20",
    "SILT_HISTORY__HORIZON_SECONDS": "60",
}
"""Maintenance comes often, and deletes what is hardly old."""


class _Harm(NamedTuple):
    """What is not killed, and the bounds of the seconds between two kills."""

    spared: tuple[str, ...]
    apart: tuple[float, float]


@dataclass(slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all invariants held."""

    seed: int
    minutes: float
    kills: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    measures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kills = ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        head = f"seed {self.seed}, {self.minutes:g} min: {self.stored} messages stored, {self.counts}; killed: {kills}"
        return "\n".join([head, *self.measures, *(f"PROBLEM {one}" for one in self.problems[:50])])


async def soak(
    folder: Path,
    *,
    minutes: float,
    seed: int,
    pause: float = 0.02,
    spared: Sequence[str] = (),
    apart: tuple[float, float] = KILLS_APART_SECONDS,
) -> Outcome:
    """Run for so many minutes in ``folder``; the same seed gives the same kills and messages.

    ``spared`` are processes that are not killed, and "power". ``apart`` bounds the seconds between two kills.
    """
    outcome = Outcome(seed, minutes)
    with ExitStack() as held:
        disk = None
        if "power" not in spared:
            with suppress(NoDisk):
                disk = held.enter_context(mounted_disk(folder, mib=_DISK_MIB))
        installation = Installation(folder, (disk.mount_point if disk else folder) / "data", _ENV)
        watcher = held.enter_context(WrittenOnce(installation.data))
        await _run(installation, disk, outcome, pause, _Harm(tuple(spared), apart), watcher)
        outcome.problems += watcher.problems
        outcome.counts["versions"] = watcher.versions
    return outcome


async def _run(
    installation: Installation,
    disk: Disk | None,
    outcome: Outcome,
    pause: float,
    harm: _Harm,
    watcher: WrittenOnce,
) -> None:
    rng, measures = random.Random(outcome.seed), Measures()
    try:
        await asyncio.to_thread(installation.start)
        await prepare(installation.url)
        load = Load(installation.url, installation.http_url, seed=rng.randrange(1 << 32), pause=pause)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(load.run())
            sampling = group.create_task(_measure(installation, measures))
            try:
                await _harm(installation, disk, outcome, harm=harm, rng=rng, watcher=watcher)
                load.publishing.set()
                stored = await _finish(load, outcome)
            finally:
                load.publishing.set()
                load.consuming.set()
            await running
            sampling.cancel()
        outcome.problems += load.problems + _reckon(load, stored) + await _reckon_buckets(load)
        outcome.problems += await _reckon_past(load, stored)
        status = await asyncio.to_thread(installation.stop)
        outcome.problems += [f"silt up ended with status {status}"] if status != 0 else []
        outcome.problems += unequal(stored, by_delta(installation.data, STREAM), names=("Direct Get", "delta-rs"))
    finally:
        installation.kill_all()
    outcome.stored, outcome.counts = len(stored), load.counts
    outcome.measures = measures.lines()


async def _harm(
    installation: Installation,
    disk: Disk | None,
    outcome: Outcome,
    *,
    harm: _Harm,
    rng: random.Random,
    watcher: WrittenOnce,
) -> None:
    """Kill one process after another until the time is over; cut the power once, half-way."""
    began, seconds = time.monotonic(), 60 * outcome.minutes
    cut = disk is None
    weights = {name: weight for name, weight in zip(KILLED, _WEIGHTS, strict=True) if name not in harm.spared}
    while (passed := time.monotonic() - began) < seconds:
        await asyncio.sleep(rng.uniform(*harm.apart))
        if not cut and disk is not None and passed > seconds / 2:
            cut = True
            await asyncio.to_thread(_cut_power, installation, disk, watcher)
            outcome.kills["power"] += 1
            continue
        if not weights:
            continue
        name = rng.choices(list(weights), list(weights.values()))[0]
        outcome.kills[name] += await asyncio.to_thread(installation.kill, name)


def _cut_power(installation: Installation, disk: Disk, watcher: WrittenOnce) -> None:
    disk.cut_power()
    time.sleep(0.2)
    installation.kill_all()
    with watcher.away():
        disk.unmount(seconds=60)
        disk.mount()
    installation.start()


async def _measure(installation: Installation, measures: Measures) -> None:
    while True:
        await asyncio.to_thread(measures.sample, installation)
        await asyncio.sleep(_SAMPLE_SECONDS)


async def _finish(load: Load, outcome: Outcome) -> dict[int, Stored]:
    """What is stored, when the consumers have had the time to take it all."""
    deadline = time.monotonic() + _FINISH_SECONDS
    async with asyncio.timeout(_FINISH_SECONDS):
        await load.published.wait()
    while True:
        with suppress(*TROUBLE):
            async with reading(load.url) as wire:
                stored = await by_direct_get(wire, STREAM)
                break
        if time.monotonic() > deadline:
            raise TimeoutError("the stream can't be read in the end")
        await asyncio.sleep(0.5)
    last = max(stored, default=0)
    async with reading(load.url) as wire:
        while time.monotonic() < deadline:
            infos = [await consumer_info(wire, STREAM, name) for name in load.progress]
            left = [info["num_pending"] + info["num_ack_pending"] for info in infos]
            if not any(left) and len(load.ordered) == last and not _unwatched(load):
                break
            await asyncio.sleep(0.5)
        else:
            outcome.problems.append(f"not taken in {_FINISH_SECONDS:.0f} s: {left}, in order {len(load.ordered)}")
        for name, one in load.progress.items():
            floor = (await consumer_info(wire, STREAM, name))["ack_floor"]["stream_seq"]
            if floor < one.floor_at_least():
                outcome.problems.append(f"{name}: the ack floor is {floor}, its acks make it {one.floor_at_least()}")
    return stored


def _unwatched(load: Load) -> list[str]:
    """Keys whose last put was answered and not seen by the watch."""
    newest = {key: tried[-1] for key, tried in load.values.items()}
    return [key for key, (revision, value) in newest.items() if revision and load.watched.get(key) != value]


def _reckon(load: Load, stored: dict[int, Stored]) -> list[str]:
    last = max(stored, default=0)
    problems = everything_wrong(load.history, stored)
    for name, one in load.progress.items():
        missed = [seq for seq in range(1, last + 1) if not one.handled[seq]]
        if missed:
            problems.append(f"{name} was never given {len(missed)} messages, the first is {missed[0]}")
        if one.again:
            problems.append(f"{name} was given {len(one.again)} messages again after their acks: {one.again[:5]}")
        if last and not one.finished:
            problems.append(f"{name} finished nothing")
    if load.ordered != list(range(1, last + 1)):
        problems.append(f"ordered: {len(load.ordered)} of {last}")
    return problems + [f"{key}: the watch ended before {load.values[key][-1]}" for key in _unwatched(load)]


async def _reckon_buckets(load: Load) -> list[str]:
    """Keys hold the last value that was answered or one that was tried later; objects are what was put."""
    problems = []
    async with connected(load.url) as client:
        jetstream = client.jetstream(timeout=20)
        bucket, store = await jetstream.key_value(BUCKET), await jetstream.object_store(FILES)
        for key, tried in load.values.items():
            answered = max((place for place, (revision, _) in enumerate(tried) if revision), default=-1)
            if answered < 0:
                continue
            value = (await bucket.get(key)).value
            if value not in [one for _, one in tried[answered:]]:
                problems.append(f"{key} is {value!r}, its last answered put was {tried[answered]}")
            revisions = [revision for revision, _ in tried if revision]
            if revisions != sorted(set(revisions)):
                problems.append(f"{key}: its revisions do not rise: {revisions}")
        for name, put in load.files.items():
            if put is not None and digest((await store.get(name)).data or b"") != put:
                problems.append(f"{name} is not what was put last")
    return problems


async def _reckon_past(load: Load, stored: dict[int, Stored]) -> list[str]:
    """Every past that was read while it ran, and some that are read now, are what the stream held then."""
    points = sorted({len(stored) * part // 8 for part in range(1, 9)} - {0})
    read = list(load.past)
    for point in points:
        try:
            read.append((point, await past(load.url, point)))
        except Refused:
            load.counts["refused"] += 1
    problems = []
    for point, shown in read:
        then = {stored[seq].subject: seq for seq in sorted(stored) if seq <= point}
        if shown != then:
            differ = {name: (then.get(name), shown.get(name)) for name in then.keys() | shown.keys()}
            wrong = {name: pair for name, pair in differ.items() if pair[0] != pair[1]}
            problems.append(f"the past at {point} (true, read): {dict(sorted(wrong.items())[:3])} of {len(wrong)}")
    return problems


def main() -> int:
    """Run from the command line; status 1 when an invariant did not hold."""
    parser = argparse.ArgumentParser(description="Run silt up under all kinds of clients, kills and a power cut.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two messages of a publisher")
    parser.add_argument("--spare", nargs="*", default=[], choices=(*KILLED, "power"), help="what is not killed")
    parser.add_argument("--apart", nargs=2, type=float, default=KILLS_APART_SECONDS, help="seconds between two kills")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="silt-soak-"))
    least, most = options.apart
    outcome = asyncio.run(
        soak(
            folder,
            minutes=options.minutes,
            seed=options.seed,
            pause=options.pause,
            spared=options.spare,
            apart=(least, most),
        )
    )
    sys.stdout.write(f"{outcome}\n")
    if outcome.problems:
        sys.stdout.write(f"everything is kept in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
