"""Two sides that take their steps together: a step ends when both have shown the same, and nothing more comes.

So nobody waits longer than the servers need, and a busy machine gets all the time that it needs. What differs is waited
for in vain, once at length: then it is a difference.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

Shown = list[dict[str, Any]]
Look = Callable[[], Awaitable[Shown]]
QUIET_SECONDS = 0.02
QUIET_GROWTH, QUIET_SECONDS_MAX = 1.2, 0.25
LOOKS_MAX = 45
"""About eight seconds."""
LOOKS_MAX_AGAIN = 20
"""Once the sides have differed: about one and a half."""


class Pace:
    """What each side shows of a step; ``same`` says whether a step's two sides may be like that."""

    def __init__(self, same: Callable[[str, Sequence[Shown]], bool]) -> None:
        self._same = same
        self._met = asyncio.Barrier(2)
        self._shown: list[Shown] = [[], []]
        self._moved = [False, False]
        self._looks_max = LOOKS_MAX

    async def settled(self, side: int, label: str, look: Look) -> Shown:
        """What a side shows once both agree and stay as they are; ``side`` is 0 or 1, ``label`` the same for both."""
        quiet, shown = QUIET_SECONDS, await look()
        for number in range(self._looks_max):
            await asyncio.sleep(quiet)
            before, shown = shown, await look()
            self._shown[side], self._moved[side] = shown, shown != before
            try:
                await self._met.wait()
            except asyncio.BrokenBarrierError:
                break
            if not any(self._moved) and self._same(label, self._shown):
                break
            quiet = QUIET_SECONDS if number < 10 else min(quiet * QUIET_GROWTH, QUIET_SECONDS_MAX)
        else:
            self._looks_max = LOOKS_MAX_AGAIN
        return shown

    async def abreast(self) -> None:
        """Wait until the other side has come as far: what ends by itself then ends on both at one time."""
        with suppress(asyncio.BrokenBarrierError):
            await self._met.wait()

    async def leave(self) -> None:
        """One side is at its end: the other waits for it no more."""
        await self._met.abort()
