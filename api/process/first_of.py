"""A wait for the first of several things."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one is done, and cancel the others."""
    async with asyncio.TaskGroup() as tasks:
        waiting = {tasks.create_task(wait) for wait in waits}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
