"""The only place that reads a clock, so that everything else can be driven by a virtual one."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time orders messages; monotonic time measures waits. They are never mixed."""

    def now_ns(self) -> int:
        """Wall time in nanoseconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds of a clock that never steps back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ns(self) -> int:
        """Wall time in nanoseconds since 1970-01-01 UTC."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds of a clock that never steps back."""
        return time.monotonic()
