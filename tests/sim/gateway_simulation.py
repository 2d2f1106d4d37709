"""The whole gateway in one deterministic simulation: ``python -m tests.sim.gateway_simulation --seed N``.

Real are the core, the committer, deliveries, reads, copies, upkeep, the journal and its files. Simulated are time,
threads, the hub with its clients, the settle job, and what a power cut leaves of files. One seed is one history of
several lives of the gateway, each ended by a power cut, a kill, a failing disk or an orderly stop.
"""

import argparse
import asyncio
import hashlib
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from api.gateway import gateway_upkeep
from api.gateway.gateway import Gateway
from api.gateway.gateway_assembly import assemble
from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_stores import Stores, claim_stores
from conf.data_location import DataLocation
from conf.settings import ReadsSettings, Settings
from delta_store.values.journal_errors import JournalError
from tests.sim.sim_book import Book, Broken
from tests.sim.sim_clients import Clients
from tests.sim.sim_disk import DiskOs, PowerCut, SimDisk, installed
from tests.sim.sim_hub import SimHub
from tests.sim.sim_settler import SimSettler
from tests.sim.virtual_loop import VirtualClock, VirtualLoop

MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Where a disk is simulated: in memory, if the machine has a folder for that."""
_PATIENCE_SECONDS = 60.0
_ENDS = ("power", "power", "power", "kill", "kill", "stop", "eio", "full")


Begun = tuple[Gateway, list[asyncio.Task[None]]]


@dataclass(frozen=True)
class Plant:
    """A fault put in on purpose; each hook is called where its name says."""

    patches: Callable[[ExitStack], None] = lambda _: None
    """Replaces what is wrong for the length of the simulation."""
    opened: Callable[[Stores], Stores] = lambda stores: stores
    """Changes the stores that a gateway was opened with."""


@dataclass
class Outcome:
    """What became of a seed."""

    seed: int
    broken: str = ""
    trace: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def digest(self) -> str:
        """Names the trace."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


