"""A disk that remembers what was fsynced, and what of the rest a power cut may leave: any part of it.

The files are real ones, in memory, so that all readers find them as on any disk. What is durable is known of each file
(its content at its last fsync) and of each folder (its names at its last fsync). :class:`DiskOs` stands in for ``os``
where Silt fsyncs: it takes notes, counts the steps of the journal, and fails or cuts the power at the step it is told.
"""

import errno
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from delta_store.log import settled_durability
from delta_store.storage import disk_reserve, fsync, local_storage

_BLOCK = 4096
_BLOCKS = 256
_GONE = b""


class PowerCut(BaseException):
    """The machine, or the process alone, is no more."""


class SimDisk:
    """One folder; ``dice`` says what a power cut leaves."""

    def __init__(self, root: Path, dice: random.Random) -> None:
        self.root = root.resolve()
        self._dice = dice
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._never: set[int] = set()
        """Files whose fsync failed: the kernel has forgotten that they were to be written."""
        self.steps = 0
        self.stop_at = -1
        """The step at which the process ends; -1 for none."""
        self.fail_at = -1
        """The step that fails with EIO."""
        self.full = False
        self.spare = 0
        """Bytes of the reserve that were given back on a full disk."""
        self.cut: bool | None = None
        """Whether the end was a power cut; None while the process runs."""
        self.power = False
        """Whether the next end is a power cut."""
        self.image: dict[str, bytes | None] = {}
        self.settle_down()

    def settle_down(self) -> None:
        """All that is there is on the disk."""
        self._content.clear()
        self._names.clear()
        self._never.clear()
        for folder, _, names in os.walk(self.root):
            self._names[Path(folder).stat().st_ino] = _listing(folder)
            for name in names:
                path = Path(folder, name)
                self._content[path.stat().st_ino] = path.read_bytes()

    def end(self) -> None:
        """The process ends now; with :attr:`power` the machine does, and the disk keeps what it must, and may."""
        if self.cut is None:
            self.cut = self.power
            if self.power:
                self.image = dict(self._survivors())

    def start_again(self) -> None:
        """The disk as the next process finds it."""
        if self.cut:
            for item in self.root.iterdir():
                shutil.rmtree(item) if item.is_dir() else item.unlink()
            for name, content in self.image.items():
                path = self.root / name
                if content is None:
                    path.mkdir()
                else:
                    path.write_bytes(content)
            self.settle_down()
        self.cut, self.image, self.stop_at, self.fail_at, self.full, self.spare = None, {}, -1, -1, False, 0

    def step(self) -> None:
        """One step of the journal's; may be the last."""
        if self.cut is not None:
            raise PowerCut
        self.steps += 1
        if self.steps == self.stop_at:
            self.end()
            raise PowerCut
        if self.steps == self.fail_at:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def take_space(self, size: int) -> None:
        """Of a full disk there is only what the reserve gave back."""
        if self.full:
            if size > self.spare:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.spare -= size

    def fsynced(self, fd: int) -> None:
        """What this descriptor names is on the disk."""
        if self.cut is not None or not str(Path(f"/proc/self/fd/{fd}").readlink()).startswith(str(self.root)):
            return
        path = f"/proc/self/fd/{fd}"
        inode = os.fstat(fd).st_ino
        if Path(path).is_dir():
            self._names[inode] = _listing(path)
        elif inode not in self._never:
            self._content[inode] = Path(path).read_bytes()

    def fsync_failed(self, fd: int) -> None:
        """What was to be written is forgotten, and the next fsync says that all is well."""
        if not Path(f"/proc/self/fd/{fd}").is_dir():
            self._never.add(os.fstat(fd).st_ino)

    def _survivors(self) -> Iterator[tuple[str, bytes | None]]:
        """What the disk holds after the cut: parents before what is in them; None stands for a folder."""
        here = {}
        for folder, _, names in os.walk(self.root):
            here[Path(folder).stat().st_ino] = folder
            here.update((Path(folder, name).stat().st_ino, str(Path(folder, name))) for name in names)
        # How the cut falls: everything not fsynced is lost, or everything is kept, or anything goes.
        keeps = self._dice.choice((0.0, 0.0, 0.5, 0.8, 1.0))
        todo = [("", self.root.stat().st_ino)]
        while todo:
            at, folder = todo.pop()
            durable = self._names.get(folder, {})
            current = _listing(here[folder]) if folder in here else {}
            for name in sorted(durable.keys() | current.keys()):
                old, new = durable.get(name), current.get(name)
                inode = new if old == new or self._dice.random() < keeps else old
                if inode is None:
                    continue
                place = f"{at}{name}"
                if inode in self._names or (inode in here and Path(here[inode]).is_dir()):
                    yield place, None
                    todo.append((f"{place}/", inode))
                else:
                    yield place, self._survivor(inode, here.get(inode), keeps)

    def _survivor(self, inode: int, path: str | None, keeps: float) -> bytes:
        durable = self._content.get(inode)
        current = Path(path).read_bytes() if path is not None else durable
        if durable == current or current is None:
            return durable or _GONE
        if self._dice.random() < keeps:
            return current
        length = self._dice.randrange(len(current) + 1)
        torn = (durable or _GONE, current[:length], current[:length] + b"\0" * (len(current) - length))
        return self._dice.choice(torn)


