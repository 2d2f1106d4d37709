"""One owner per data folder: an flock that the kernel releases when the owner ends, however it ends."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from delta_store.storage.private_files import make_private_folder

LOCK_FILE = ".silt.lock"


class AlreadySettling(Exception):
    """Another process settles this folder: ``messages`` has one committer."""


class StoreLocked(Exception):
    """Another process owns the data folder."""

    def __init__(self, folder: Path, owner_pid: int | None) -> None:
        who = f"process {owner_pid}" if owner_pid else "another process"
        super().__init__(f"{folder} is in use by {who}: stop it first, or choose another folder")
        self.folder, self.owner_pid = folder, owner_pid


class StoreLock:
    """Holds a data folder from :meth:`acquire` until :meth:`release` or the end of the process.

    The lock is not inherited by processes that this one starts. The file stays; only the lock on it means anything.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fd = -1

    def acquire(self) -> None:
        """Take the folder (made if missing); raises :class:`StoreLocked`, or ``OSError`` when it can't be written."""
        make_private_folder(self.folder)
        fd = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(fd)
            os.close(fd)
            raise StoreLocked(self.folder, owner) from None
        except OSError:
            os.close(fd)
            raise
        with suppress(OSError):  # a full disk must not keep the owner out: the content only serves the message
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Give the folder up; more than once does no harm."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextmanager
def sole_settler(data: Path) -> Iterator[None]:
    """Hold the folder's settle lock; it falls with the process. Raises :class:`AlreadySettling`."""
    make_private_folder(data)
    with (data / "settle.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadySettling(f"another settle job runs on {data}") from None
        yield


def _owner(fd: int) -> int | None:
    try:
        return int(json.loads(os.pread(fd, 200, 0))["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
