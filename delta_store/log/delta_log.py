"""The reader of a Delta table's log, of either table: listing, entries, checkpoints, newer commits.

The tables differ in how their commits are verified (:class:`LogFormat`) and in their state; where a log begins,
continues and ends is the same. Invariant: a log that was truncated, holed or altered is reported by the name of the
file at fault.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from delta_store.entries import checkpoint_file, checkpoint_table, entry_seal, log_entry, messages_checkpoint
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, DamagedCheckpoint, checkpoint_name, checkpoint_version
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import JournalEntry, entry_name, version_of
from delta_store.entries.settled_log import MessagesEntry, Snapshot, parse_entry
from delta_store.storage.read_many import each
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored, ReadOvertaken, StorageError
from delta_store.values.read_errors import DamagedData, StoreAway
from delta_store.values.schemas import LOG_FOLDER

_TRIES: Final = 4
"""A reader may meet log cleanup; a file that is missing then is not expected by a newer reading."""
NO_END: Final = 1 << 62
_MANY, _AHEAD = 4, 16
"""After so many new entries of a log in an object store, so many are read at once."""
_EntryT_co = TypeVar("_EntryT_co", covariant=True)
_StateT_co = TypeVar("_StateT_co", covariant=True)
_Found = TypeVar("_Found")


class LogFormat(Protocol[_EntryT_co, _StateT_co]):
    """How a table's log entries are verified, and what its checkpoints hold."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Raise :class:`DamagedData` unless the bytes are an entry as it was written."""

    def entry(self, version: int, raw: bytes, *, file: str) -> _EntryT_co:
        """Decode the entry; raise as :meth:`verify`."""
        ...

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> _StateT_co:
        """Return the state at a checkpoint; raise :class:`DamagedCheckpoint`."""
        ...