def _listing(folder: str) -> dict[str, int]:
    with os.scandir(folder) as items:
        return {item.name: item.inode() for item in items}


class DiskOs:
    """``os`` for the modules that write the journal, and that fsync what is settled."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._open: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        """A new file takes space."""
        makes = flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE
        if makes and ".reserve" not in str(path):
            self._disk.step()
            self._disk.take_space(0)
        opened = os.open(path, flags, *args, **named)
        if not flags & os.O_DIRECTORY:
            self._open.add(opened)
        return opened

    def close(self, fd: int) -> None:
        """As it is."""
        self._open.discard(fd)
        os.close(fd)

    def close_all(self) -> None:
        """Close the files that killed processes had open, as a real one's end does.

        A folder is closed by its storage, whenever that is collected: closed here too, its number would by then be
        another file's.
        """
        while self._open:
            os.close(self._open.pop())

    def write(self, fd: int, data: Any) -> int:
        """A cut may fall in the middle."""
        self._disk.take_space(len(data))
        self._torn_step(fd, data)
        return os.write(fd, data)

    def writev(self, fd: int, parts: Any) -> int:
        """Likewise."""
        self._disk.take_space(sum(map(len, parts)))
        self._torn_step(fd, parts[0])
        return os.writev(fd, parts)

    def fsync(self, fd: int) -> None:
        """A cut may fall before it or behind it."""
        try:
            self._disk.step()
        except OSError:
            self._disk.fsync_failed(fd)
            raise
        self._disk.fsynced(fd)
        self._disk.step()

    def link(self, *args: Any, **named: Any) -> None:
        """Before or behind."""
        self._disk.step()
        os.link(*args, **named)
        self._disk.step()

    def rename(self, *args: Any, **named: Any) -> None:
        """Before or behind."""
        self._disk.step()
        os.rename(*args, **named)  # noqa: PTH104  # by open folders
        self._disk.step()

    def fstatvfs(self, fd: int) -> os.statvfs_result:
        """A small disk."""
        free = 0 if self._disk.full else _BLOCKS // 2
        return os.statvfs_result((_BLOCK, _BLOCK, _BLOCKS, free, free, 0, 0, 0, 0, 255))

    def truncate(self, path: Any, size: int) -> None:
        """The reserve gives back space."""
        self._disk.spare += Path(path).stat().st_size - size
        os.truncate(path, size)

    def _torn_step(self, fd: int, data: Any) -> None:
        try:
            self._disk.step()
        except PowerCut:
            with suppress(OSError):
                os.write(fd, bytes(data)[: len(data) // 2])
            raise


@contextmanager
def installed(disk_os: DiskOs) -> Iterator[None]:
    """Have Silt's fsyncs noted."""
    with ExitStack() as stack:
        for module in (local_storage, settled_durability, disk_reserve, fsync):
            stack.enter_context(mock.patch.object(module, "os", disk_os))
        stack.callback(disk_os.close_all)
        yield
