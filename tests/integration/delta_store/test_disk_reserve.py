"""Disk space set aside: given back when it is needed, and taken again only when there is plenty."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from delta_store.storage.disk_reserve import DiskReserve
from delta_store.storage.local_storage import LocalStorage


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB: one sixteenth of it is set aside."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(tmp_path)], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def fill_up(path: Path) -> None:
    """Write until there is no space left."""
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_what_is_needed_is_given_back(disk: Path) -> None:
    """On a full disk as much as was asked for can be written, again and again, until nothing is left."""
    reserve = DiskReserve(disk)
    assert reserve.fill()
    fill_up(disk / "ballast")
    with pytest.raises(OSError, match="No space left"):
        (disk / "group").write_bytes(bytes(50_000))
    written = 0
    while reserve.release(50_000):
        (disk / f"group-{written}").write_bytes(bytes(50_000))
        written += 1
    assert written >= 3
    assert not reserve.whole


def test_it_is_filled_when_there_is_plenty(disk: Path) -> None:
    """Room for the reserve alone is not enough: the next commit would use it up again."""
    reserve = DiskReserve(disk)
    reserve.fill()
    fill_up(disk / "ballast")
    reserve.release(1 << 20)
    assert not reserve.fill()
    assert not DiskReserve(disk).fill(), "the next process finds the same"
    os.truncate(disk / "ballast", (disk / "ballast").stat().st_size - (1 << 19))
    assert not reserve.fill()
    (disk / "ballast").unlink()
    assert reserve.fill()
    assert (disk / ".reserve").stat().st_blocks * 512 >= 1 << 20


def test_a_storage_that_is_given_up_closes_its_folders(tmp_path: Path) -> None:
    """A table that is opened again after each failure does not use up the process's descriptors."""
    storage = LocalStorage(tmp_path)
    descriptor = storage.folder("")
    os.fstat(descriptor)
    del storage
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
