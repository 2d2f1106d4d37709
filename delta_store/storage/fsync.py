"""Fsync by path."""

import os
from pathlib import Path


def fsync_path(path: Path) -> None:
    """Fsync a file or folder by its path; raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
