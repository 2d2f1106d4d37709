"""Threads for blocking reads off the loop: a few, with a bounded queue and a time limit."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from conf.limits import READ_QUEUE_MAX

Result = TypeVar("Result")


class ReadsBusy(Exception):
    """Too many reads are queued: try again later."""

    def __init__(self) -> None:
        super().__init__("too many reads are waiting already")


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Limit the time of reads, with a ``TimeoutError`` that has a text."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"a read of the tables took longer than {seconds:g} s") from error


class ReadThreads:
    """A pool of ``workers`` threads for blocking reads; close it when done."""

    def __init__(self, workers: int, *, timeout_seconds: float, waiting_max: int = READ_QUEUE_MAX) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="read")
        self.timeout_seconds = timeout_seconds
        self._free = workers + waiting_max

    async def run(self, read: Callable[[], Result], *, timeout_seconds: float | None = None) -> Result:
        """Call ``read`` in a thread and return its result. Raises what it raises, ``ReadsBusy`` or ``TimeoutError``.

        A read that exceeds its time goes on in its thread until it ends by itself; its result is dropped.
        """
        if self._free <= 0:
            raise ReadsBusy
        self._free -= 1
        future = asyncio.get_running_loop().run_in_executor(self._executor, read)
        future.add_done_callback(self._ended)
        async with within(self.timeout_seconds if timeout_seconds is None else timeout_seconds):
            return await asyncio.shield(future)

    def close(self) -> None:
        """Accept no more reads and drop the queued ones; do not wait for running ones."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _ended(self, future: "asyncio.Future[Result]") -> None:
        self._free += 1
        if not future.cancelled():
            future.exception()
