"""The bounds of one SQL statement. Pure."""

from dataclasses import dataclass
from typing import Final

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What one statement may take; beyond it, it ends with an error."""

    seconds: float | None = 60.0
    """From its start until its last row is read, a slow reader's time included; None for no end."""
    memory_bytes: int | None = _GIB
    """Memory of DuckDB's buffers; None for most of the machine's. Only a process bounds the rest, as one long list."""
    temp_bytes: int | None = 4 * _GIB
    """Space on disk for what does not fit into memory; None for most of what is free."""
    rows: int | None = None
    """Rows of the answer; None for any number."""
    threads: int | None = None
    """Threads; None for one a core."""
    text_bytes: int = 256 * 1024
    """Length of the statement."""


BY_HAND: Final = SqlLimits(seconds=None, memory_bytes=None, temp_bytes=None)
"""The limits of a statement that a user runs on his own machine, where Ctrl-C ends it."""
