"""``silt up``: nats-server, gateway, settle job and HTTP server as children of one process.

Order of starting: nats-server and HTTP server at once, the gateway as soon as nats-server listens, and the settle job
once the gateway's store is open, so that no publisher or reader waits for Spark, and it takes no processor time from
the others' start. While a large store opens, gateway and HTTP server already answer, with the progress; one that can't
be opened ends everything. A settle job that can't start is retried, ever more rarely, and ends nothing else. Order of
stopping: HTTP server, gateway (it drains), settle job, nats-server. A child that ends by itself is started again, after
growing waits, with the same ports. When the supervisor dies, the kernel kills the children.
"""

import asyncio
import signal
import sys
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api.hub.hub_child import HubPlan
from api.hub.hub_config import HUB_FOLDER
from api.process.child_process import Child, ChildFailed, Plan
from api.process.error_leaves import leaves
from api.process.process_log import ProcessLog
from api.up.child_plans import gateway_plan, serve_plan, settle_plan
from conf.clock import Clock
from conf.data_location import DataLocation
from conf.limits import CHILD_START_SECONDS, CHILD_STOP_SECONDS, REBUILD_SECONDS_MAX, SETTLE_START_SECONDS
from conf.log import new_log
from conf.settings import Settings
from delta_store.storage.store_lock import up_lock

Said = Mapping[str, Any]
"""A child's report of answering or being ready."""
STOP_ORDER = ("serve", "gateway", "settle", "hub")
BACKOFF_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before the first, second … restart; the last one repeats."""
SETTLE_BACKOFF_SECONDS = (1.0, 5.0, 15.0, 60.0)
"""Likewise for the settle job, each of whose starts is that of a JVM."""
START_TRIES = 4
"""Number of ends of a child that was never ready after which ``silt up`` gives up."""
STEADY_SECONDS = 60.0
"""After a run this long, a child's waits begin anew."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The arguments of ``silt up``; port 0 means any free one."""

    data: DataLocation
    folder: Path
    """Folder on a local disk for logs, credentials and Spark; the data folder, if that is one."""
    port: int
    http_port: int


@dataclass(frozen=True, slots=True)
class _Start:
    """A child's first reports of answering and of being ready; :class:`ChildFailed` if it never does."""

    answers: asyncio.Future[Said]
    ready: asyncio.Future[Said]

    def reached(self, stage: asyncio.Future[Said], said: Said) -> None:
        """Record that the child has reached a stage, maybe again."""
        if not stage.done():
            stage.set_result(said)

    def fail(self, failure: ChildFailed) -> None:
        """Record that the child never reaches the next stage."""
        (self.ready if self.answers.done() else self.answers).set_exception(failure)


