"""Copies of files that share their blocks with the original, on file systems that can (XFS, btrfs, bcachefs)."""

import errno
import fcntl
import os
from typing import Final

FICLONE: Final = 0x40049409
"""The request to share all blocks of a file; Linux's ``include/uapi/linux/fs.h``."""
_CAN_NOT: Final = frozenset(
    {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV, errno.ENOSYS, errno.EPERM, errno.ETXTBSY}
)
_COPIED_BYTES: Final = 1 << 30
"""What one call may copy."""
_READ_BYTES: Final = 1 << 20


def share(source: int, target: int) -> None:
    """Make an open, empty file begin as another open one is, and stand behind that; raise ``OSError``.

    Blocks are shared, else copied in the kernel, else read and written.
    """
    try:
        fcntl.ioctl(target, FICLONE, source)
        os.lseek(target, 0, os.SEEK_END)
    except OSError as error:
        if error.errno not in _CAN_NOT:
            raise
        _copy(source, target)


def _copy(source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _COPIED_BYTES):
            pass
    except OSError as error:
        if error.errno not in _CAN_NOT:
            raise
        while part := memoryview(os.read(source, _READ_BYTES)):
            while part:
                part = part[os.write(target, part) :]
