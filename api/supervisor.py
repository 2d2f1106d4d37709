"""``silt up``: nats-server, gateway, settle job and HTTP server as children of one process.

Order of starting: nats-server, then the other three at once. Order of stopping: HTTP server, gateway (it drains),
settle job (it settles what is left), nats-server. A child that ends by itself is started again, later each time; its
ports stay the same. When the supervisor dies, the kernel ends the children (:mod:`api.child_process`).
"""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.child_plans import gateway_plan, serve_plan, settle_plan
from api.child_process import Child, ChildFailed, Plan
from api.error_leaves import leaves
from api.hub_child import HubPlan
from api.process_log import ProcessLog
from api.up_lock import up_lock
from conf.clock import Clock
from conf.limits import CHILD_START_SECONDS, CHILD_STOP_SECONDS
from conf.settings import Settings

STOP_ORDER = ("serve", "gateway", "settle", "hub")
BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Waits before the first, second … restart; the last one repeats."""
START_TRIES = 4
"""How often a child may end before it was ever ready until starting is given up."""
STEADY_SECONDS = 60.0
"""A child that lived this long starts its waits anew."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What ``silt up`` is asked for; port 0 means any free one."""

    data: Path
    port: int
    http_port: int


class Supervisor:
    """Runs the children until a signal, and ends them in order."""

    def __init__(self, options: UpOptions, settings: Settings, *, clock: Clock) -> None:
        self._options = options
        self._settings = settings
        self._clock = clock
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._children: dict[str, Child] = {}
        self._log = ProcessLog(options.data / "logs" / "silt.log")

    async def run(self) -> None:
        """Start everything, print the ready line, run until SIGINT or SIGTERM, stop everything.

        Raises :class:`FolderInUse` or, when a child can't be started, :class:`ChildFailed`.
        """
        with up_lock(self._options.data):
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._ask_to_stop)
            try:
                await self._run_children()
            except ExceptionGroup as group:
                failures = group.subgroup(ChildFailed)
                if failures is None:
                    raise
                raise next(leaves(failures)) from None
            finally:
                self._log.close()

    async def _run_children(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            try:
                hub = await self._begin(
                    tasks, [HubPlan(self._options.data / "nats", self._options.port, self._settings)]
                )
                if self._stop.is_set():
                    return
                said = await self._begin(tasks, self._plans(hub["hub"]))
                if self._stop.is_set():
                    return
                sys.stdout.write(f"ready {hub['hub']['url']} {said['serve']['url']}\n")
                sys.stdout.flush()
                await self._stop.wait()
            finally:
                self._stop.set()
                await self._stop_children()

    def _plans(self, hub: Mapping[str, Any]) -> list[Plan]:
        data = self._options.data
        return [
            gateway_plan(data, hub),
            settle_plan(data, self._settings.settle.nice),
            serve_plan(data, self._options.http_port),
        ]

    async def _begin(self, tasks: asyncio.TaskGroup, plans: list[Plan]) -> dict[str, Mapping[str, Any]]:
        """Keep each plan's child running; return what each says when all are ready, or early when asked to stop."""
        loop = asyncio.get_running_loop()
        firsts: dict[str, asyncio.Future[Mapping[str, Any]]] = {plan.name: loop.create_future() for plan in plans}
        for plan in plans:
            tasks.create_task(self._keep(plan, firsts[plan.name]))
        stop = tasks.create_task(self._stop.wait())
        pending: set[asyncio.Future[Any]] = set(firsts.values())
        while pending and not self._stop.is_set():
            done, pending = await asyncio.wait({*pending, stop}, return_when=asyncio.FIRST_COMPLETED)
            pending.discard(stop)
            for future in done - {stop}:
                future.result()
        stop.cancel()
        return {name: first.result() for name, first in firsts.items() if first.done()}

    async def _keep(self, plan: Plan, first: asyncio.Future[Mapping[str, Any]]) -> None:
        """Run the plan's child again and again until asked to stop; ``first`` gets what it says the first time."""
        said: Mapping[str, Any] = {}
        ends = 0
        with closing(ProcessLog(self._options.data / "logs" / f"{plan.name}.log")) as log:
            while not self._stop.is_set():
                began = self._clock.monotonic()
                try:
                    said = await self._live(plan, log, said, first)
                    why = "ended"
                except ChildFailed as failure:
                    why = str(failure)
                    if not first.done() and ends + 1 >= START_TRIES:
                        first.set_exception(failure)
                        return
                if self._stop.is_set():
                    return
                ends = 1 if self._clock.monotonic() - began > STEADY_SECONDS else ends + 1
                wait = BACKOFF_SECONDS[min(ends, len(BACKOFF_SECONDS)) - 1]
                self._note("child ended, starts again", child=plan.name, why=why.splitlines()[0], wait_seconds=wait)
                await self._sleep(wait)

    async def _live(
        self,
        plan: Plan,
        log: ProcessLog,
        said: Mapping[str, Any],
        first: asyncio.Future[Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """One life of a child; returns what it said when it was ready, once it has ended."""
        child = plan.child(log)
        self._children[plan.name] = child
        await child.start(said)
        if self._stop.is_set():  # asked to stop while the child was being started: nobody else has seen it
            await child.stop(0.5)
        failed: ChildFailed | None = None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            try:
                said = await child.wait_ready(CHILD_START_SECONDS)
                self._note("child ready", child=plan.name, pid=child.pid)
                if not first.done():
                    first.set_result(said)
            except ChildFailed as failure:
                failed = failure
                await child.stop(0.5)
        if failed is not None:
            raise failed
        return said

    async def _stop_children(self) -> None:
        for name in STOP_ORDER:
            child = self._children.get(name)
            if child is not None:
                await child.stop(CHILD_STOP_SECONDS, hurry=self._hurry)
                self._note("child stopped", child=name)

    async def _sleep(self, seconds: float) -> None:
        """Wait, but no longer than until asked to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def _ask_to_stop(self) -> None:
        """First signal: stop in order. Second one: at once."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def _note(self, event: str, **fields: object) -> None:
        now = datetime.fromtimestamp(self._clock.now_ns() / 1e9, tz=UTC).isoformat(timespec="milliseconds")
        self._log.write((json.dumps({"at": now, "event": event, **fields}) + "\n").encode())
