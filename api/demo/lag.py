"""The settle lag seen from outside: the time from a message's acknowledgement to its being in the settled table."""

import asyncio
from typing import NamedTuple

from conf.clock import Clock
from conf.data_location import DataLocation
from delta_store.log.log_follower import LogFollower
from delta_store.values.schemas import MESSAGES_FOLDER

LOOK_SECONDS = 0.2


class MeasuredLag(NamedTuple):
    """Settle lag in seconds."""

    median: float
    longest: float


class LagMeter:
    """A comparison of the acknowledged sequences with the watermark of ``messages``."""

    def __init__(self, data: DataLocation, stream: str, *, clock: Clock) -> None:
        self._messages = LogFollower(data.table(MESSAGES_FOLDER), storage_options=data.options)
        self._stream = stream
        self._clock = clock
        self._acked: list[tuple[float, int]] = []
        self._lags: list[float] = []

    def acked(self, seq: int) -> None:
        """Record that all messages up to ``seq`` are acknowledged now."""
        self._acked.append((self._clock.monotonic(), seq))

    async def watch(self, last_seq: int) -> None:
        """Poll the table until ``last_seq`` is settled."""
        while (settled := await asyncio.to_thread(self.settled)) < last_seq:
            self._note(settled)
            await asyncio.sleep(LOOK_SECONDS)
        self._note(settled)

    def settled(self) -> int:
        """Return the last settled sequence."""
        mark = self._messages.refresh().watermarks.get(self._stream)
        return mark.seq if mark is not None else 0

    def lag(self) -> MeasuredLag:
        """Return the lags measured by :meth:`watch`."""
        lags = sorted(self._lags) or [0.0]
        return MeasuredLag(lags[len(lags) // 2], lags[-1])

    def _note(self, settled: int) -> None:
        """Record the lags of the sequences settled since the last call."""
        now = self._clock.monotonic()
        reached = [at for at, seq in self._acked if seq <= settled]
        self._lags += [now - at for at in reached]
        del self._acked[: len(reached)]
