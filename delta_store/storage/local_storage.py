"""A table on a local disk: every file and the folder that names it are fsynced before it counts.

A log entry is written to a file without a name (O_TMPFILE) and linked when it is whole and on the disk: no reader ever
sees a part of one, and linking fails if the name is taken.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn
from weakref import finalize

from delta_store.storage.disk_reserve import NO_SPACE, DiskReserve
from delta_store.storage.fsync import fsync_path
from delta_store.storage.shared_blocks import share
from delta_store.storage.storage import Blob, Stored
from delta_store.values.journal_errors import EntryExists, NotStored, StorageFailed, StorageFull
from delta_store.values.schemas import LOG_FOLDER

_NO_TMPFILE: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT, errno.EINVAL})
_PARTS_MAX: Final = 1024
"""Parts that one call writes (Linux's IOV_MAX)."""
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})


class LocalStorage:
    """A folder on a local disk; it and its log stay open."""

    repeatable = False

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.uri = str(self.root)
        self.options: Mapping[str, str] = {}
        self._folders: dict[str, int] = {}
        finalize(self, _close, self._folders)
        self._durable = {"", LOG_FOLDER}
        """Folders whose names are on the disk."""
        self._reserve = DiskReserve(self.root)
        self.nameless = Path("/proc/self/fd").is_dir()
        """Whether this file system supports files without a name (O_TMPFILE)."""

    def prepare(self, probe_id: str) -> None:  # noqa: ARG002  # a local link is atomic: nothing to probe
        """Make the folders, durably.

        A folder that exists may not be on the disk yet: its maker may have been killed before the fsync, or have left
        it to others. So all folders above are fsynced each time, as far as they can be opened.
        """
        log = self.root / LOG_FOLDER
        with _translated(str(log)):
            missing = [path for path in (log, *log.parents) if not path.exists()]
            log.mkdir(parents=True, exist_ok=True)
            must = {self.root, self.root.parent, *(path.parent for path in missing)}
            for path in log.parents:
                try:
                    fsync_path(path)
                except OSError:
                    if path in must:
                        raise

    def set_aside(self) -> None:
        """Fill the reserve."""
        self._reserve.fill()

    @property
    def has_room(self) -> bool:
        """False from the first commit out of the reserve until the reserve is full again."""
        return self._reserve.whole or self._reserve.fill()

    def publish(self, entry: Blob, data: Blob | None = None) -> None:
        """Publish with four fsyncs: file, its folder, entry, its folder. A full disk takes space from the reserve."""
        needed = 1
        while True:
            try:
                return self._publish(entry, data)
            except StorageFull as error:
                needed *= entry.size + (data.size if data is not None else 0)
                if error.published is not False or not self._reserve.release(needed):
                    raise

    def _publish(self, entry: Blob, data: Blob | None) -> None:
        attempt = _Publishing(self, entry, data)
        try:
            attempt.run()
        except OSError as error:
            published = attempt.published(error)
            if published is False:
                attempt.forget_data()
            _raise(entry.name, error, published=published)
        finally:
            attempt.close()

    def write(self, blob: Blob) -> None:
        """Write a temporary file and rename it."""
        folder, _, name = blob.name.rpartition("/")
        with _translated(blob.name), self._open(folder) as at:
            _replace(at, name, blob)

    def write_behind(self, source: str, more: Blob) -> None:
        """Write a temporary file with the other one's blocks, or a copy made by the kernel, and rename it."""
        folder, _, name = more.name.rpartition("/")
        try:
            held = os.open(self.root / source, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NotStored(source, "not found") from error
        except OSError as error:
            _raise(source, error, published=False)
        try:
            with _translated(more.name), self._open(folder) as at:
                _replace(at, name, more, begin=partial(share, held))
        finally:
            os.close(held)

    def read(self, name: str) -> bytes:
        """Read the whole file."""
        try:
            with (self.root / name).open("rb", buffering=0) as file:
                return file.read()
        except FileNotFoundError as error:
            raise NotStored(name, "not found") from error
        except OSError as error:
            _raise(name, error, published=False)

    def exists(self, name: str) -> bool:
        """Stat by path: a folder that was moved away, or replaced, is not the journal any more."""
        with _translated(name), suppress(FileNotFoundError, NotADirectoryError):
            os.stat(f"{self.uri}/{name}")  # noqa: PTH116  # on the way of every acknowledgement
            return True
        return False

    def sizes(self, folder: str) -> dict[str, int]:
        """Scan the directory once, with a stat a file."""
        with _translated(folder), suppress(FileNotFoundError), os.scandir(self.root / folder) as items:
            found = {}
            for item in items:
                with suppress(FileNotFoundError):
                    if item.is_file():
                        found[item.name] = item.stat().st_size
            return found
        return {}

    def walk(self) -> Iterator[Stored]:
        """Scan one folder after the other; what is deleted meanwhile is passed over."""
        folders = [""]
        while folders:
            folder = folders.pop()
            with _translated(folder), suppress(FileNotFoundError), os.scandir(self.root / folder) as items:
                for item in items:
                    name = f"{folder}/{item.name}".lstrip("/")
                    if item.is_dir(follow_symlinks=False):
                        folders += [] if name == LOG_FOLDER else [name]
                        continue
                    with suppress(FileNotFoundError):
                        found = item.stat()
                        yield Stored(name, found.st_size, found.st_mtime_ns // 1_000_000)

    def delete(self, names: Iterable[str]) -> None:
        """Delete without fsync: a deletion that a power cut undoes is done again."""
        for name in names:
            with _translated(name):
                (self.root / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the folders; one that is given up without does it by itself."""
        _close(self._folders)

    def folder(self, name: str) -> int:
        """Return the descriptor of the folder, which stays open."""
        fd = self._folders.get(name)
        if fd is None:
            opened = os.open(self.root / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fd = self._folders.setdefault(name, opened)
            if fd != opened:  # another thread was faster
                os.close(opened)
        return fd

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """Provide the descriptor of a folder, which is made if missing; only those of commits stay open."""
        if name in {"", LOG_FOLDER}:
            yield self.folder(name)
            return
        self._make(name)
        fd = os.open(self.root / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)

    def _make(self, name: str) -> None:
        """Make a folder inside the table, durably: one that exists may not be on the disk yet, see :meth:`prepare`."""
        if name in self._durable:
            return
        above = name.rpartition("/")[0]
        self._make(above)
        (self.root / name).mkdir(exist_ok=True)
        fsync_path(self.root / above)
        self._durable.add(name)


def _close(folders: dict[str, int]) -> None:
    while folders:
        os.close(folders.popitem()[1])


class _Publishing:
    """One :meth:`LocalStorage.publish`: its open files, and how far it came."""

    def __init__(self, storage: LocalStorage, entry: Blob, data: Blob | None) -> None:
        self._storage, self._entry, self._data = storage, entry, data
        self._data_fd = self._entry_fd = -1
        self._temporary = ""
        """Name of the entry's file before it is linked, where O_TMPFILE is not supported."""
        self._linking = self._linked = False

    def run(self) -> None:
        """Write, fsync and link, in the order that makes a visible entry a durable one."""
        root, log = self._storage.folder(""), self._storage.folder(LOG_FOLDER)
        if self._data is not None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._data_fd = os.open(self._data.name, flags, 0o644, dir_fd=root)
            _write_all(self._data_fd, self._data)
        self._stage(log)
        # Starts the entry's writeback, so that the fsync of the data carries its blocks in the same disk commit.
        os.posix_fadvise(self._entry_fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if self._data is not None:
            os.fsync(self._data_fd)
            os.fsync(root)
        os.fsync(self._entry_fd)
        self._link(log)
        os.fsync(log)

    def published(self, error: OSError) -> bool | None:
        """Whether the entry is visible after ``error``; None when that is not known."""
        if self._linking and not self._linked:
            return False if error.errno in NO_SPACE else None
        return self._linked

    def forget_data(self) -> None:
        """Delete the data file, which no entry names."""
        if self._data_fd >= 0 and self._data is not None:
            with suppress(OSError):
                os.unlink(self._data.name, dir_fd=self._storage.folder(""))

    def close(self) -> None:
        """Close the open files."""
        if self._temporary:
            with suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._storage.folder(LOG_FOLDER))
        for fd in (self._data_fd, self._entry_fd):
            if fd >= 0:
                os.close(fd)

    def _stage(self, log: int) -> None:
        """Write the entry to a file that no reader of the log sees."""
        flags = os.O_WRONLY | os.O_CLOEXEC
        if self._storage.nameless:
            try:
                self._entry_fd = os.open(".", flags | os.O_TMPFILE, 0o644, dir_fd=log)
            except OSError as error:
                if error.errno not in _NO_TMPFILE:
                    raise
                self._storage.nameless = False
        if self._entry_fd < 0:
            temporary = f".{self._name}.tmp"
            self._entry_fd = os.open(temporary, flags | os.O_CREAT | os.O_TRUNC, 0o644, dir_fd=log)
            self._temporary = temporary
        _write_all(self._entry_fd, self._entry)

    def _link(self, log: int) -> None:
        """Give the entry its name; raise :class:`EntryExists` if it is taken."""
        self._linking = True
        try:
            if self._temporary:
                os.link(self._temporary, self._name, src_dir_fd=log, dst_dir_fd=log)
            else:
                os.link(f"/proc/self/fd/{self._entry_fd}", self._name, dst_dir_fd=log, follow_symlinks=True)
        except FileExistsError:
            raise EntryExists(self._entry.name, "there already") from None
        self._linked = True

    @property
    def _name(self) -> str:
        return self._entry.name.rpartition("/")[2]


class _translated:  # noqa: N801  # reads as the statement it is
    """A context that turns ``OSError`` into :class:`StorageError`, for operations that publish nothing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            _raise(self._name, error, published=False)


def _raise(name: str, error: OSError, *, published: bool | None) -> NoReturn:
    reason = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in NO_SPACE:
        raise StorageFull(name, reason, published=published) from error
    retryable = published is False and error.errno in _NO_DESCRIPTORS
    raise StorageFailed(name, reason, published=published, retryable=retryable) from error


def _replace(at: int, name: str, blob: Blob, *, begin: Callable[[int], None] | None = None) -> None:
    """Create or replace a file in an open folder, durably; ``begin`` writes what is in front of the blob."""
    temporary = f".{name}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644, dir_fd=at)
    try:
        if begin is not None:
            begin(fd)
        _write_all(fd, blob)
        os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise
    finally:
        os.close(fd)
    os.fsync(at)


def _write_all(fd: int, blob: Blob) -> None:
    _write(fd, memoryview(blob.body), os.write(fd, blob.body))
    for start in range(0, len(blob.more), _PARTS_MAX):
        parts = blob.more[start : start + _PARTS_MAX]
        written = os.writev(fd, parts)
        for part in parts:
            if written < len(part):
                _write(fd, memoryview(part), written)
            written = max(0, written - len(part))


def _write(fd: int, part: memoryview, written: int) -> None:
    """Write the rest of a part of which the first ``written`` bytes are written."""
    rest = part[written:]
    while rest:
        rest = rest[os.write(fd, rest) :]
