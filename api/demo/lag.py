"""Measures the settle lag from outside: how long after its acknowledgement a message is in the settled table."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from conf.clock import Clock
from delta_store.log.log_follower import LogFollower

LOOK_SECONDS = 0.2


class Lag(NamedTuple):
    """Settle lag in seconds."""

    median: float
    longest: float


class LagMeter:
    """Compares what was acknowledged with the watermark of ``messages``."""

    def __init__(self, data: Path, stream: str, *, clock: Clock) -> None:
        self._messages = LogFollower(str(data / "messages"))
        self._stream = stream
        self._clock = clock
        self._acked: list[tuple[float, int]] = []
        self._lags: list[float] = []

    def acked(self, seq: int) -> None:
        """Note that all messages up to ``seq`` are acknowledged now."""
        self._acked.append((self._clock.monotonic(), seq))

    async def watch(self, last_seq: int) -> None:
        """Look at the table until ``last_seq`` is settled."""
        while (settled := await asyncio.to_thread(self.settled)) < last_seq:
            self._note(settled)
            await asyncio.sleep(LOOK_SECONDS)
        self._note(settled)

    def settled(self) -> int:
        """The last settled sequence."""
        mark = self._messages.refresh().watermarks.get(self._stream)
        return mark.seq if mark is not None else 0

    def lag(self) -> Lag:
        """The lags seen by :meth:`watch`."""
        lags = sorted(self._lags) or [0.0]
        return Lag(lags[len(lags) // 2], lags[-1])

    def _note(self, settled: int) -> None:
        """A message found settled for the first time now was acknowledged that long ago."""
        now = self._clock.monotonic()
        reached = [at for at, seq in self._acked if seq <= settled]
        self._lags += [now - at for at in reached]
        del self._acked[: len(reached)]
