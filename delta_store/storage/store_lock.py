"""Locks on a data folder: one owner of the store, one settle job, one ``silt up``.

Each is an flock that the kernel releases when its process ends, however it ends; child processes do not inherit it. The
file stays and names its last owner; only the lock on it means anything.
"""

import fcntl
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from conf.limits import LOCK_POLL_SECONDS
from delta_store.storage.private_files import make_private_folder

LOCK_FILE = ".silt.lock"


class StoreLocked(Exception):
    """Another process owns the data folder."""

    def __init__(self, folder: Path, owner_pid: int | None) -> None:
        who = f"process {owner_pid}" if owner_pid else "another process"
        super().__init__(f"{folder} is in use by {who}: stop it first, or choose another folder")
        self.folder, self.owner_pid = folder, owner_pid


class AlreadySettling(Exception):
    """Another process settles this folder: ``messages`` has one committer."""

    def __init__(self, folder: Path, _owner_pid: int | None) -> None:
        super().__init__(f"another settle job runs on {folder}")


class FolderInUse(RuntimeError):
    """Another ``silt up`` runs on the folder."""

    def __init__(self, folder: Path, owner_pid: int | None) -> None:
        super().__init__(f"another silt up runs on {folder} (process {owner_pid or 'unknown'})")


class FolderLock:
    """A lock file of a folder, held from :meth:`acquire` until :meth:`release` or the end of the process."""

    def __init__(self, folder: Path, name: str, taken: Callable[[Path, int | None], Exception]) -> None:
        """``taken`` makes the error for when another process has the lock, from its id if known."""
        self._folder, self._name, self._taken = folder, name, taken
        self._fd = -1
        self._owner_pid: int | None = None
        """Who had the lock at the last attempt."""

    def acquire(self) -> None:
        """Take the lock (the folder is made if missing); raise the error of ``taken``, or ``OSError``."""
        if not self._attempt():
            raise self._taken(self._folder, self._owner_pid)

    def wait(self, stop: Event, told: Callable[[str], None]) -> bool:
        """Wait for the lock; return False when ``stop`` is set first. ``told`` gets the owner when waiting begins.

        Raises ``OSError``.
        """
        if self._attempt():
            return True
        told(f"process {self._owner_pid or 'unknown'}")
        while not stop.wait(LOCK_POLL_SECONDS):
            if self._attempt():
                return True
        return False

    def _attempt(self) -> bool:
        make_private_folder(self._folder)
        fd = os.open(self._folder / self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._owner_pid = _owner(fd)
            os.close(fd)
            return False
        except OSError:
            os.close(fd)
            raise
        with suppress(OSError):  # a full disk must not keep the owner out: the content only serves the message
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid()}).encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Release the lock; idempotent."""
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


def store_lock(folder: Path) -> FolderLock:
    """Return the gateway's lock: its owner commits to the journal. Raises :class:`StoreLocked`."""
    return FolderLock(folder, LOCK_FILE, StoreLocked)


def settle_lock(folder: Path) -> FolderLock:
    """Return the settle job's lock: its owner commits to ``messages``. Raises :class:`AlreadySettling`."""
    return FolderLock(folder, "settle.lock", AlreadySettling)


def up_lock(folder: Path) -> FolderLock:
    """Return the lock of ``silt up``. Raises :class:`FolderInUse`."""
    return FolderLock(folder, "up.lock", FolderInUse)


def _owner(fd: int) -> int | None:
    try:
        return int(json.loads(os.pread(fd, 200, 0))["pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
