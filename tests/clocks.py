"""Clocks of tests."""


class FixedClock:
    """A clock that stands still."""

    def __init__(self, ns: int) -> None:
        self._ns = ns

    def now_ns(self) -> int:
        """Return the time that was set."""
        return self._ns

    def monotonic(self) -> float:
        """Return the same in seconds."""
        return self._ns / 1e9
