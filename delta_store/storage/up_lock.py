"""Only one ``silt up`` runs on a folder: a lock that its process holds and that ends with it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delta_store.storage.private_files import make_private_folder


class FolderInUse(RuntimeError):
    """Another ``silt up`` runs on the folder."""


@contextmanager
def up_lock(data: Path) -> Iterator[None]:
    """Hold ``<data>/up.lock`` as long as the block runs; raise :class:`FolderInUse` when another process has it.

    The kernel lets go of it when the process ends, so a killed one leaves nothing behind that would have to be
    cleared away.
    """
    make_private_folder(data)
    descriptor = os.open(data / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(f"another silt up runs on {data} (process {owner})") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
