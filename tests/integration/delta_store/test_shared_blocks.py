"""Files that begin with another one's bytes: shared where the file system can, copied elsewhere, independent always."""

import os
from pathlib import Path

import pytest

from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import NotStored
from tests.faults.disk import NoDisk, mounted_disk

SOURCE, TARGET = "a/one", "b/c/two"
SIZE = 32 << 20


def used(folder: Path) -> int:
    """The bytes in use on the file system that a folder is on."""
    os.sync()
    told = os.statvfs(folder)
    return (told.f_blocks - told.f_bfree) * told.f_frsize


def written(root: Path) -> tuple[LocalStorage, bytes]:
    """A table's folder with a file of random bytes."""
    storage, body = LocalStorage(root), os.urandom(SIZE + 17)
    storage.prepare("probe")
    storage.write(Blob(SOURCE, body))
    return storage, body


def check(storage: LocalStorage, body: bytes) -> None:
    """A file behind another one, both as they should be, whatever becomes of either."""
    storage.write_behind(SOURCE, Blob(TARGET, b"and", (b" ", b"more")))
    assert storage.read(TARGET) == body + b"and more"
    with (storage.root / SOURCE).open("r+b") as file:
        file.write(bytes(4096))
    assert storage.read(TARGET) == body + b"and more"
    storage.delete([SOURCE])
    assert storage.read(TARGET) == body + b"and more"
    with pytest.raises(NotStored):
        storage.write_behind(SOURCE, Blob("b/three", b"no"))
    assert [one.name for one in storage.walk()] == [TARGET]


def test_a_file_behind_another_one_stands_by_itself(tmp_path: Path) -> None:
    """On whatever file system this is; what is not there is refused and leaves nothing."""
    check(*written(tmp_path / "table"))


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_blocks_are_shared_where_they_can_be(tmp_path: Path, kind: str) -> None:
    """Behind 32 MiB a second file takes less than one; both stand by themselves."""
    try:
        with mounted_disk(tmp_path, mib=512, kind=kind) as disk:
            storage, body = written(disk.mount_point / "table")
            before = used(disk.mount_point)
            storage.write_behind(SOURCE, Blob("b/first", b"more"))
            assert used(disk.mount_point) - before < 1 << 20
            storage.delete(["b/first"])
            check(storage, body)
            storage.close()
    except NoDisk as reason:
        pytest.skip(str(reason))
