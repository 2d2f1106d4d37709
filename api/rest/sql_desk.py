"""The processes that answer SQL: started when they are needed, one query each at a time, ended when they are idle.

A query is broken off by killing its process: when its client goes away, when it exceeds its time, when the server ends.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from api.process.parent_death import die_with
from api.rest import problems
from api.rest.sql_frames import HEAD_BYTES, Mark, SqlFailure, SqlFrame, SqlQuestion, read_head
from conf.data_location import DataLocation
from conf.limits import CHILD_START_SECONDS, SQL_GRACE_SECONDS, SQL_IDLE_SECONDS, SQL_TRANSFER_SECONDS, SQL_WAITING_MAX
from conf.settings import HttpSettings
from delta_store.reading.read_threads import ReadsBusy

_MODULE: Final = "api.rest.sql_worker"


class SqlProcess:
    """One process that answers SQL."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._killed = False
        self.idle: asyncio.TimerHandle | None = None
        """Ends the process when it has been idle for long."""

    @classmethod
    async def start(cls, data: DataLocation) -> "SqlProcess":
        """Start one and wait until it is ready. Raises ``EOFError`` or ``TimeoutError``."""
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _MODULE, "--data", str(data)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with(os.getpid()),
        )
        process = cls(child)
        try:
            async with asyncio.timeout(CHILD_START_SECONDS):
                await process.frame()
        except BaseException:
            process.kill()
            raise
        return process

    @property
    def lives(self) -> bool:
        """Whether it may be asked."""
        return not self._killed and self._process.returncode is None

    async def ask(self, question: SqlQuestion) -> None:
        """Put a question, whose answer must be read up to its end before the next."""
        assert self._process.stdin is not None
        self._process.stdin.write(question.encoded())
        await self._process.stdin.drain()

    async def frame(self) -> SqlFrame:
        """Return the next frame of the answer; raises ``EOFError`` when the process has ended."""
        assert self._process.stdout is not None
        mark, size = read_head(await self._process.stdout.readexactly(HEAD_BYTES))
        return SqlFrame(mark, await self._process.stdout.readexactly(size))

    def kill(self) -> None:
        """End it at once."""
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()


class SqlReply:
    """An answer on its way: :meth:`chunks` yields it; :meth:`release` must be called in the end, also without."""

    def __init__(self, desk: "SqlDesk", process: SqlProcess, seconds: float) -> None:
        self._desk, self._process = desk, process
        self._over = self._released = False
        self._first: list[SqlFrame] = []
        self._limit = asyncio.get_running_loop().call_later(seconds + SQL_GRACE_SECONDS, process.kill)

    async def begin(self, question: SqlQuestion) -> None:
        """Ask, and read the answer's first part: an error up to there still becomes a status.

        Raises :class:`problems.Refused`.
        """
        try:
            await self._process.ask(question)
            while not self._first or self._first[-1].mark is Mark.START:
                self._first.append(await self._next())
        except (EOFError, OSError):
            raise problems.sql_failure(SqlFailure("timeout", "the query was broken off")) from None
        self._limit.cancel()
        self._limit = asyncio.get_running_loop().call_later(SQL_TRANSFER_SECONDS, self._process.kill)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes. Raises :class:`problems.Refused`, and ``EOFError`` for an answer that was broken off."""
        for frame in self._first:
            if frame.mark is Mark.DATA:
                yield frame.content
        while not self._over:
            frame = await self._next()
            if frame.mark is Mark.DATA:
                yield frame.content

    def release(self) -> None:
        """Give the process back; one that has not ended its answer, or has no memory left, is killed."""
        self._limit.cancel()
        if not self._released:
            self._released = True
            if not self._over:
                self._process.kill()
            self._desk.give_back(self._process)

    async def _next(self) -> SqlFrame:
        frame = await self._process.frame()
        if frame.mark is Mark.FAILED:
            failure = SqlFailure.decoded(frame.content)
            self._over = failure.kind != "memory"
            raise problems.sql_failure(failure)
        self._over = frame.mark is Mark.END
        return frame


class SqlDesk:
    """All queries of one HTTP process; belongs to one event loop."""

    def __init__(self, data: DataLocation, settings: HttpSettings) -> None:
        self._data = data
        self._free = asyncio.Semaphore(settings.sql_processes_max)
        self._waiting = 0
        self._idle: list[SqlProcess] = []
        self._all: set[SqlProcess] = set()

    async def answer(self, question: SqlQuestion) -> SqlReply:
        """Return the answer to a question, once its first rows are there or it has none.

        Raises :class:`problems.Refused`, ``ReadsBusy`` when too many wait already, ``TimeoutError`` after a long wait.
        """
        if self._waiting >= SQL_WAITING_MAX:
            raise ReadsBusy
        self._waiting += 1
        try:
            async with asyncio.timeout(question.seconds):
                await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            answer = SqlReply(self, await self._process(), question.seconds)
        except EOFError:
            self._free.release()
            raise problems.sql_failure(SqlFailure("start", "the process that answers SQL did not start")) from None
        except BaseException:
            self._free.release()
            raise
        try:
            await answer.begin(question)
        except BaseException:
            answer.release()
            raise
        return answer

    def give_back(self, process: SqlProcess) -> None:
        """Take back a process after an answer."""
        self._free.release()
        if process.lives:
            process.idle = asyncio.get_running_loop().call_later(SQL_IDLE_SECONDS, self._end, process)
            self._idle.append(process)
        else:
            self._all.discard(process)

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.kill()

    async def _process(self) -> SqlProcess:
        while self._idle:
            process = self._idle.pop()
            if process.idle is not None:
                process.idle.cancel()
            if process.lives:
                return process
            self._all.discard(process)
        process = await SqlProcess.start(self._data)
        self._all.add(process)
        return process

    def _end(self, process: SqlProcess) -> None:
        process.kill()
        self._idle.remove(process)
        self._all.discard(process)
