"""Reads the log of a Delta table, of either one: what is listed, entries, checkpoints, what is committed after them.

The tables differ in how their commits prove themselves (:class:`LogFormat`) and in what they add up to; where a log
begins, goes on and ends is the same. Invariant: a log that was cut, holed or altered is reported by the name of the
file that is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from delta_store.entries import checkpoint_file, log_entry
from delta_store.entries.checkpoint_file import DamagedCheckpoint, checkpoint_name, checkpoint_version
from delta_store.entries.journal_state import JournalState
from delta_store.entries.log_entry import JournalEntry, entry_name, version_of
from delta_store.entries.settled_log import MessagesEntry, Snapshot, parse_entry, read_checkpoint
from delta_store.storage.storage import Storage
from delta_store.values.journal_errors import NotStored, ReadOvertaken, StorageError
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER

_TRIES: Final = 4
"""A reader may meet log cleanup; what is missing then is not missing in a newer look."""
_REMOTE_THREADS: Final = 16
NO_END: Final = 1 << 62
_EntryT_co = TypeVar("_EntryT_co", covariant=True)
_StateT_co = TypeVar("_StateT_co", covariant=True)
_Found = TypeVar("_Found")


class LogFormat(Protocol[_EntryT_co, _StateT_co]):
    """What proves a table's log entries whole, and what its checkpoints hold."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """Raise :class:`DamagedData` unless the bytes are an entry as it was written."""

    def entry(self, version: int, raw: bytes, *, file: str) -> _EntryT_co:
        """The entry; raises as :meth:`verify`."""
        ...

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> _StateT_co:
        """The state at a checkpoint; raises :class:`DamagedCheckpoint`."""
        ...


