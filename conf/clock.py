"""The only module that reads a clock, so that everything else can be driven by a virtual one."""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of time: wall time orders messages, monotonic time measures waits; the two are never mixed."""

    def now_ns(self) -> int:
        """Return wall time in ns since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        """Return wall time in ns since 1970-01-01 UTC."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps back."""
        return time.monotonic()


class SteadyClock:
    """A clock whose wall time never steps back: when the machine's clock is set back, it runs on from its last time.

    A timer is therefore never late by the step. A step ahead is followed at once; the true time is back when it catches
    up, or in the next process. Not thread-safe.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._read_wall, self._read_monotonic = wall_ns, monotonic_ns
        self._wall_ns, self._monotonic_ns = wall_ns(), monotonic_ns()

    def now_ns(self) -> int:
        """Return wall time in ns since 1970-01-01 UTC, never less than before."""
        wall_ns, monotonic_ns = self._read_wall(), self._read_monotonic()
        self._wall_ns = max(wall_ns, self._wall_ns + monotonic_ns - self._monotonic_ns)
        self._monotonic_ns = monotonic_ns
        return self._wall_ns

    def monotonic(self) -> float:
        """Return the seconds of a clock that never steps back."""
        return self._read_monotonic() / 1e9