class MessagesFormat:
    """The format of ``messages``: a note under a checksum, checked against the ``add`` lines."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Parse the whole entry."""
        parse_entry(version, raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> MessagesEntry:
        """See :func:`parse_entry`."""
        return parse_entry(version, raw, file=file)

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> Snapshot:
        """See :func:`delta_store.entries.messages_checkpoint.read_files`; Spark's have no checksum but their pages'."""
        return messages_checkpoint.read_files(version, body, checksum=checksum)


class JournalFormat:
    """The format of the journal: a CRC-32 of all bytes of an entry; that of a checkpoint is in ``_last_checkpoint``."""

    def __init__(self, app_id: str) -> None:
        self._app_id = app_id

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Verify the checksum alone."""
        del version
        entry_seal.verify(raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> JournalEntry:
        """See :func:`delta_store.entries.log_entry.decode`."""
        return log_entry.decode(version, raw, self._app_id, file=file)

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> JournalState:
        """See :func:`delta_store.entries.checkpoint_file.decode`."""
        return checkpoint_file.decode(version, body, app_id=self._app_id, checksum=checksum)


class Listing(NamedTuple):
    """The files of the log's folder."""

    sizes: Mapping[str, int]
    """Bytes by name."""
    versions: list[int]
    """Versions of the entries, ascending."""
    checkpoints: list[int]
    """Versions of the checkpoints, ascending."""

    @property
    def last(self) -> int:
        """The newest version; -1 without any."""
        return self.versions[-1] if self.versions else -1

    @property
    def start(self) -> int:
        """The oldest version from which on no entry is missing; 0 without any. What is older, cleanup has left."""
        at = len(self.versions) - 1
        while at > 0 and self.versions[at - 1] == self.versions[at] - 1:
            at -= 1
        return self.versions[at] if self.versions else 0


def path_of(name: str) -> str:
    """Return the path of a file of the log folder, relative to the table."""
    return f"{LOG_FOLDER}/{name}"


class _History:
    """Which versions log cleanup has deleted; it deletes upwards from version 0, which is no claim.

    Where claims stay, a version may be gone although the entry before is there, which then is a claim.
    """

    def __init__(self, storage: Storage, *, claims_stay: bool) -> None:
        self._storage, self._claims_stay = storage, claims_stay
        self._looked_at = (-1, False)
        """The last version that a follower stopped behind, and whether it is a claim."""

    def holds(self, version: int) -> bool:
        """Whether a version that is not there, or has just been put, was written before and cleaned up."""
        if version <= 0:
            return False
        if not self._has(version - 1):
            return True
        return self._claims_stay and self._is_claim(version - 1) and _listed(self._storage).start > version

    def has_overtaken(self, version: int) -> bool:
        """Do :meth:`holds` for a version that is not there; list the folder only where cleanup may have been there.

        It deletes only below the checkpoint that is pointed to.
        """
        if version > 0 and self._has(version - 1):
            if not self._claims_stay or not self._is_claim(version - 1) or self._has(0):
                return False
            pointed = _pointed(self._storage)
            if pointed is not None and pointed[0] < version:
                return False
        return self.holds(version)

    def _has(self, version: int) -> bool:
        return self._storage.exists(path_of(entry_name(version)))

    def _is_claim(self, version: int) -> bool:
        """Whether the entry is a claim, or has just been cleaned up."""
        known, claim = self._looked_at
        if known == version:
            return claim
        try:
            claim = log_entry.is_claim(self._storage.read(path_of(entry_name(version))))
        except NotStored:
            return True
        self._looked_at = (version, claim)
        return claim


def _listed(storage: Storage) -> Listing:
    sizes = storage.sizes(LOG_FOLDER)
    versions = sorted(version for name in sizes if (version := version_of(name)) is not None)
    return Listing(sizes, versions, sorted(v for name in sizes if (v := checkpoint_version(name)) is not None))


def _pointed(storage: Storage) -> tuple[int, str] | None:
    with suppress(NotStored):
        return checkpoint_table.pointed(storage.read(path_of(LAST_CHECKPOINT)))
    return None


class DeltaLog(Generic[_EntryT_co, _StateT_co]):
    """The log of the table in ``storage``. Thread-safe."""

    def __init__(
        self, storage: Storage, table: LogFormat[_EntryT_co, _StateT_co], *, claims_stay: bool = False
    ) -> None:
        """``claims_stay``: log cleanup leaves the claims of owners where they are."""
        self.storage, self._table, self._claims_stay = storage, table, claims_stay
        self._history = _History(storage, claims_stay=claims_stay)

    def file_of(self, version: int) -> str:
        """Return an entry's full name, for errors."""
        return self.named(path_of(entry_name(version)))

    def named(self, name: str) -> str:
        """Return the full name of any file of the table, for errors."""
        return f"{self.storage.uri.rstrip('/')}/{name}"

    def listed(self) -> Listing:
        """List the log's folder once."""
        return _listed(self.storage)

    def looked(self, look: Callable[[], _Found]) -> _Found:
        """Return the result of ``look``, repeated when its damage may be files that log cleanup deleted meanwhile."""
        before = None
        for _ in range(_TRIES):
            try:
                return look()
            except DamagedData:
                now = self.listed().sizes.keys()
                if now == before:
                    raise
                before = now
        return look()

    def entry(self, version: int) -> _EntryT_co:
        """Return one version's entry; raise :class:`NotStored`, :class:`DamagedData`."""
        raw = self.storage.read(path_of(entry_name(version)))
        return self._table.entry(version, raw, file=self.file_of(version))

    def entries(self, versions: Iterable[int]) -> Iterator[_EntryT_co]:
        """Iterate over the versions' entries; raise as :meth:`entry`."""
        for version, raw in self._read(versions):
            if raw is None:
                raise NotStored(path_of(entry_name(version)), "missing, and a later one is there")
            yield self._table.entry(version, raw, file=self.file_of(version))

    def verify(self, versions: Iterable[int]) -> set[int]:
        """Raise :class:`DamagedData` unless those of the entries that still exist are as they were written.

        Returns the versions of those that cleanup leaves.
        """
        left = set()
        for version, raw in self._read(versions):
            if raw is not None:
                self._table.verify(version, raw, file=self.file_of(version))
                if self._claims_stay and log_entry.is_claim(raw):
                    left.add(version)
        return left

    def since(self, version: int, end: int = NO_END) -> Iterator[_EntryT_co]:
        """Iterate over the entries from ``version`` to the end of the log, or to ``end``; they are read on demand.

        One by one, and of an object store several at once when there are many.

        Raises :class:`ReadOvertaken` when cleanup has deleted the next one, :class:`DamagedData` for a hole.
        """
        wide, known = 1, 0
        while version <= end:
            read = self._read(range(version, min(version + wide, end + 1)))
            found = [raw for _, raw in takewhile(lambda one: one[1] is not None, read) if raw is not None]
            # Cleanup deletes upwards: while the entry before exists, these are the first that were written.
            if found and version > 0 and not self._has(version - 1):
                raise ReadOvertaken(version)
            for raw in found:
                yield self._table.entry(version, raw, file=self.file_of(version))
                version += 1
            if len(found) < wide:
                break
            known += len(found)
            wide = _AHEAD if known >= _MANY and "://" in self.storage.uri else 1
        if self._history.has_overtaken(version):
            raise ReadOvertaken(version)
        if version <= end and self._has(version + 1) and not self._has(version):
            raise DamagedData(self.file_of(version), "missing, and a later one is there")

    def is_history(self, version: int) -> bool:
        """Whether a version that is not there, or has just been put, was written before and cleaned up."""
        return self._history.holds(version)

    def pointed(self) -> tuple[int, str] | None:
        """Return version and checksum of the checkpoint that ``_last_checkpoint`` names, if it is one of Silt's."""
        return _pointed(self.storage)

    def at_pointer(self, pointed: tuple[int, str] | None) -> _StateT_co | None:
        """Return the state at the checkpoint that is pointed to; None without one, or without a whole one."""
        if pointed is not None:
            with suppress(DamagedCheckpoint, NotStored):
                body = self.storage.read(path_of(checkpoint_name(pointed[0])))
                return self._table.checkpoint(pointed[0], body, pointed[1])
        return None

    def newest_checkpoint(
        self, listing: Listing, up_to: int = NO_END, pointed: tuple[int, str] | None = None
    ) -> tuple[_StateT_co | None, list[str]]:
        """Return the state of the newest whole checkpoint, and the names of the damaged ones above it.

        ``pointed``: the version that must have one, and its checksum.
        """
        damaged: list[str] = []
        if pointed is not None and pointed[0] not in listing.checkpoints:
            damaged.append(checkpoint_name(pointed[0]))
        for version in [point for point in reversed(listing.checkpoints) if point <= up_to]:
            checksum = pointed[1] if pointed is not None and pointed[0] == version else None
            try:
                body = self.storage.read(path_of(checkpoint_name(version)))
                return self._table.checkpoint(version, body, checksum), damaged
            except (DamagedCheckpoint, NotStored):
                damaged.append(checkpoint_name(version))
        return None, damaged

    def missing(self, error: NotStored, damaged: list[str]) -> DamagedData:
        """Return the error for a missing entry, with these damaged checkpoints above it."""
        if damaged:
            return DamagedData(self.named(path_of(damaged[0])), "damaged, and the log before it is gone")
        return DamagedData(self.named(error.name), error.reason)

    def _read(self, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """Iterate over the bytes of entries, None for missing ones."""

        def read(version: int) -> tuple[int, bytes | None]:
            with suppress(NotStored):
                return version, self.storage.read(path_of(entry_name(version)))
            return version, None

        return each(self.storage.uri, read, versions)

    def _has(self, version: int) -> bool:
        return self.storage.exists(path_of(entry_name(version)))


def refuse_end(log: DeltaLog[_EntryT_co, _StateT_co], version: int, pointed: tuple[int, str] | None) -> None:
    """Raise :class:`DamagedData` where a log ends before the checkpoint that is pointed to."""
    if pointed is not None and pointed[0] > version:
        why = f"ends at version {version}, a checkpoint was made at {pointed[0]}"
        raise DamagedData(log.named(LOG_FOLDER), why)


def oldest_entry(storage: Storage, newest: int) -> int:
    """Return the oldest version whose entry is still there, by bisection: cleanup deletes upwards from version 0.

    So it costs a few looks, not a list of the folder. ``newest`` is a version that is there, or -1 without any.
    """
    low, high = 0, max(newest, 0)
    while low < high:
        middle = (low + high) // 2
        if storage.exists(path_of(entry_name(middle))):
            high = middle
        else:
            low = middle + 1
    return low


@contextmanager
def storage_as_os_error(location: str) -> Iterator[None]:
    """Raise a storage's errors as for any other file of a table: ``OSError``, or ``StoreAway`` for an object store."""
    try:
        yield
    except StorageError as error:
        if "://" in location:
            raise StoreAway(f"{location}/{error.name}", error.reason) from error
        raise OSError(f"{location}/{error}") from error
