"""Which log entries and checkpoints no version within the horizon needs, and their deletion; for any table."""

from bisect import bisect_right
from collections.abc import Callable

from delta_store.entries.checkpoint_table import checkpoint_version
from delta_store.entries.log_entry import version_of
from delta_store.log.delta_log import path_of
from delta_store.storage.storage import Storage
from delta_store.values.schemas import LOG_FOLDER


def clean_log(
    storage: Storage, *, newest_checkpoint: int, limit_ms: float, time_of: Callable[[int], int]
) -> tuple[int, int]:
    """Delete log entries and checkpoints that no version within the horizon needs; return how many of each.

    Kept is everything from the newest checkpoint on that is older than ``limit_ms``, and is not the last one: that
    might be damaged. ``time_of``: when a version was committed (ms).
    """
    names = [name for name in storage.sizes(LOG_FOLDER) if name[:20].isdecimal()]
    points = sorted(version for name in names if (version := checkpoint_version(name)) is not None)
    usable = [version for version in points if version < newest_checkpoint]
    base = bisect_right(usable, limit_ms, key=time_of) - 1
    if base < 0:
        return 0, 0
    gone = sorted(name for name in names if int(name[:20]) < usable[base])
    storage.delete(map(path_of, gone))
    return sum(version_of(name) is not None for name in gone), base