class MessagesFormat:
    """Entries of ``messages`` carry a note under a checksum, which their ``add`` lines must bear out."""

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """By reading all of it."""
        parse_entry(version, raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> MessagesEntry:
        """See :func:`parse_entry`."""
        return parse_entry(version, raw, file=file)

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> Snapshot:
        """See :func:`read_checkpoint`; Spark gives checkpoints no checksum but those of Parquet's pages."""
        del checksum
        return read_checkpoint(version, body)


class JournalFormat:
    """Entries of the journal carry a CRC-32 of all their bytes; its checkpoints have one in ``_last_checkpoint``."""

    def __init__(self, app_id: str) -> None:
        self._app_id = app_id

    def verify(self, version: int, raw: bytes, *, file: str) -> None:
        """By the checksum alone."""
        del version
        log_entry.verify(raw, file=file)

    def entry(self, version: int, raw: bytes, *, file: str) -> JournalEntry:
        """See :func:`delta_store.entries.log_entry.decode`."""
        return log_entry.decode(version, raw, self._app_id, file=file)

    def checkpoint(self, version: int, body: bytes, checksum: str | None) -> JournalState:
        """See :func:`delta_store.entries.checkpoint_file.decode`."""
        return checkpoint_file.decode(version, body, app_id=self._app_id, checksum=checksum)


class Listing(NamedTuple):
    """What lies in the log's folder."""

    sizes: Mapping[str, int]
    """Bytes by name."""
    versions: list[int]
    """Of the entries, ascending."""
    checkpoints: list[int]
    """Ascending."""

    @property
    def last(self) -> int:
        """The newest version; -1 without any."""
        return self.versions[-1] if self.versions else -1


def path_of(name: str) -> str:
    """A file of the log folder as storage names it."""
    return f"{LOG_FOLDER}/{name}"


class DeltaLog(Generic[_EntryT_co, _StateT_co]):
    """The log of the table that ``storage`` holds. Keeps nothing; thread-safe."""

    def __init__(self, storage: Storage, table: LogFormat[_EntryT_co, _StateT_co]) -> None:
        self.storage, self._table = storage, table

    def file_of(self, version: int) -> str:
        """An entry as errors name it."""
        return self.named(path_of(entry_name(version)))

    def named(self, name: str) -> str:
        """Any file of the table as errors name it."""
        return f"{self.storage.uri.rstrip('/')}/{name}"

    def listed(self) -> Listing:
        """One listing of the log's folder."""
        sizes = self.storage.sizes(LOG_FOLDER)
        versions = sorted(version for name in sizes if (version := version_of(name)) is not None)
        return Listing(sizes, versions, sorted(v for name in sizes if (v := checkpoint_version(name)) is not None))

    def looked(self, look: Callable[[], _Found]) -> _Found:
        """What ``look`` finds; it looks again when damage may be what log cleanup took away meanwhile."""
        for _ in range(_TRIES - 1):
            before = self.listed().sizes.keys()
            try:
                return look()
            except DamagedData:
                if self.listed().sizes.keys() == before:
                    raise
        return look()

    def entry(self, version: int) -> _EntryT_co:
        """One version's entry; raises :class:`NotStored`, :class:`DamagedData`."""
        raw = self.storage.read(path_of(entry_name(version)))
        return self._table.entry(version, raw, file=self.file_of(version))

    def entries(self, versions: Iterable[int]) -> Iterator[_EntryT_co]:
        """Their entries; raises as :meth:`entry`."""
        for version, raw in self._read(versions):
            if raw is None:
                raise NotStored(path_of(entry_name(version)), "missing, and a later one is there")
            yield self._table.entry(version, raw, file=self.file_of(version))

    def verify(self, versions: Iterable[int]) -> None:
        """Raise :class:`DamagedData` unless those entries that are still there are as they were written."""
        for version, raw in self._read(versions):
            if raw is not None:
                self._table.verify(version, raw, file=self.file_of(version))

    def since(self, version: int, end: int = NO_END) -> Iterator[_EntryT_co]:
        """The entries from ``version`` to the end of the log, or to ``end``; looked up as they are taken.

        Raises :class:`ReadOvertaken` when cleanup has taken what comes next, :class:`DamagedData` for a hole.
        """
        while version <= end:
            try:
                entry = self.entry(version)
            except NotStored:
                break
            # Cleanup deletes upwards: while the entry before is there, this one is the one that was written first.
            self._expect(version - 1)
            yield entry
            version += 1
        self._expect(version - 1)
        if version <= end and self._has(version + 1) and not self._has(version):
            raise DamagedData(self.file_of(version), "missing, and a later one is there")

    def newest_checkpoint(
        self, listing: Listing, up_to: int = NO_END, pointed: tuple[int, str] | None = None
    ) -> tuple[_StateT_co | None, list[str]]:
        """The state of the newest whole checkpoint, and the names of the damaged ones above it.

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
        """What to say of an entry that is not there, with these damaged checkpoints above it."""
        if damaged:
            return DamagedData(self.named(path_of(damaged[0])), "damaged, and the log before it is gone")
        return DamagedData(self.named(error.name), error.reason)

    def _read(self, versions: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """The bytes of entries, None for what is not there; of an object store by several threads."""

        def read(version: int) -> tuple[int, bytes | None]:
            with suppress(NotStored):
                return version, self.storage.read(path_of(entry_name(version)))
            return version, None

        if "://" not in self.storage.uri:
            yield from map(read, versions)
            return
        wanted = list(versions)
        with ThreadPoolExecutor(_REMOTE_THREADS, thread_name_prefix="log") as threads:
            for start in range(0, len(wanted), _REMOTE_THREADS):
                yield from threads.map(read, wanted[start : start + _REMOTE_THREADS])

    def _has(self, version: int) -> bool:
        return self.storage.exists(path_of(entry_name(version)))

    def _expect(self, version: int) -> None:
        if version >= 0 and not self._has(version):
            raise ReadOvertaken(version + 1)


@contextmanager
def storage_as_os_error(location: str) -> Iterator[None]:
    """For readers of a table: what its storage reports, as the ``OSError`` that other files fail with."""
    try:
        yield
    except StorageError as error:
        raise OSError(f"{location}/{error}") from error
