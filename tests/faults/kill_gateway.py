"""Kill the gateway with SIGKILL at random points under load, and hold what clients saw against what is stored.

Run alone: ``python -m tests.faults.kill_gateway --rounds 50 [--seed N]``. Each round starts the gateway on the same
folder, lets publishers go on for a random time and kills it, sometimes while it still starts. After each restart all
that was acknowledged since the last one is read back; in the end everything is, by Direct Get and from the Delta
tables by delta-rs.
"""

import argparse
import asyncio
import contextlib
import json
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.publishers import PREFIX, STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_delta, by_direct_get, journal_duplicates
from tests.faults.reckoning import History, Stored, everything_wrong, lost_or_altered, stored_twice, unequal, used_twice
from tests.servers import Gateway, gateway, nats_server
from tests.wire import Wire

WORKERS = 64
_ALIVE_SECONDS_MAX = 1.2
_STARTING_SECONDS_MAX = 0.6
# How often a round kills a gateway that has not answered yet.
_WHILE_STARTING = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run; ``problems`` is empty when all invariants held."""

    seed: int
    rounds: int
    killed_while_starting: int
    sent: int
    acknowledged: int
    stored: int
    seconds_to_answer_most: float
    problems: list[str]


async def kill_rounds(folder: Path, *, rounds: int, seed: int, say: bool = False) -> Outcome:
    """Run ``rounds`` rounds in ``folder``; the same seed gives the same kill times and messages."""
    rng = random.Random(seed)
    with (
        nats_server(folder / "hub", leaf=True) as hub,
        gateway(hub, folder / "data") as running,
    ):
        async with Wire.open(hub.url, inbox="_INBOX.kill") as wire:
            await create_stream(wire)
            async with _publishing(Publishers(wire, workers=WORKERS, rng=rng)) as publishers:
                run = _Run(running, wire, publishers.history, rng)
                for number in range(1, rounds + 1):
                    await run.round()
                    if say:
                        sys.stdout.write(f"round {number}: {len(run.history.acked)} acknowledged\n")
                        sys.stdout.flush()
            stored = await by_direct_get(wire, STREAM)
    run.problems += _final(folder / "data", run.history, stored)
    return Outcome(
        seed=seed,
        rounds=rounds,
        killed_while_starting=run.killed_while_starting,
        sent=len(run.history.sent),
        acknowledged=len(run.history.acked),
        stored=len(stored),
        seconds_to_answer_most=round(max(run.seconds_to_answer), 3),
        problems=run.problems,
    )


class _Run:
    """The gateway, the clients' history, and what was found wrong so far."""

    def __init__(self, running: Gateway, wire: Wire, history: History, rng: random.Random) -> None:
        self.history = history
        self.problems: list[str] = []
        self.killed_while_starting = 0
        self.seconds_to_answer: list[float] = []
        self._running = running
        self._wire = wire
        self._rng = rng
        self._checked = 0

    async def round(self) -> None:
        """Kill, perhaps kill once more while it starts, start, and read back what was acknowledged."""
        await asyncio.sleep(self._rng.uniform(0.02, _ALIVE_SECONDS_MAX))
        self._running.child.kill()
        if self._rng.random() < _WHILE_STARTING:
            self._running.child.start()
            await asyncio.sleep(self._rng.uniform(0, _STARTING_SECONDS_MAX))
            self._running.child.kill()
            self.killed_while_starting += 1
        started = time.monotonic()
        await asyncio.to_thread(self._running.start)
        self.seconds_to_answer.append(time.monotonic() - started)
        await self._check()

    async def _check(self) -> None:
        fresh = self.history.acked[self._checked :]
        self._checked = len(self.history.acked)
        if fresh:
            seqs = [seq for _, seq in fresh]
            stored = await by_direct_get(self._wire, STREAM, first=min(seqs), last=max(seqs))
            part = History(sent=self.history.sent, acked=fresh)
            self.problems += [*lost_or_altered(part, stored), *used_twice(self.history), *stored_twice(stored)]


@contextlib.asynccontextmanager
async def _publishing(publishers: Publishers) -> AsyncIterator[Publishers]:
    """Publishers at work; at the end each gets its last message acknowledged."""
    async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
        group.create_task(publishers.run())
        try:
            yield publishers
        finally:
            publishers.stop()


async def create_stream(wire: Wire) -> None:
    """Create the stream that the publishers publish to."""
    config = {"name": STREAM, "subjects": [f"{PREFIX}.>"], "allow_direct": True}
    reply = await wire.ask(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
    assert reply is not None, "STREAM.CREATE is not answered"
    assert b'"error"' not in reply.payload, reply.payload


def _final(data: Path, history: History, stored: dict[int, Stored]) -> list[str]:
    in_delta = by_delta(data, STREAM)
    twice = journal_duplicates(data, STREAM)
    return [
        *everything_wrong(history, stored),
        *unequal(stored, in_delta, names=("Direct Get", "Delta")),
        *([f"{len(twice)} sequences are in the journal twice, the first is {twice[0]}"] if twice else []),
        *unexpected_refusals(history.refused),
    ]


def main() -> int:
    """Run from the command line; status 1 when an invariant did not hold."""
    parser = argparse.ArgumentParser(description="Kill the gateway at random points under load.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--folder", type=Path, help="kept when given")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="silt-kill-"))
    outcome = asyncio.run(kill_rounds(folder, rounds=options.rounds, seed=options.seed, say=True))
    sys.stdout.write(f"{outcome}\n")
    if options.folder is None and not outcome.problems:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
