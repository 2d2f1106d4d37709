"""How far back a stream can be read. Pure."""

from typing import NamedTuple

from delta_store.dialect.times import format_time


class OldestPoint(NamedTuple):
    """The first sequence and the first time at which the state of a stream is known."""

    seq: int
    """0 where only times are known: messages have been removed since the last one was stored."""
    from_ns: int
    """In ns since 1970, whole microseconds; 0 where it is not known."""

    @property
    def time(self) -> str:
        """The time as RFC 3339 has it; empty where it is not known."""
        return format_time(self.from_ns) if self.from_ns else ""

    def __str__(self) -> str:
        """Name both as points that can be asked for."""
        names = (f"sequence {self.seq}" if self.seq else "", f"the time {self.time}" if self.from_ns else "")
        return ", or ".join(filter(None, names)) or "the present"


def just_after(ns: int) -> int:
    """Return the first whole microsecond behind a time: a point that is a time excludes itself."""
    return (ns // 1000 + 1) * 1000