class Simulation:
    """One seed."""

    def __init__(self, seed: int, root: Path, plant: Plant) -> None:
        self.outcome = Outcome(seed)
        self._dice = random.Random(seed)
        self._plant = plant
        self._root = root
        self._options = GatewayOptions("", "", DataLocation(str(root)), "", api_over_leaf=True)
        self._loop = VirtualLoop(self._dice)
        self.clock = VirtualClock(self._loop)
        self.disk = SimDisk(root, self._dice)
        self._hub = SimHub(self._loop, self._dice, self._note)
        self._book = Book()
        self._settings = Settings(reads=ReadsSettings(cache_bytes_max=self._dice.choice((0, 1_000, 1 << 20))))
        self._ids = 0
        self._over = asyncio.Event()
        self._failure: BaseException | None = None

    def run(self) -> Outcome:
        """Live all lives; what is broken stands in the outcome."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._all_lives())
        except Broken as broken:
            self.outcome.broken = str(broken)
        except Exception as error:  # noqa: BLE001  # whatever it is, the seed has found it
            self.outcome.broken = f"{type(error).__name__}: {error}"
            self._note(traceback.format_exc())
        finally:
            self._hub.detach()
            for task in (left := asyncio.all_tasks(self._loop)):
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            asyncio.set_event_loop(None)
            self._loop.close()
        self.outcome.counts.update(self._book.counts)
        return self.outcome

    def _note(self, what: str) -> None:
        self.outcome.trace.append(f"{self._loop.seconds:.6f} {what}")

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:022d}"

    async def _all_lives(self) -> None:
        clients = Clients(self._hub, self._book, self._dice)
        works = [clients.set_up(), clients.pull("PULL"), clients.pull("WORK"), clients.read_past()]
        works += [clients.publish("S"), clients.publish("T"), clients.publish("W")]
        running = [self._start(work) for work in works]
        for _ in range(self._dice.randrange(1, 4)):
            await self._life(self._dice.choice(_ENDS))
        for one in running[3:]:
            one.cancel()
        await self._last_life(clients)
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Something came to its end: a gateway by its disk, or what must not."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failure = self._failure or error
            self._over.set()

    # --- lives ---

    async def _life(self, end: str) -> None:
        """A gateway from its start to its end."""
        disk, dice = self.disk, self._dice
        self._over.clear()
        self._note(f"life, to be ended by {end}")
        disk.power = end == "power"
        if end in ("power", "kill"):
            disk.stop_at = disk.steps + dice.choice((dice.randrange(1, 60), dice.randrange(1, 700)))
        elif end == "eio":
            disk.fail_at = disk.steps + dice.randrange(1, 500)
        begun = self._begin()
        if begun is not None:
            seconds = dice.uniform(0.4, 1.3)
            if end == "full":
                self._loop.call_later(seconds / 3, setattr, disk, "full", True)
                self._loop.call_later(seconds * 2 / 3, self._space_again)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._over.wait()
            if end == "stop" and self._failure is None:
                await self._stop(begun[0])
        await self._end(begun)

    def _space_again(self) -> None:
        self.disk.full, self.disk.spare = False, 0

    def _begin(self) -> Begun | None:
        """Open the stores and run; None when the disk ended it before it began."""
        try:
            stores = self._plant.opened(claim_stores(self._options, self._settings, clock=self.clock))
        except (PowerCut, JournalError, OSError) as error:
            self._failure = error
            return None
        interest = self._hub.greet()
        parts = assemble(
            stores,
            self._settings,
            self._hub,
            threads=None,  # type: ignore[arg-type]  # the loop has no threads
            clock=self.clock,
            new_id=self._new_id,
        )
        gateway = parts.gateway
        interest.on_change = gateway.interest
        self._hub.attach(lambda run: self._receive(gateway.receive, run))
        gateway.reachable(False)
        gateway.restore()
        gateway.reachable(True)
        gateway.call_back()
        settler = SimSettler(self._root, self._dice, self._note)
        return gateway, [self._start(parts.run()), self._start(settler.run(self.clock.now_ns))]

    def _receive(self, receive: Callable[[Any], None], run: Any) -> None:
        try:
            receive(run)
        except PowerCut as cut:
            self._failure = self._failure or cut
            self._over.set()

    async def _stop(self, gateway: Gateway) -> None:
        """As the process does it: nothing more is taken in, what was is answered."""
        gateway.stop_copying()
        self._hub.mute()
        try:
            await gateway.wind_up(5.0)
        except TimeoutError as error:
            raise Broken("it can't wind up") from error

    async def _end(self, begun: Begun | None) -> None:
        """The process is gone: nothing of it is heard any more, and the disk is as it left it."""
        self._hub.detach()
        self.disk.end()
        self._loop.process += 1
        tasks = begun[1] if begun else []
        for task in tasks:
            task.remove_done_callback(self._ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        failure, self._failure = self._failure, None
        self._note(f"ended at step {self.disk.steps}: {type(failure).__name__}")
        expected = self.disk.fail_at >= 0 and self.disk.steps >= self.disk.fail_at
        for error in _leaves(failure):
            if not isinstance(error, PowerCut) and not (expected and isinstance(error, JournalError | OSError)):
                raise Broken(f"{type(error).__name__}: {error}") from error
        self.disk.start_again()

    async def _last_life(self, clients: Clients) -> None:
        """Nothing fails any more: all that was promised is looked at."""
        self._over.clear()
        begun = self._begin()
        assert begun is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await clients.ready.wait()
        await asyncio.sleep(1.0)
        todo = [partial(clients.read_all, stream) for stream in ("S", "M")]
        todo += [partial(clients.read_again, reading) for reading in sorted(self._book.past)]  # type: ignore[arg-type]
        for work in todo:
            if self._failure is not None:
                break
            for _ in range(5):
                if await work():
                    break
                await asyncio.sleep(0.2)
            else:
                raise Broken("a reading is not answered")
        for book in (self._book.consumers["PULL"], self._book.consumers["PUSH"]):
            until = self._loop.seconds + _PATIENCE_SECONDS
            while (missing := self._book.missing(book)) and self._failure is None:
                if self._loop.seconds > until:
                    raise Broken(f"{book.name}: {min(missing)} is never delivered")
                await asyncio.sleep(0.5)
        await self._end(begun)


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [] if error is None else [error]


def simulate(seed: int, plant: Plant = Plant()) -> Outcome:
    """The outcome of one seed."""
    root = Path(tempfile.mkdtemp(prefix="silt-sim-", dir=MEMORY))
    try:
        with ExitStack() as stack:
            simulation = Simulation(seed, root, plant)
            stack.enter_context(installed(DiskOs(simulation.disk)))
            stack.enter_context(mock.patch.object(gateway_upkeep, "SystemClock", return_value=simulation.clock))
            stack.enter_context(mock.patch.object(gateway_upkeep, "SETTLED_POLL_SECONDS", 0.15))
            plant.patches(stack)
            return simulation.run()
    finally:
        shutil.rmtree(root)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--trace", action="store_true", help="print what happened")
    chosen = parser.parse_args()
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.seeds):
        outcome = simulate(seed)
        if chosen.trace:
            sys.stdout.write("\n".join(outcome.trace) + "\n")
        sys.stdout.write(f"seed {seed}: {outcome.broken or 'holds'} ({outcome.digest}, {dict(outcome.counts)})\n")
        failed += bool(outcome.broken)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
