"""Disk space set aside, so that decided groups can still be committed when the disk is full.

The reserve is a file without content whose blocks are allocated. A commit that finds no space takes what it needs from
it; from then on :attr:`DiskReserve.whole` is False, until the reserve can be filled and as much is free besides.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from conf.limits import JOURNAL_RESERVE_BYTES, JOURNAL_RESERVE_SHARE

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NAME: Final = ".reserve"
_SLACK_BYTES: Final = 256 * 1024
"""Need of a commit beside the bytes that it writes: partly filled blocks, inodes, folders."""


class DiskReserve:
    """The reserve of one folder. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        self.whole = True
        """Whether nothing of the reserve is in use; True on a file system that can't set space aside."""

    def fill(self) -> bool:
        """Set aside what is missing, if as much as the whole reserve is free besides; return :attr:`whole`."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.whole = error.errno not in NO_SPACE
            return self.whole
        size = os.fstat(fd).st_size
        try:
            space = os.fstatvfs(fd)
            wanted = min(JOURNAL_RESERVE_BYTES, space.f_blocks * space.f_frsize // JOURNAL_RESERVE_SHARE)
            free = space.f_bavail * space.f_frsize
            self.whole = size >= wanted or free >= 2 * wanted - size
            if self.whole and wanted:
                os.posix_fallocate(fd, 0, wanted)
        except OSError as error:
            self.whole = error.errno not in NO_SPACE
            with suppress(OSError):
                os.ftruncate(fd, size)
        finally:
            os.close(fd)
        return self.whole

    def release(self, needed_bytes: int) -> bool:
        """Free at least ``needed_bytes`` of the reserve, or all; return False when nothing is left."""
        try:
            size = self._path.stat().st_size
            if size:
                os.truncate(self._path, max(0, size - needed_bytes - _SLACK_BYTES))
        except OSError:
            return False
        self.whole = False
        return size > 0
