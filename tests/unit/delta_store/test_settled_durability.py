"""The journal may only forget what is on the disk: each kind of missing or damaged settled file must be noticed."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from delta_store.log import settled_durability
from delta_store.log.settled_durability import NotDurable, make_durable


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A partitioned table of four commits, as Spark leaves one."""
    path = tmp_path / "messages"
    for number in range(4):
        rows = pa.table({"stream": ["a.b%/c"] * 10, "seq": list(range(number * 10, number * 10 + 10))})
        write_deltalake(path, rows, mode="append", partition_by=["stream"])
    return path


def test_counts_the_files_of_the_new_versions(table: Path) -> None:
    """Only versions after the last truncation are looked at."""
    assert make_durable(table, -1, 3) == 4
    assert make_durable(table, 1, 3) == 2
    assert make_durable(table, 3, 3) == 0


def test_the_log_is_not_listed(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway looks each second, and a log may have hundreds of thousands of entries."""

    def scanned(_path: object = ".") -> None:
        pytest.fail("the folder was listed")

    monkeypatch.setattr(os, "scandir", scanned)
    for after in range(-1, 4):
        make_durable(table, after, 3)


def test_a_checkpoint_is_made_durable(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a version within the range; earlier versions of Silt left that to Spark, which fsyncs none."""
    DeltaTable(table).create_checkpoint()
    synced: list[str] = []
    monkeypatch.setattr(settled_durability, "fsync_path", lambda path: synced.append(path.name))
    make_durable(table, 1, 3)
    assert f"{3:020d}.checkpoint.parquet" in synced
    synced.clear()
    make_durable(table, 1, 2)
    assert f"{3:020d}.checkpoint.parquet" not in synced


def test_a_removed_file_may_be_gone(table: Path) -> None:
    """Compaction within the range takes files out again, and vacuum may have deleted them."""
    before = DeltaTable(table).file_uris()
    DeltaTable(table).optimize.compact()
    for uri in before:
        Path(uri.removeprefix("file://")).unlink()
    assert make_durable(table, -1, 4) == 1


@pytest.mark.parametrize("damage", ["missing", "short", "zeroed"])
def test_damaged_data_file_is_refused(table: Path, damage: str) -> None:
    """A settled file that is missing, short or overwritten with NULs keeps the journal from forgetting."""
    victim = next(table.rglob("*.parquet"))
    if damage == "missing":
        victim.unlink()
    elif damage == "short":
        victim.write_bytes(victim.read_bytes()[:-1])
    else:
        victim.write_bytes(bytes(victim.stat().st_size))
    with pytest.raises(NotDurable, match="settled file"):
        make_durable(table, -1, 3)


def test_a_disk_that_fails_is_no_damage(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An fsync that fails is told as the disk's error, so that each process ends by it as by any other."""

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    for after in (-1, 2):
        with pytest.raises(OSError, match="Input/output error"):
            make_durable(table, after, 3)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b'{"add":'])
def test_damaged_log_entry_is_refused(table: Path, content: bytes) -> None:
    """An empty, NUL-filled or torn log entry is damage, never an empty commit."""
    (table / "_delta_log" / f"{2:020d}.json").write_bytes(content)
    with pytest.raises(NotDurable, match="log entry"):
        make_durable(table, 0, 3)


def test_missing_log_entry_is_refused(table: Path) -> None:
    """A gap in the middle of the log is damage."""
    (table / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(NotDurable, match="missing"):
        make_durable(table, 0, 3)


def test_entries_taken_by_log_cleanup_are_no_gap(table: Path) -> None:
    """A gateway that was away longer than the log's retention fsyncs everything instead."""
    DeltaTable(table).create_checkpoint()
    for version in range(2):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert make_durable(table, -1, 3) == 2
