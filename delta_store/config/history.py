"""How long a stream's past can be read, as its metadata says. Pure.

``silt.history`` is a duration: Go's, which may begin with weeks and days (``30d``, ``12h``, ``0``). Without it the
setting ``history.horizon_seconds`` holds.
"""

from collections.abc import Mapping
from typing import Final

from delta_store.dialect.durations import parse_age

HISTORY: Final = "silt.history"


def own_history(metadata: Mapping[str, str]) -> int | None:
    """Return the history that metadata asks for, in ns; None where it asks for none, or for nonsense."""
    return parse_age(metadata[HISTORY]) if HISTORY in metadata else None


def fault_of_history(metadata: Mapping[str, str]) -> str | None:
    """Return why the history that metadata asks for is none."""
    if HISTORY not in metadata or own_history(metadata) is not None:
        return None
    return f"metadata {HISTORY}: {metadata[HISTORY]!r} is no duration such as 30d, 12h or 0"
