"""How far settling lags, the bounds of that lag, and how publishers are slowed down before them. Pure.

Unsettled rows cost: each of their files is read when the store is opened (0.3 ms) and by reads of the past, each
message is held in the index, and some of the payloads are held in memory.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from delta_store.entries.journal_state import settled_files
from delta_store.entries.log_entry import JournalFile
from delta_store.values.records import Position

BRAKE_FROM: Final = 0.5
"""Share of a bound from which on acknowledgements are held back."""
BRAKE_SECONDS_MAX: Final = 1.0
"""Longest time for which a group's acknowledgements are held back, reached at the bound."""


class Pressure(Enum):
    """The effect of the lag on publishers; the values are the log's events."""

    NONE = "settling has caught up"
    BRAKE = "settling lags: acknowledgements are held back"
    FULL = "settling lags too far: publishes are refused"


class Lag(NamedTuple):
    """The unsettled part of the journal."""

    rows: int = 0
    """Rows of files with any unsettled row."""
    bytes: int = 0
    """Size of these files on disk, compressed."""
    files: int = 0
    oldest_ms: int = 0
    """Commit time of the oldest of these files, ms since 1970; 0 when all is settled."""

    def seconds(self, now_ns: int) -> float:
        """Return the age of the oldest unsettled row in seconds."""
        return max(0.0, now_ns / 1e9 - self.oldest_ms / 1e3) if self.files else 0.0

    def grown(self, before: "Volume", now: "Volume") -> "Volume":
        """Return the volume of it and of everything committed between two readings of the journal's volume."""
        return Volume(
            self.rows + now.rows - before.rows,
            self.bytes + now.bytes - before.bytes,
            self.files + now.files - before.files,
        )


class Volume(NamedTuple):
    """An amount of the journal: committed so far, or allowed to be unsettled."""

    rows: int = 0
    bytes: int = 0
    files: int = 0


def lag_of(files: Iterable[JournalFile], settled: Mapping[str, Position]) -> Lag:
    """Return the lag of these files against the settled positions."""
    held = list(files)
    done = {file.name for file in settled_files(held, settled)}
    open_files = [file for file in held if file.name not in done]
    return Lag(
        sum(file.rows for file in open_files),
        sum(file.size for file in open_files),
        len(open_files),
        min((file.modified_ms for file in open_files), default=0),
    )


def fill(lag: Lag | Volume, bounds: Volume) -> float:
    """Return the largest used share of a bound; publishes are refused from 1 on."""
    return max(lag.rows / bounds.rows, lag.bytes / bounds.bytes, lag.files / bounds.files)


def pressure_of(share: float) -> Pressure:
    """Return the pressure at this share."""
    if share >= 1:
        return Pressure.FULL
    return Pressure.BRAKE if share > BRAKE_FROM else Pressure.NONE


def brake_seconds(share: float) -> float:
    """Return how long acknowledgements are held back: 0 up to :data:`BRAKE_FROM`, then quadratically more."""
    over = (min(share, 1.0) - BRAKE_FROM) / (1.0 - BRAKE_FROM)
    return BRAKE_SECONDS_MAX * over * over if over > 0 else 0.0
