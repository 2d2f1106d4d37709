"""A power cut: the file system is shut down without its log being flushed, then mounted again.

What was acknowledged must be there; what was not may be there as a whole or not at all.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_store.storage.local_storage import LocalStorage
from delta_store.values.schemas import LOG_FOLDER
from tests.faults.disk import Disk, NoDisk, mounted_disk
from tests.groups import group, live_rows, open_journal, reader, sequences, through_delta_rs

pytestmark = pytest.mark.power_loss

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A mounted disk; skipped where there can be none."""
    try:
        with mounted_disk(tmp_path) as made:
            yield made
    except NoDisk as reason:
        pytest.skip(str(reason))


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
        seqs = sequences(live_rows(reader(folder)))
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
    storage = journal.reader.storage
    assert isinstance(storage, LocalStorage)
    storage.close()
    successor = open_journal(folder)
    assert sequences(live_rows(successor.reader)) == [1, 2]
    storage = successor.reader.storage
    assert isinstance(storage, LocalStorage)
    storage.close()
    disk.cut_power()
    disk.unmount()
    disk.mount()
    assert sequences(live_rows(reader(folder))) == [1, 2]
