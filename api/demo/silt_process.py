"""The process of ``silt up`` during the demonstration."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from conf.data_location import DataLocation

START_SECONDS = 240.0
STOP_SECONDS = 120.0


class SiltNotUp(RuntimeError):
    """``silt up`` did not become ready, or ended with an error."""


class Addresses(NamedTuple):
    """The addresses in the ready line."""

    nats: str
    http: str


@asynccontextmanager
async def silt_up(data: DataLocation) -> AsyncIterator[Addresses]:
    """Run ``silt up`` on ``data`` and free ports while the block runs."""
    options = ["--data", str(data), "--port", "0", "--http-port", "0"]
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-P", "-m", "api.cli.main", "up", *options], stdout=asyncio.subprocess.PIPE
    )
    try:
        yield await _ready(process)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            status = await process.wait()
        if status != 0:
            raise SiltNotUp(f"silt up ended with status {status}")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _ready(process: asyncio.subprocess.Process) -> Addresses:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            words = (await process.stdout.readline()).decode().split()
    except TimeoutError:
        raise SiltNotUp(f"silt up was not ready within {START_SECONDS:.0f} s") from None
    if len(words) != 3 or words[0] != "ready":
        raise SiltNotUp("silt up ended before it was ready; its message stands above")
    return Addresses(words[1], words[2])
