"""The bounds of one SQL statement. Pure."""

from dataclasses import dataclass

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What one statement may take; beyond it, it ends with an error."""

    seconds: float = 60.0
    """From its start until its last row is read, a slow reader's time included."""
    memory_bytes: int = _GIB
    """Memory of DuckDB's buffers. Only a process bounds the rest, such as one long list."""
    temp_bytes: int = 4 * _GIB
    """Space on disk for what does not fit into memory."""
    rows: int | None = None
    """Rows of the answer; None for any number."""
    threads: int | None = None
    """Threads; None for one a core."""
    text_bytes: int = 256 * 1024
    """Length of the statement."""
