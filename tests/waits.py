"""Waits for what another task, thread or process does: bounded, as long as a loaded machine may take."""

import asyncio
import inspect
from collections.abc import Callable

SECONDS = 30.0


async def until(holds: Callable[[], object], *, seconds: float = SECONDS) -> None:
    """Wait until ``holds``, which may be a coroutine function, returns something true."""
    async with asyncio.timeout(seconds):
        while not (await found if inspect.isawaitable(found := holds()) else found):  # noqa: ASYNC110  # as it says
            await asyncio.sleep(0.005)
