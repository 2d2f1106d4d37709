"""Pairs of servers, and the scenarios that are played on them, several at a time: most of a scenario is waiting.

A lane is a nats-server and a Silt that play one scenario after another, each with no streams to begin with. A lane is
started with the first scenario that finds the others busy, and ended with the session.
"""

import asyncio
import itertools
import threading
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple, Self

from tests.integration.differential.pace import Pace
from tests.integration.differential.side import Scenario, Side
from tests.integration.differential.transcript import Transcript
from tests.integration.differential.verdict import same
from tests.servers import side_by_side
from tests.wire import Wire

LANES = {"leaf": 4, "client": 1}
"""How many there are, by the link that Silt's API is asked over."""
SCENARIO_SECONDS = 240.0


Transcripts = tuple[Transcript, Transcript]


class Play(NamedTuple):
    """A scenario to be played, and where its two transcripts go."""

    name: str
    steps: Scenario
    transcripts: "Future[Transcripts]"


async def run_side(url: str, steps: Scenario, pace: Pace, number: int) -> Transcript:
    """Run one scenario against one server and leave no stream behind."""
    async with Wire.open(url) as wire:
        side = Side(wire, pace, number)
        try:
            await steps(side)
        finally:
            await side.finish()
        return side.transcript


async def run_both(urls: tuple[str, str], name: str, steps: Scenario) -> Transcripts:
    """Run one scenario against both servers at the same time."""
    pace = Pace(lambda label, shown: same(name, label, *shown))
    async with asyncio.timeout(SCENARIO_SECONDS), asyncio.TaskGroup() as group:
        reference, silt = (group.create_task(run_side(url, steps, pace, number)) for number, url in enumerate(urls))
    return reference.result(), silt.result()


class Lanes:
    """All lanes, on an event loop in a thread of their own; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runner = asyncio.Runner()
        self._count = itertools.count()
        self._waiting: dict[str, asyncio.PriorityQueue[tuple[bool, int, Play]]] = {
            over: asyncio.PriorityQueue() for over in LANES
        }
        self._thread = threading.Thread(target=self._run, name="lanes")

    def __enter__(self) -> Self:
        self._loop = self._runner.get_loop()
        self._task = self._loop.create_task(self._lanes())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def play(self, name: str, steps: Scenario, *, over: str = "leaf", later: bool = False) -> "Future[Transcripts]":
        """Have a scenario played when a lane is free; before all those that may come ``later``."""
        play = Play(name, steps, Future())
        self._loop.call_soon_threadsafe(self._waiting[over].put_nowait, (later, next(self._count), play))
        return play.transcripts

    def _run(self) -> None:
        with self._runner, suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)

    async def _lanes(self) -> None:
        async with asyncio.TaskGroup() as group:
            for over, count in LANES.items():
                for number in range(count):
                    group.create_task(self._lane(over, self._folder / f"{over}-{number}"))

    async def _lane(self, over: str, folder: Path) -> None:
        """Start a pair of servers when there is something to be played, and play until cancelled."""
        servers, urls = ExitStack(), None
        try:
            while True:
                _, _, play = await self._waiting[over].get()
                try:
                    if urls is None:
                        fresh = side_by_side(folder / play.name, api_over=over)
                        urls = await asyncio.to_thread(servers.enter_context, fresh)
                    play.transcripts.set_result(await run_both(urls, play.name, play.steps))
                except Exception as failed:  # noqa: BLE001  # whatever it is, the scenario's test tells it
                    urls = await asyncio.to_thread(servers.close)
                    play.transcripts.set_exception(failed)
        finally:
            await asyncio.to_thread(servers.close)
