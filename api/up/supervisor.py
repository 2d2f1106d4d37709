"""``silt up``: nats-server, gateway, settle job and HTTP server as children of one process.

Order of starting: nats-server and HTTP server at once, the gateway as soon as nats-server listens, and the settle job
behind them: nobody who publishes or reads waits for Spark, and it takes no processor from those who do start. A settle
job that can't start is tried again, more and more rarely, and ends nothing else. Order of stopping: HTTP server,
gateway (it drains), settle job, nats-server. A child that ends by itself is started again, later each time; its ports
stay the same. When the supervisor dies, the kernel ends the children (:mod:`api.process.child_process`).
"""

import asyncio
import json
import signal
import sys
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from api.hub.hub_child import HubPlan
from api.process.child_process import Child, ChildFailed, Plan
from api.process.error_leaves import leaves
from api.process.process_log import ProcessLog
from api.up.child_plans import gateway_plan, serve_plan, settle_plan
from conf.clock import Clock
from conf.limits import CHILD_START_SECONDS, CHILD_STOP_SECONDS, SETTLE_START_SECONDS
from conf.settings import Settings
from delta_store.storage.up_lock import up_lock

Said = Mapping[str, Any]
"""What a child says when it is ready."""
STOP_ORDER = ("serve", "gateway", "settle", "hub")
BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Waits before the first, second … restart; the last one repeats."""
SETTLE_BACKOFF_SECONDS = (1.0, 5.0, 15.0, 60.0)
"""The same for the settle job: each of its starts is that of a JVM."""
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
                said = await self._start_front(tasks)
                if said is not None:
                    sys.stdout.write(f"ready {said[0]['url']} {said[1]['url']}\n")
                    sys.stdout.flush()
                    tasks.create_task(self._keep(settle_plan(self._options.data), None))
                    await self._stop.wait()
            finally:
                self._stop.set()
                await self._stop_children()

    async def _start_front(self, tasks: asyncio.TaskGroup) -> tuple[Said, Said] | None:
        """Start all that answers; what nats-server and HTTP server say when it does, None when asked to stop."""
        data = self._options.data
        hub = self._begin(tasks, HubPlan(data / "nats", self._options.port, self._settings))
        serve = self._begin(tasks, serve_plan(data, self._options.http_port))
        if not await self._ready(hub, serve, all_of=(hub,)):
            return None
        gateway = self._begin(tasks, gateway_plan(data, hub.result()))
        if not await self._ready(gateway, serve, all_of=(gateway, serve)):
            return None
        return hub.result(), serve.result()

    def _begin(self, tasks: asyncio.TaskGroup, plan: Plan) -> asyncio.Future[Said]:
        """Keep the plan's child running; what it says when it is ready for the first time."""
        first: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        tasks.create_task(self._keep(plan, first))
        return first

    async def _ready(self, *firsts: asyncio.Future[Said], all_of: Collection[asyncio.Future[Said]]) -> bool:
        """Wait until ``all_of`` are ready; False when asked to stop before. Raises what any of ``firsts`` raises."""
        stop = asyncio.ensure_future(self._stop.wait())  # noqa: TID251  # cancelled below
        try:
            while not self._stop.is_set():
                for first in firsts:
                    if first.done():
                        first.result()
                if all(first.done() for first in all_of):
                    return True
                pending: set[asyncio.Future[Any]] = {stop, *(first for first in firsts if not first.done())}
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            return False
        finally:
            stop.cancel()

    async def _keep(self, plan: Plan, first: asyncio.Future[Said] | None) -> None:
        """Run the plan's child again and again until asked to stop; ``first`` gets what it says the first time.

        Without ``first`` nobody waits for it: it is tried for ever.
        """
        said: Said = {}
        waits = BACKOFF_SECONDS if first is not None else SETTLE_BACKOFF_SECONDS
        ends = 0
        with closing(ProcessLog(self._options.data / "logs" / f"{plan.name}.log")) as log:
            while not self._stop.is_set():
                began = self._clock.monotonic()
                try:
                    said = await self._live(plan, log, said, first)
                    why = "ended"
                except ChildFailed as failure:
                    why = str(failure)
                    if first is not None and not first.done() and ends + 1 >= START_TRIES:
                        first.set_exception(failure)
                        return
                if self._stop.is_set():
                    return
                ends = 1 if self._clock.monotonic() - began > STEADY_SECONDS else ends + 1
                wait = waits[min(ends, len(waits)) - 1]
                self._note("child ended, starts again", child=plan.name, why=why.splitlines()[0], wait_seconds=wait)
                await self._sleep(wait)

    async def _live(
        self,
        plan: Plan,
        log: ProcessLog,
        said: Said,
        first: asyncio.Future[Said] | None,
    ) -> Said:
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
                said = await child.wait_ready(SETTLE_START_SECONDS if first is None else CHILD_START_SECONDS)
                self._note("child ready", child=plan.name, pid=child.pid)
                if first is not None and not first.done():
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
