"""Where ``messages`` stood a while ago, found in its log."""

from bisect import bisect_right
from typing import NamedTuple

from conf.clock import Clock
from delta_store.entries.settled_log import MessagesEntry
from delta_store.log.delta_log import DeltaLog, MessagesFormat
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored
from delta_store.values.watermark import Watermarks


class Stood(NamedTuple):
    """A version of ``messages``, the last batch in it, and how far it settled each stream."""

    version: int
    batch: int
    marks: Watermarks


class SettledBefore:
    """Follows the log of ``messages`` at a distance in time, each entry read once. One thread at a time."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._log, self._clock = DeltaLog(storage, MessagesFormat()), clock
        self._stood: Stood | None = None
        self._behind: MessagesEntry | None = None
        """The entry behind that, which was too new."""

    def ago(self, seconds: float, *, newest: int) -> Stood | None:
        """Return the last version up to ``newest`` that was committed so long ago; None where the log does not tell.

        What a clock that was ahead dated in the future counts as old. Raises :class:`StorageError`, ``DamagedData``.
        """
        time_ms = self._clock.now_ns() // 1_000_000 - round(seconds * 1e3)
        stood = self._stood or self._begin(time_ms, newest)
        while stood is not None and stood.version < newest:
            entry = self._behind or self._read(stood.version + 1)
            if entry is None:
                stood = self._begin(time_ms, newest)
                break
            self._behind = entry if self._dated(entry) > time_ms else None
            if self._behind is not None:
                break
            stood = _after(entry, stood)
        self._stood = stood
        return stood

    def _begin(self, time_ms: int, newest: int) -> Stood | None:
        """Find the version by few entries."""
        self._behind, old, young, step = None, newest, newest + 1, 1
        while old >= 0 and self._time(old) > time_ms:
            old, young, step = old - step, old, 2 * step
        versions = range(max(old, 0), young)
        version = versions.start + bisect_right(versions, time_ms, key=self._time) - 1
        while version >= 0 and (entry := self._read(version)) is not None:
            if entry.note is not None:
                return _after(entry, None)
            version -= 1
        return None

    def _time(self, version: int) -> int:
        """Return when a version was committed; -1 for one that log cleanup has deleted."""
        entry = self._read(version)
        return -1 if entry is None else self._dated(entry)

    def _dated(self, entry: MessagesEntry) -> int:
        return entry.timestamp_ms if entry.timestamp_ms <= self._clock.now_ns() // 1_000_000 else -1

    def _read(self, version: int) -> MessagesEntry | None:
        try:
            return self._log.entry(version)
        except NotStored:
            return None


def _after(entry: MessagesEntry, stood: Stood | None) -> Stood:
    """Return where the table stands after an entry, which another engine may have made."""
    if entry.note is None:
        assert stood is not None
        return stood._replace(version=entry.version)
    return Stood(entry.version, entry.note.batch, entry.note.watermarks)
