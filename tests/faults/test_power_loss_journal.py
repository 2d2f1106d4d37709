"""A power cut: the file system is shut down without its log being flushed, then mounted again.

What was acknowledged must be there; what was not may be there as a whole or not at all.
"""

import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from delta_store.local_storage import LocalStorage
from delta_store.log_entry import LOG_FOLDER
from tests.groups import group, open_journal, reader, sequences, through_delta_rs

pytestmark = pytest.mark.power_loss

ROOT = Path(__file__).resolve().parents[2]
SHUTDOWN = 0x8004587D
"""FS_IOC_SHUTDOWN of the kernel."""
WITHOUT_FLUSH = struct.pack("I", 2)


class Disk:
    """An ext4 file system on a loop device."""

    def __init__(self, folder: Path) -> None:
        self.image, self.mount_point = folder / "image", folder / "disk"
        self.mount_point.mkdir()
        with self.image.open("wb") as file:
            file.truncate(200 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", str(self.image)], check=True)

    def mount(self) -> None:
        """Make it available; ext4 replays what its log holds."""
        subprocess.run(["mount", "-o", "loop", str(self.image), str(self.mount_point)], check=True)

    def unmount(self) -> None:
        """Take it away."""
        subprocess.run(["umount", str(self.mount_point)], check=True)

    def cut_power(self) -> None:
        """From here on nothing reaches the image, not even what ext4 holds in its log."""
        fd = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, WITHOUT_FLUSH)
        finally:
            os.close(fd)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A mounted disk; skipped where there can be none."""
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a loop device needs root and mkfs.ext4")
    made = Disk(tmp_path)
    try:
        made.mount()
    except subprocess.CalledProcessError:
        pytest.skip("no loop device can be mounted here")
    yield made
    with suppress(subprocess.CalledProcessError):
        made.unmount()


def _run_until(folder: Path, acknowledgements: int, disk: Disk) -> int:
    """A writer process, whose power goes after so many acknowledgements; returns the last acknowledged sequence."""
    command = [sys.executable, "-m", "tests.journal_writer", str(folder), "3"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        lines = [writer.stdout.readline() for _ in range(acknowledgements)]
        disk.cut_power()
        lines += writer.stdout.read().splitlines()
        writer.kill()
    return max((int(line.split()[1]) for line in lines if line.startswith("ack ")), default=0)


def test_acknowledged_groups_survive_power_cuts(disk: Disk) -> None:
    """Again and again on one disk, amid commits and checkpoints: nothing acknowledged is lost, nothing is torn."""
    folder, dice, acked = disk.mount_point / "data" / "journal", random.Random(11), 0
    for _ in range(8):
        acked = max(acked, _run_until(folder, dice.randrange(1, 40), disk))
        disk.unmount()
        disk.mount()
        seqs = sequences(reader(folder).live_rows())
        assert seqs == list(range(1, len(seqs) + 1))
        assert acked <= len(seqs) <= acked + 3
        assert len(seqs) % 3 == 0
        assert through_delta_rs(folder) == seqs
    assert acked > 0


def test_what_was_not_fsynced_is_lost_here(disk: Disk) -> None:
    """The method works: a file that no one fsynced is gone or empty after such a cut."""
    plain = disk.mount_point / "plain"
    plain.write_bytes(b"x" * 10_000)
    disk.cut_power()
    disk.unmount()
    disk.mount()
    assert not plain.exists() or plain.stat().st_size == 0


def test_a_claim_makes_durable_what_it_reads(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner died between naming an entry and fsyncing the log folder: once the next one has claimed, it stays."""
    folder = disk.mount_point / "journal"
    journal = open_journal(folder)
    journal.commit(group(1))
    log = (folder / LOG_FOLDER).stat().st_ino
    fsync = os.fsync

    def fsync_all_but_the_log(fd: int) -> None:
        if os.fstat(fd).st_ino != log:
            fsync(fd)

    with monkeypatch.context() as dying:
        dying.setattr(os, "fsync", fsync_all_but_the_log)
        journal.commit(group(2))
    storage = journal.storage
    assert isinstance(storage, LocalStorage)
    storage.close()
    successor = open_journal(folder)
    assert sequences(successor.live_rows()) == [1, 2]
    storage = successor.storage
    assert isinstance(storage, LocalStorage)
    storage.close()
    disk.cut_power()
    disk.unmount()
    disk.mount()
    assert sequences(reader(folder).live_rows()) == [1, 2]
