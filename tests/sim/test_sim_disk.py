"""Both tables on a disk that loses whatever was not fsynced."""

import random
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from delta_store.entries.staged_file import Writing
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_owner import SettledOwner
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.watermark import Op
from tests.groups import SteppedClock, group, live_rows, message, open_journal, reader, sequences
from tests.sim.sim_disk import DiskOs, PowerCut, SimDisk, installed
from tests.staged import open_owner, settle, stage


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


def test_messages_are_whole_wherever_the_power_is_cut(tmp_path: Path) -> None:
    """Amid staging, appends, rewrites, checkpoints and vacuum: what was committed is there, of the rest all or nothing.

    The next owner goes on with the table, and every file of it can be read.
    """
    cuts = set()
    for round_ in range(40):
        root, dice, clock = tmp_path / str(round_), random.Random(round_), SteppedClock()
        root.mkdir()
        disk = SimDisk(root, dice)
        with installed(DiskOs(disk)):
            owner = _owner(root, clock)
            settle(owner, [message(1)])
            disk.power, disk.stop_at = True, disk.steps + dice.randrange(1, 260)
            done = 1
            with suppress(PowerCut):
                while True:
                    settle(owner, [message(done + 1)])
                    done += 1
                    _tidy(owner, done, clock)
            assert done < 100
            cuts.add(done)
            disk.start_again()
            successor = _owner(root, clock)
            found = _live(root)
            assert found in ([*range(1, done + 1)], [*range(1, done + 2)])
            settle(successor, [message(found[-1] + 1)])
            assert _live(root) == [*found, found[-1] + 1]
    assert len(cuts) > 5


def _owner(root: Path, clock: SteppedClock) -> SettledOwner:
    return open_owner(LocalStorage(root / "messages"), clock, horizon_seconds=30)


def _tidy(owner: SettledOwner, done: int, clock: SteppedClock) -> None:
    """Merge all files now and then, write a checkpoint, delete what is old."""
    clock.seconds += 10
    if done % 3 == 0:
        rows = [message(seq) for seq in range(1, done + 1)]
        merged = stage(owner.storage, rows, Writing(owner.epoch, owner.note.batch))
        owner.rewrite(Op.COMPACT, set(owner.snapshot.files), merged)
        with mock.patch("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 2):
            owner.upkeep()
        owner.vacuum()


def _live(root: Path) -> list[int]:
    settled = SettledTable(str(root / "messages"))
    columns = settled.columns(settled.refresh().files.values(), ["seq", "data"])
    return sorted(columns["seq"].to_pylist())
