"""The journal on a disk that loses whatever was not fsynced."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from delta_store.storage.local_storage import LocalStorage
from tests.groups import group, live_rows, open_journal, reader, sequences
from tests.sim.sim_disk import DiskOs, PowerCut, SimDisk, installed


class Loses(random.Random):
    """Keeps nothing that it may lose."""

    def choice(self, seq):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        """The first."""
        return seq[0]


def test_folders_that_a_killed_process_made_are_durable_with_the_first_commit(tmp_path: Path) -> None:
    """Folders are there without being on the disk where their maker was killed before its fsync."""
    disk = SimDisk(tmp_path, Loses())
    with installed(DiskOs(disk)):
        disk.stop_at = disk.steps + 1
        with pytest.raises(PowerCut):
            LocalStorage(tmp_path / "journal").prepare("probe")
        assert (tmp_path / "journal" / "_delta_log").is_dir()
        disk.start_again()
        open_journal(tmp_path / "journal").commit(group(1, 3))
        disk.power = True
        disk.end()
        disk.start_again()
        assert sequences(live_rows(reader(tmp_path / "journal"))) == [1, 2, 3]


def test_a_commit_cut_anywhere_is_whole_or_not_there(tmp_path: Path) -> None:
    """At whatever step the power is cut: what was committed is there, and of the commit in hand all or nothing."""
    for step in range(1, 40):
        root = tmp_path / str(step)
        root.mkdir()
        disk = SimDisk(root, random.Random(step))
        with installed(DiskOs(disk)):
            journal = open_journal(root / "journal")
            journal.commit(group(1, 3))
            done = 3
            disk.power, disk.stop_at = True, disk.steps + step
            with suppress(PowerCut):
                for first in range(4, 400, 3):
                    journal.commit(group(first, 3))
                    done = first + 2
            assert done < 300
            disk.start_again()
            found = sequences(live_rows(reader(root / "journal")))
        assert found == list(range(1, len(found) + 1))
        assert done <= len(found) <= done + 3
        assert len(found) % 3 == 0
