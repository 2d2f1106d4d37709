"""Upkeep of the journal's log and folder: checkpoints, log cleanup, deletion of removed files.

No acknowledgement waits for it: a checkpoint is built from a copy of the state. Log entries are kept from the
checkpoint before the newest one on, in case the newest is damaged.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from conf.clock import Clock
from conf.limits import JOURNAL_CHECKPOINT_COMMITS, JOURNAL_CLAIMS_KEPT
from delta_store.entries import checkpoint_file
from delta_store.entries.checkpoint_file import JournalSnapshot
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_name
from delta_store.entries.log_entry import entry_name, file_version
from delta_store.log.delta_log import path_of
from delta_store.log.journal_log import LoadedLog
from delta_store.storage.storage import Blob, Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.schemas import LOG_FOLDER

_CHECKPOINTS_BETWEEN_MAX: Final = 8


class JournalUpkeep:
    """The owner's background work. Not thread-safe: one thread at a time."""

    def __init__(self, storage: Storage, app_id: str, clock: Clock) -> None:
        self._storage, self._app_id, self._clock = storage, app_id, clock
        self._checkpoints: list[tuple[int, float]] = []
        """Version and monotonic time (written, or read at the start), ascending."""
        self._oldest_entry = 0
        self._claims: Collection[int] = ()
        """Versions of claims, which stay."""
        self._doomed: dict[str, float] = {}
        """Files that left the table, and when (monotonic)."""

    def start(self, log: LoadedLog, live: Iterable[str], claims: Collection[int]) -> Collection[str]:
        """Begin with a loaded log; files in the folder that are not in the table are deleted after the grace time.

        ``claims`` are versions of claims, the owner's own among them. Returns the names of those files.
        """
        now = self._clock.monotonic()
        self._checkpoints = [(version, now) for version in log.checkpoints]
        self._oldest_entry, self._claims = log.oldest_entry, claims
        self._storage.delete(path_of(entry_name(version)) for version in log.left_claims[:-JOURNAL_CLAIMS_KEPT])
        kept = set(live)
        names = [name for name in self._storage.sizes("") if file_version(name) is not None]
        self._doomed = {name: now for name in names if name not in kept}
        self._storage.delete(path_of(name) for name in self._storage.sizes(LOG_FOLDER) if name.endswith(".tmp"))
        return self._doomed.keys()

    def repair(self, snapshot: JournalSnapshot, damaged: Iterable[str]) -> None:
        """Replace damaged checkpoints by a whole one."""
        names = list(damaged)
        if names:
            self.checkpoint(snapshot)
            self._storage.delete(path_of(name) for name in names if name != checkpoint_name(snapshot.version))

    def is_due(self, version: int, live_files: int) -> bool:
        """Whether enough was committed since the last checkpoint, in proportion to the cost of the next one."""
        last = self._checkpoints[-1][0] if self._checkpoints else 0
        return version - last >= max(JOURNAL_CHECKPOINT_COMMITS, live_files // 2)

    def checkpoint(self, snapshot: JournalSnapshot) -> int:
        """Write a checkpoint of the snapshot, durably; return its version. A failure leaves the log as it was."""
        body = checkpoint_file.encode(snapshot, self._app_id)
        self._storage.write(Blob(path_of(checkpoint_name(snapshot.version)), body))
        self._storage.write(Blob(path_of(LAST_CHECKPOINT), checkpoint_file.pointer(snapshot, body)))
        if not self._checkpoints or self._checkpoints[-1][0] < snapshot.version:
            self._checkpoints.append((snapshot.version, self._clock.monotonic()))
        return snapshot.version

    def clean_log(self, *, keep_from: int, min_age_seconds: float) -> int:
        """Delete log entries and checkpoints that no reader needs any more; return the number of entries deleted.

        Kept: the newest checkpoint that is neither the last one, nor younger than ``min_age_seconds``, nor above
        ``keep_from``, and every entry from it on. While ``keep_from`` lags, the checkpoints after it are thinned out:
        their number is bounded, and there is one not far below wherever ``keep_from`` gets to. Claims are left: an
        owner that slept commits next what is its successor's claim, and can't win that version while it is taken.
        """
        oldest_time = self._clock.monotonic() - min_age_seconds
        old = [version for version, made in self._checkpoints[:-1] if made <= oldest_time]
        usable, first = old[: bisect_right(old, keep_from)], self._oldest_entry
        base, deleted = usable[-1] if usable else first, 0
        if base > first:
            gone = [version for version in range(first, base) if version not in self._claims]
            self._storage.delete(path_of(entry_name(version)) for version in gone)
            self._oldest_entry, deleted = base, len(gone)
        between = [version for version in old if version > base]
        dropped = {version for version in old if version < base}
        if len(between) > _CHECKPOINTS_BETWEEN_MAX:
            dropped.update(between[::2])
        self._storage.delete(path_of(checkpoint_name(version)) for version in sorted(dropped))
        self._checkpoints = [point for point in self._checkpoints if point[0] not in dropped]
        return deleted

    def doom(self, names: Iterable[str]) -> None:
        """Note files that have just left the table."""
        now = self._clock.monotonic()
        self._doomed.update((name, now) for name in names)

    def delete_removed(self, grace_seconds: float) -> list[str]:
        """Delete the files that left the table at least ``grace_seconds`` ago; return their names."""
        limit = self._clock.monotonic() - grace_seconds
        names = [name for name, since in self._doomed.items() if since <= limit]
        with suppress(NotStored):
            self._storage.delete(names)
        for name in names:
            del self._doomed[name]
        return names
