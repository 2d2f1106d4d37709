"""One child process of ``silt up``: started, watched until it reports ready, ended; never orphaned.

A child reports by lines of JSON on its standard output: ``{"ready": true, …}`` and, before that, if opening takes long
and it already answers requests, ``{"answering": true, …}``. All its output goes to its log. It has a session of its
own, so that Ctrl-C reaches the supervisor alone, and the kernel kills it when the supervisor dies.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from api.process.first_of import first_of
from api.process.parent_death import die_with
from api.process.process_log import ProcessLog

_READ_BYTES = 64 * 1024


class ChildFailed(RuntimeError):
    """A child ended, or was not ready in time; the text has the end of its log."""


class Child(Protocol):
    """One run of a child, as the supervisor sees it."""

    @property
    def pid(self) -> int:
        """Process id, once started."""
        ...

    async def start(self, said_before: Mapping[str, Any]) -> None:
        """Start it, given its last report of being ready; raises :class:`ChildFailed`."""
        ...

    async def run(self) -> int:
        """Wait until it ends; return its exit status."""
        ...

    async def wait_answering(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Wait until it answers requests, ready or not; return its report. Raises as :meth:`wait_ready`."""
        ...

    async def wait_ready(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Wait until it is ready; return its report. Raises :class:`ChildFailed` if it ends first or takes too long."""
        ...

    async def stop(self, timeout_seconds: float, *, hurry: asyncio.Event | None = None) -> None:
        """Ask it to end, wait, and kill it after the timeout or once ``hurry`` is set."""
        ...


class Plan(Protocol):
    """A kind of child, of which runs are made."""

    @property
    def name(self) -> str:
        """Name of the child and of its log."""
        ...

    def child(self, log: ProcessLog) -> Child:
        """Return a new run, whose output goes to ``log``."""
        ...


@dataclass(frozen=True, slots=True)
class ChildPlan:
    """A kind of child that is a Python process of ours."""

    name: str
    command: Callable[[Mapping[str, Any]], Sequence[str]]
    """Returns the command line, given the child's last report of being ready (empty the first time)."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def child(self, log: ProcessLog) -> Child:
        """Return a new run, whose output goes to ``log``."""
        return ChildProcess(self, log)


class ChildProcess:
    """One run of a :class:`ChildPlan`."""

    def __init__(self, plan: ChildPlan, log: ProcessLog) -> None:
        self._plan = plan
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._answering: asyncio.Future[Mapping[str, Any]] | None = None
        self._ready: asyncio.Future[Mapping[str, Any]] | None = None
        self._unparsed = b""

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        assert self._process is not None
        return self._process.pid

    async def start(self, said_before: Mapping[str, Any]) -> None:
        """Start the process; its output is read by :meth:`run`."""
        loop = asyncio.get_running_loop()
        self._answering, self._ready = loop.create_future(), loop.create_future()
        self._process = await asyncio.create_subprocess_exec(
            *self._plan.command(said_before),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._plan.cwd,
            env={**os.environ, **self._plan.env},
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),
        )

    async def run(self) -> int:
        """Copy the child's output to its log until it ends; return its exit status."""
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            while chunk := await self._process.stdout.read(_READ_BYTES):
                self._log.write(chunk)
                self._look_for_ready(chunk)
            return await self._process.wait()
        finally:
            self._kill_group()
            for said in (self._answering, self._ready):
                if said is not None and not said.done():
                    said.cancel()

    async def wait_answering(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Wait until it answers requests, ready or not; return its report. Raises as :meth:`wait_ready`."""
        assert self._answering is not None
        return await self._said(self._answering, timeout_seconds)

    async def wait_ready(self, timeout_seconds: float) -> Mapping[str, Any]:
        """Wait until it is ready; return its report. Raises :class:`ChildFailed` if it ends first or takes too long."""
        assert self._ready is not None
        return await self._said(self._ready, timeout_seconds)

    async def stop(self, timeout_seconds: float, *, hurry: asyncio.Event | None = None) -> None:
        """Ask it to end, wait, and kill it after the timeout or once ``hurry`` is set."""
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(timeout_seconds):
                await first_of(self._process.wait(), (hurry or asyncio.Event()).wait())
        except TimeoutError:
            self._log.write(f"not ended {timeout_seconds:.0f} s after SIGTERM: killed\n".encode())
        finally:
            self._kill_group()

    async def _said(self, line: "asyncio.Future[Mapping[str, Any]]", timeout_seconds: float) -> Mapping[str, Any]:
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.wait([line])
        except TimeoutError:
            raise ChildFailed(self._failure(f"was not ready within {timeout_seconds:.0f} s")) from None
        if line.cancelled():
            raise ChildFailed(self._failure("ended before it was ready"))
        return line.result()

    def _look_for_ready(self, chunk: bytes) -> None:
        if self._ready is None or self._answering is None or self._ready.done():
            return
        *lines, rest = (self._unparsed + chunk).split(b"\n")
        self._unparsed = rest[-_READ_BYTES:]
        for said in filter(None, map(_said_line, lines)):
            if not self._answering.done():
                self._answering.set_result(said)
            if said.get("ready") is True:
                self._ready.set_result(said)
                return

    def _kill_group(self) -> None:
        """Kill the rest of the child's session: a JVM or a worker must not outlive it."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _failure(self, what: str) -> str:
        return f"{self._plan.name} {what}; the end of {self._log.path}:\n{self._log.tail()}"


def _said_line(line: bytes) -> Mapping[str, Any] | None:
    """Return the report in a line of output; None for any other line."""
    if not line.startswith(b"{"):
        return None
    try:
        said = json.loads(line)
    except ValueError:
        return None
    return said if isinstance(said, dict) and True in (said.get("answering"), said.get("ready")) else None
