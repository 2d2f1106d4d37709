"""Upkeep of the log and the folder of ``messages``: checkpoints, vacuum, log cleanup.

No commit waits for it. Every version within the horizon of a stream stays readable: of a file that left the table only
the time counts and whose it is, of the log everything from the newest checkpoint on that is older than all horizons.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from conf.clock import Clock
from conf.limits import SETTLED_CHECKPOINT_COMMITS, SETTLED_CHECKPOINT_COMMITS_MAX, STAGED_KEPT_SECONDS
from delta_store.entries import messages_checkpoint
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, LAST_FILES, checkpoint_name, files_name
from delta_store.entries.messages_checkpoint import MessagesSnapshot
from delta_store.entries.settled_log import read_entry
from delta_store.entries.staged_file import staged_epoch, stream_folder
from delta_store.log import messages_log
from delta_store.log.delta_log import path_of
from delta_store.log.log_cleanup import clean_log
from delta_store.log.messages_log import LoadedMessages
from delta_store.storage.storage import Blob, Storage, Stored
from delta_store.values.horizons import Horizons
from delta_store.values.schemas import LOG_FOLDER

_DATA: Final = ".parquet"
_TEMPORARY: Final = ".tmp"


class Vacuumed(NamedTuple):
    """The number of files that a vacuum deleted."""

    files: int
    entries: int
    checkpoints: int


class SettledUpkeep:
    """The owner's background work. One thread at a time, beside the one that commits."""

    def __init__(self, storage: Storage, log: LoadedMessages, clock: Clock, horizons: Horizons) -> None:
        self._storage, self._clock, self._horizons = storage, clock, horizons
        self._log = messages_log.log_of(storage)
        self.newest_checkpoint = log.checkpoint
        """Version; -1 without any."""
        self._checkpoint_bytes = 0
        """Bytes of the newest checkpoint that was written here."""
        self._log_bytes = log.log_bytes
        """Bytes of all entries that were counted."""
        self._covered_bytes = 0
        """Those of them that the newest checkpoint covers."""
        self.newest_files: int | None = None
        """The newest version whose live files are listed apart; None where the checkpoint is newer."""
        self._list_bytes = 0
        """Bytes of the newest such list that was written here."""
        self._listed_bytes = 0
        """Bytes of the entries that it, or the checkpoint, covers."""
        self._times: dict[int, int] = {}
        """When a checkpoint's version was committed (ms)."""

    def start(self) -> None:
        """Delete what older owners left of log entries."""
        self._storage.delete(path_of(name) for name in self._storage.sizes(LOG_FOLDER) if name.endswith(_TEMPORARY))

    def note_entry(self, size: int) -> None:
        """Count an entry; called by the thread that commits."""
        self._log_bytes += size

    def is_due(self, version: int) -> bool:
        """Whether a checkpoint is due: it would be no larger than the log that it replaces, or that is long."""
        behind, log_bytes = version - self.newest_checkpoint, self._log_bytes - self._covered_bytes
        due = behind >= SETTLED_CHECKPOINT_COMMITS and log_bytes >= self._checkpoint_bytes
        return due or behind >= SETTLED_CHECKPOINT_COMMITS_MAX

    def list_is_due(self, version: int) -> bool:
        """Whether a list of the live files is due: it would be no larger than the log that readers then pass over."""
        behind = version - max(self.newest_checkpoint, self.newest_files or -1)
        return behind >= SETTLED_CHECKPOINT_COMMITS and self._log_bytes - self._listed_bytes >= self._list_bytes

    def list_files(self, snapshot: MessagesSnapshot) -> None:
        """Write the list of a version's live files. A failure leaves the log as it was."""
        covered, body = self._log_bytes, messages_checkpoint.encode_files(snapshot)
        self._storage.write(Blob(path_of(files_name(snapshot.version)), body))
        self._storage.write(Blob(path_of(LAST_FILES), messages_checkpoint.pointer(snapshot, body)))
        self.listed(snapshot.version, len(body), covered)

    def listed(self, version: int, size: int, covered: int | None = None) -> None:
        """Count a list of so many bytes, by the bytes of entries that it covers, or all."""
        self.newest_files, self._list_bytes = version, size
        self._listed_bytes = self._log_bytes if covered is None else covered

    def checkpoint(self, snapshot: MessagesSnapshot) -> int:
        """Write a checkpoint of the snapshot, durably; return its version. A failure leaves the log as it was."""
        covered, body = self._log_bytes, messages_checkpoint.encode(snapshot)
        self._storage.write(Blob(path_of(checkpoint_name(snapshot.version)), body))
        self._storage.write(Blob(path_of(LAST_CHECKPOINT), messages_checkpoint.pointer(snapshot, body)))
        self.checkpointed(snapshot.version, len(body), covered)
        return snapshot.version

    def checkpointed(self, version: int, size: int, covered: int | None = None) -> None:
        """Count a checkpoint, as :meth:`listed` does a list."""
        self.newest_checkpoint, self._checkpoint_bytes = version, size
        self._covered_bytes = self._listed_bytes = self._log_bytes if covered is None else covered
        self.newest_files = None

    def repair(self, snapshot: MessagesSnapshot, damaged: tuple[str, ...]) -> None:
        """Replace damaged checkpoints by a whole one."""
        if damaged:
            self.checkpoint(snapshot)
            self._storage.delete(path_of(name) for name in damaged if name != checkpoint_name(snapshot.version))

    def expired(self, removed: Mapping[str, int]) -> list[str]:
        """Return those of the files, by when (ms) they left the table, that no version within their horizon has."""
        now_ms, default_ms = self._now_ms(), self._horizons.default * 1000
        own_ms = {stream_folder(stream): seconds * 1000 for stream, seconds in self._horizons.own.items()}

        def kept_ms(path: str) -> float:
            return own_ms.get(path.partition("/")[0], default_ms)

        return [path for path, at_ms in removed.items() if at_ms <= now_ms - kept_ms(path)]

    def delete(self, paths: list[str]) -> int:
        """Delete data files; return their number."""
        self._storage.delete(paths)
        return len(paths)

    def abandoned(self, known: AbstractSet[str], epoch: int) -> Iterator[str]:
        """Iterate over data files that no version has, of those not in ``known``; ``epoch`` is the owner's."""
        now_ms = self._now_ms()
        kept_ms = now_ms - STAGED_KEPT_SECONDS * 1000
        old_ms = min(kept_ms, now_ms - self._horizons.longest * 1000)
        for file in self._storage.walk():
            if file.name not in known and _is_abandoned(file, epoch, kept_ms=kept_ms, old_ms=old_ms):
                yield file.name

    def clean_log(self) -> tuple[int, int]:
        """Delete log entries and checkpoints that no version within the horizon needs; return how many of each."""
        limit_ms = self._now_ms() - self._horizons.longest * 1000
        newest = self.newest_checkpoint
        return clean_log(self._storage, newest_checkpoint=newest, limit_ms=limit_ms, time_of=self._time_of)

    def _time_of(self, version: int) -> int:
        """Return when a checkpoint's version was committed (ms)."""
        if version not in self._times:
            entry = self._log.entry(version)
            self._times[version] = read_entry(version, entry.actions, file=self._log.file_of(version)).timestamp_ms
        return self._times[version]

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _is_abandoned(file: Stored, epoch: int, *, kept_ms: float, old_ms: float) -> bool:
    """Whether a file that the log does not name is one that no commit will ever name.

    One of an older epoch is: its owner is fenced. One of this epoch may be staged, one of another program be in use.
    """
    name = file.name.rpartition("/")[2]
    if name.startswith("."):
        return name.endswith(_TEMPORARY) and file.modified_ms < kept_ms
    if not name.endswith(_DATA):
        return False
    its = staged_epoch(name)
    if its is None:
        return file.modified_ms < old_ms
    return its < epoch or (its == epoch and file.modified_ms < kept_ms)