class Supervisor:
    """The parent of the children: runs them until a signal, and ends them in order."""

    def __init__(self, options: UpOptions, settings: Settings, *, clock: Clock) -> None:
        self._options = options
        self._settings = settings
        self._clock = clock
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._children: dict[str, Child] = {}
        self._file = ProcessLog(options.folder / "logs" / "silt.log")
        self._log = new_log("up", lambda line: self._file.write(line.encode()), clock)

    async def run(self) -> None:
        """Start everything, print the ready line, run until SIGINT or SIGTERM, stop everything.

        Raises :class:`FolderInUse` or, when a child can't be started, :class:`ChildFailed`.
        """
        with up_lock(self._options.folder):
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
                self._file.close()

    async def _run_children(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            try:
                gateway = await self._start_front(tasks)
                if gateway is not None and await self._store_open(gateway):
                    tasks.create_task(self._keep(settle_plan(self._options.data, self._options.folder), None))
                    await self._stop.wait()
            finally:
                self._stop.set()
                await self._stop_children()

    async def _start_front(self, tasks: asyncio.TaskGroup) -> _Start | None:
        """Start all but the settle job and print the ready line; return the gateway, None when asked to stop."""
        data = self._options.data
        hub = self._begin(tasks, HubPlan(self._options.folder / HUB_FOLDER, self._options.port, self._settings))
        serve = self._begin(tasks, serve_plan(data, self._options.http_port, self._options.folder))
        if not await self._ready(hub.answers, serve.answers, all_of=(hub.answers,)):
            return None
        gateway = self._begin(tasks, gateway_plan(data, hub.answers.result()))
        if not await self._ready(gateway.answers, serve.answers, all_of=(gateway.answers, serve.answers)):
            return None
        sys.stdout.write(f"ready {hub.answers.result()['url']} {serve.answers.result()['url']}\n")
        sys.stdout.flush()
        return gateway

    async def _store_open(self, gateway: _Start) -> bool:
        """Wait until the gateway's store is open, with notes on stderr if that takes long; False when asked to stop."""
        opening = gateway.answers.result().get("opening")
        if opening is not None:
            _tell(f"{opening}; until then nothing can be read or published")
        if not await self._ready(gateway.ready, all_of=(gateway.ready,)):
            return False
        rows, seconds = (gateway.ready.result()[name] for name in ("rows", "seconds"))
        self._log.info("store open", rows=rows, seconds=seconds)
        if opening is not None:
            _tell(f"the store is open: {rows} rows in {seconds} s")
        return True

    def _begin(self, tasks: asyncio.TaskGroup, plan: Plan) -> _Start:
        """Keep the plan's child running; return its first reports."""
        loop = asyncio.get_running_loop()
        start = _Start(loop.create_future(), loop.create_future())
        tasks.create_task(self._keep(plan, start))
        return start

    async def _ready(self, *firsts: asyncio.Future[Said], all_of: Collection[asyncio.Future[Said]]) -> bool:
        """Wait until ``all_of`` are done; False when asked to stop before. Raises the error of any of ``firsts``."""
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

    async def _keep(self, plan: Plan, start: _Start | None) -> None:
        """Run the plan's child again and again until asked to stop; ``start`` gets its first reports.

        Without ``start`` it is retried for ever.
        """
        said: Said = {}
        waits = BACKOFF_SECONDS if start is not None else SETTLE_BACKOFF_SECONDS
        ends = 0
        with closing(ProcessLog(self._options.folder / "logs" / f"{plan.name}.log")) as log:
            while not self._stop.is_set():
                began = self._clock.monotonic()
                try:
                    said = await self._live(plan, log, said, start)
                    why = "ended"
                except ChildFailed as failure:
                    why = str(failure)
                    if start is not None and not start.ready.done() and ends + 1 >= START_TRIES:
                        start.fail(failure)
                        return
                if self._stop.is_set():
                    return
                was_ready = start is None or start.ready.done()
                ends = 1 if was_ready and self._clock.monotonic() - began > STEADY_SECONDS else ends + 1
                wait = waits[min(ends, len(waits)) - 1]
                self._log.warning(
                    "child ended, starts again", child=plan.name, why=why.splitlines()[0], wait_seconds=wait
                )
                await self._sleep(wait)

    async def _live(
        self,
        plan: Plan,
        log: ProcessLog,
        said: Said,
        start: _Start | None,
    ) -> Said:
        """Run a child until it ends; return its report of being ready."""
        child = plan.child(log)
        self._children[plan.name] = child
        await child.start(said)
        if self._stop.is_set():  # asked to stop while the child was starting: _stop_children may have passed it over
            await child.stop(0.5)
        failed: ChildFailed | None = None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(child.run())
            try:
                said = await child.wait_answering(SETTLE_START_SECONDS if start is None else CHILD_START_SECONDS)
                if start is not None:
                    start.reached(start.answers, said)
                said = await child.wait_ready(REBUILD_SECONDS_MAX)
                self._log.info("child ready", child=plan.name, pid=child.pid)
                if start is not None:
                    start.reached(start.ready, said)
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
                self._log.info("child stopped", child=name)

    async def _sleep(self, seconds: float) -> None:
        """Wait until the time has passed or a stop is asked for."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return

    def _ask_to_stop(self) -> None:
        """Stop in order at the first signal, at once at the second."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()


def _tell(text: str) -> None:
    """Write to standard error, which may be closed."""
    with suppress(OSError):
        sys.stderr.write(f"silt up: {text}\n")
        sys.stderr.flush()
