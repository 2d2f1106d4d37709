"""The journal's promise under crashes and failing disks: what was acknowledged is there, once; nothing is in part."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from delta_store.storage.local_storage import LocalStorage
from delta_store.values.journal_errors import JournalPoisoned, StorageFailed, StorageFull
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import group, live_rows, open_journal, reader, sequences, through_delta_rs

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = int(os.environ.get("SILT_TEST_KILL_ROUNDS", "12"))
strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def _writer(folder: Path, rows: int, *arguments: str, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [*under, sys.executable, "-m", "tests.journal_writer", str(folder), str(rows), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _acked(lines: list[str]) -> int:
    return max((int(line.split()[1]) for line in lines if line.startswith("ack ")), default=0)


def _assert_kept(folder: Path, acked: int, rows: int) -> int:
    """All that was acknowledged is there, without a hole, without a repeat, and in whole groups."""
    seqs = sequences(live_rows(reader(folder)))
    assert seqs == list(range(1, len(seqs) + 1))
    assert acked <= len(seqs) <= acked + rows
    assert len(seqs) % rows == 0
    return len(seqs)


def test_killed_writers_lose_nothing(tmp_path: Path) -> None:
    """SIGKILL at random points, again and again on one journal: acknowledged groups stay, each sequence once."""
    dice, acked = random.Random(5), 0
    for _ in range(ROUNDS):
        with _writer(tmp_path, 3) as writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline()]
            lines += [writer.stdout.readline() for _ in range(dice.randrange(0, 40))]
            writer.kill()
            lines += writer.stdout.read().splitlines()
        acked = max(acked, _acked(lines))
        _assert_kept(tmp_path, acked, 3)
    assert acked > 0
    assert through_delta_rs(tmp_path) == sequences(live_rows(reader(tmp_path)))


@strace
def test_every_acknowledgement_follows_its_fsyncs(tmp_path: Path) -> None:
    """Between two acknowledgements: fsync of file, folder, log entry; then its name; then fsync of the log folder."""
    folder, trace = tmp_path / "journal", tmp_path / "trace"
    calls = "trace=fsync,fdatasync,linkat,write"
    with _writer(folder, 2, "20", under=("strace", "-f", "-y", "-e", calls, "-o", str(trace))) as writer:
        assert writer.stdout is not None
        lines = writer.stdout.read().splitlines()
    assert _acked(lines) == 40
    steps: list[str] = []
    acks = 0
    for call in trace.read_text().splitlines():
        if re.search(rf"fsync\(\d+<{re.escape(str(folder))}/[^/]+\.parquet>\) += 0", call):
            steps.append("file")
        elif re.search(rf"fsync\(\d+<{re.escape(str(folder))}>\) += 0", call):
            steps.append("folder")
        elif re.search(
            rf"fsync\(\d+<{re.escape(str(folder / LOG_FOLDER))}/#?\d+( \(deleted\))?>(\(deleted\))?\) += 0", call
        ):
            steps.append("entry")
        elif re.search(r'linkat\(.*/proc/self/fd/.*\.json", AT_SYMLINK_FOLLOW\) += 0', call):
            steps.append("name")
        elif re.search(rf"fsync\(\d+<{re.escape(str(folder / LOG_FOLDER))}>\) += 0", call):
            steps.append("log")
        elif '"ready' in call:
            steps = []
        elif '"ack ' in call:
            acks += 1
            assert steps[-5:] == ["file", "folder", "entry", "name", "log"], f"ack {acks}: {steps}"
            steps = []
    assert acks == 20


@strace
@pytest.mark.parametrize("which", range(1, 5))
def test_a_failed_fsync_is_never_acknowledged(tmp_path: Path, which: int) -> None:
    """EIO from any of a commit's four fsyncs stops the writer for good; the next process finds a whole journal."""
    with _writer(tmp_path, 2, "5") as writer:
        assert writer.stdout is not None
        before = _acked(writer.stdout.read().splitlines())
    folders, claim = len((tmp_path / LOG_FOLDER).parents), 2
    inject = f"inject=fsync:error=EIO:when={folders + claim + 4 * 2 + which}"
    under = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", inject)
    with _writer(tmp_path, 2, "9", under=under) as writer:
        assert writer.stdout is not None
        lines = writer.stdout.read().splitlines()
        assert writer.wait() == 3
    assert _acked(lines) == before + 4
    assert lines[-1].startswith("stop commit_unknown" if which == 4 else "stop storage_failed")
    found = _assert_kept(tmp_path, _acked(lines), 2)
    assert found == before + (6 if which == 4 else 4)
    with _writer(tmp_path, 2, "1") as writer:
        assert writer.stdout is not None
        assert _acked(writer.stdout.read().splitlines()) == found + 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_survived(small_disk: Path) -> None:
    """The group that finds no space is refused and leaves nothing; what was there is read; with space it goes on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    folder = small_disk / "journal"
    journal, seq = open_journal(folder), 1
    full: StorageFull | None = None
    while full is None:
        try:
            journal.commit(group(seq, 200))
            seq += 200
        except StorageFull as error:
            full = error
    assert full.retryable
    committed = list(range(1, seq))
    assert len(committed) > 200
    with pytest.raises(StorageFull):
        journal.commit(group(seq, 200))
    assert sequences(live_rows(reader(folder))) == committed == through_delta_rs(folder)
    assert len(list(folder.glob("*.parquet"))) == len(journal.reader.live_files())
    ballast.unlink()
    journal.commit(group(seq, 200))
    assert sequences(live_rows(reader(folder))) == list(range(1, seq + 200)) == through_delta_rs(folder)
    assert journal.epoch == 1


def test_a_checkpoint_that_finds_no_space_hurts_nothing(small_disk: Path) -> None:
    """It is tried again later; commits go on as far as there is space."""
    folder = small_disk / "journal"
    journal = open_journal(folder)
    journal.commit(group(1))
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with pytest.raises(StorageFull):
        journal.checkpoint()
    assert not list((folder / LOG_FOLDER).glob("*.tmp"))
    ballast.unlink()
    journal.checkpoint()
    journal.commit(group(2))
    assert sequences(live_rows(reader(folder))) == [1, 2] == through_delta_rs(folder)


def test_a_lost_disk_stops_the_journal(tmp_path: Path) -> None:
    """An error that says nothing about what is on the disk: no later commit is tried, whatever comes."""
    journal = open_journal(tmp_path / "journal")
    journal.commit(group(1))
    storage = journal.reader.storage
    assert isinstance(storage, LocalStorage)
    (tmp_path / "journal").rename(tmp_path / "away")
    storage.close()
    with pytest.raises(StorageFailed):
        journal.commit(group(2))
    (tmp_path / "away").rename(tmp_path / "journal")
    with pytest.raises(JournalPoisoned):
        journal.commit(group(2))
    assert sequences(live_rows(reader(tmp_path / "journal"))) == [1]


@strace
def test_a_sleeping_owner_is_fenced(tmp_path: Path) -> None:
    """SIGSTOP the owner amid its commits, take over, SIGCONT it: it says it is fenced, no sequence is used twice."""
    with _writer(tmp_path, 2) as old:
        assert old.stdout is not None
        lines = [old.stdout.readline() for _ in range(6)]
        os.kill(old.pid, signal.SIGSTOP)
        with _writer(tmp_path, 2, "10") as new:
            assert new.stdout is not None
            acked = _acked(new.stdout.read().splitlines())
        os.kill(old.pid, signal.SIGCONT)
        lines += old.stdout.read().splitlines()
        assert old.wait() == 3
    assert lines[-1].startswith("stop fenced")
    assert _acked(lines) == acked - 20 or _acked(lines) + 2 == acked - 20
    assert _assert_kept(tmp_path, acked, 2) == acked
