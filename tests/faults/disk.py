"""A disk whose power can be cut: a loop device, shut down by the kernel without its file system's log being flushed."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN of the kernel."""
WITHOUT_FLUSH = struct.pack("I", 2)


_EVEN_IN_A_FILE = {"ext4": ("-F",)}


class NoDisk(RuntimeError):
    """This machine has no loop devices for us."""


class Disk:
    """A file system on a loop device."""

    def __init__(self, folder: Path, *, mib: int = 200, kind: str = "ext4") -> None:
        self.image, self.mount_point = folder / "image", folder / "disk"
        self.mount_point.mkdir()
        with self.image.open("wb") as file:
            file.truncate(mib << 20)
        subprocess.run([f"mkfs.{kind}", "-q", *_EVEN_IN_A_FILE.get(kind, ()), str(self.image)], check=True)

    def mount(self) -> None:
        """Make it available; ext4 replays what its log holds."""
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.mount_point)], check=True)

    def unmount(self, *, seconds: float = 0.0) -> None:
        """Take it away; tried again for so long while a process that is ending still holds it."""
        deadline = time.monotonic() + seconds
        while True:
            ran = subprocess.run(["umount", str(self.mount_point)], check=False, capture_output=True)
            if ran.returncode == 0:
                return
            if time.monotonic() > deadline:
                ran.check_returncode()
            time.sleep(0.1)

    def cut_power(self) -> None:
        """From here on nothing reaches the image, not even what ext4 holds in its log."""
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, WITHOUT_FLUSH)
        finally:
            os.close(fd)


@contextmanager
def mounted_disk(folder: Path, *, mib: int = 200, kind: str = "ext4") -> Iterator[Disk]:
    """A mounted disk; raises :class:`NoDisk` where there can be none."""
    if os.geteuid() != 0 or shutil.which(f"mkfs.{kind}") is None:
        raise NoDisk(f"a loop device needs root and mkfs.{kind}")
    made = Disk(folder, mib=mib, kind=kind)
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        raise NoDisk("no loop device can be mounted here") from error
    try:
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            made.unmount(seconds=20)
