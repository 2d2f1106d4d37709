"""The journal on a real folder: commit, read, own, truncate, checkpoint, clean up; delta-rs reads it at every stage."""

import os
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest

from delta_store.entries import log_entry
from delta_store.entries.checkpoint_table import checkpoint_name
from delta_store.entries.log_entry import entry_name
from delta_store.journal.journal import Journal
from delta_store.log.followed_journal import FollowedJournal
from delta_store.reading.journal_tail import JournalTail
from delta_store.values.journal_errors import Fenced, JournalPoisoned, NotStored, ReadOvertaken
from delta_store.values.read_errors import DamagedData
from delta_store.values.records import Row, RowColumns
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.stream_message import StreamMessage
from tests.groups import (
    SHARD,
    STREAM_ID,
    SteppedClock,
    columns,
    event,
    group,
    live_rows,
    message,
    open_journal,
    reader,
    sequences,
    settled_to,
    tail,
    through_delta_rs,
)


def _log(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / LOG_FOLDER).iterdir())


def _filled(folder: Path, commits: int = 10, clock: SteppedClock | None = None) -> Journal:
    """A journal with ``commits`` groups of two messages; the first group's version is 2."""
    journal = open_journal(folder, clock)
    for number in range(commits):
        journal.commit(group(1 + 2 * number, 2))
    return journal


def _stored(row: Row) -> StreamMessage:
    return StreamMessage(row.subject, row.seq, row.ts_ns, row.headers, row.data)


def test_what_is_committed_is_read(tmp_path: Path) -> None:
    """Rows come back equal and in order: by tail, as live rows, by sequence, after reopening, through delta-rs."""
    journal = open_journal(tmp_path)
    rows = [message(1), event(1, 1), message(2), message(1, stream="OTHER", stream_id=7), message(3)]
    assert [journal.commit(columns(rows[:3])), journal.commit(columns(rows[3:]))] == [2, 3]
    for one in (journal.reader, reader(tmp_path)):
        assert [row for _, group_ in tail(one, 0) for row in group_.rows()] == rows
        assert [row for _, group_ in live_rows(one) for row in group_.rows()] == rows
        assert [version for version, _ in tail(one, 3)] == [3]
        assert list(tail(one, 4)) == []
        held = JournalTail(str(tmp_path), owner=one)
        assert held.current("ORDERS", STREAM_ID, [3, 1, 9]) == {1: _stored(rows[0]), 3: _stored(rows[4])}
        assert held.current("OTHER", 7, [1]) == {1: _stored(rows[3])}
        assert held.current("ORDERS", 8, [1]) == {}
    assert through_delta_rs(tmp_path) == [1, 1, 1, 2, 3]


def test_a_reader_follows(tmp_path: Path) -> None:
    """A reader opened before the journal exists sees each commit once, and knows the files it came from."""
    follower = reader(tmp_path)
    assert (follower.version, list(tail(follower, 0))) == (-1, [])
    journal = open_journal(tmp_path)
    next_version = 0
    for seq in range(1, 20, 2):
        journal.commit(group(seq, 2))
        seen = list(tail(follower, next_version))
        assert sequences(seen) == [seq, seq + 1]
        next_version = seen[-1][0] + 1
    assert follower.refresh() == journal.reader.version
    assert [file.name for file in follower.live_files()] == [file.name for file in journal.reader.live_files()]
    end, files = follower.version, follower.live_files()
    assert [follower.since(end - 3, end), follower.since(end - 3, end - 1)] == [files[-3:], files[-3:-1]]
    assert follower.since(end, end) == []


def test_watermarks_travel_with_the_commit(tmp_path: Path) -> None:
    """What the gateway says of its streams stands in the log entry."""
    marks = {"ORDERS": {"id": STREAM_ID, "seq": 2, "event": 0, "first": 1}}
    version = open_journal(tmp_path).commit(group(1, 2), marks)
    raw = (tmp_path / LOG_FOLDER / entry_name(version)).read_bytes()
    assert log_entry.decode(version, raw, f"silt/{SHARD}", file="").note.marks == marks


def test_a_truncation_is_fenced_too(tmp_path: Path) -> None:
    """Old owners can't take files out of the table, nor put one into its folder."""
    older = _filled(tmp_path)
    old = open_journal(tmp_path)
    open_journal(tmp_path)
    for owner, what in ((older, lambda: older.commit(group(21))), (old, lambda: old.truncate(settled_to(99)))):
        with pytest.raises(Fenced):
            what()
        with pytest.raises(JournalPoisoned):
            owner.truncate(settled_to(99))
    assert len(reader(tmp_path).live_files()) == len(list(tmp_path.glob("*.parquet"))) == 10


def test_truncation_takes_what_is_settled(tmp_path: Path) -> None:
    """Whole files up to the settled position leave the table; they are deleted after their grace time."""
    clock = SteppedClock()
    journal = _filled(tmp_path, 10, clock)
    assert journal.truncate(settled_to(7)) == 3
    assert sequences(live_rows(journal.reader)) == list(range(7, 21)) == through_delta_rs(tmp_path)
    assert sequences(live_rows(reader(tmp_path))) == list(range(7, 21))
    assert sequences(tail(reader(tmp_path), 0)) == list(range(1, 21))
    held = JournalTail(str(tmp_path), owner=journal.reader)
    assert held.current("ORDERS", STREAM_ID, [1, 7, 8]).keys() == {7, 8}
    clock.seconds += 59
    assert journal.delete_removed(grace_seconds=60) == 0
    assert len(list(tmp_path.glob("*.parquet"))) == 10
    clock.seconds += 1
    assert journal.delete_removed(grace_seconds=60) == 3
    assert len(list(tmp_path.glob("*.parquet"))) == 7
    with pytest.raises(NotStored):
        list(tail(reader(tmp_path), 0))
    assert journal.truncate(settled_to(7)) == 0


def test_deleted_files_are_forgotten(tmp_path: Path) -> None:
    """A checkpoint does not carry files that are gone, also if their deletion was an earlier owner's."""
    clock = SteppedClock()
    journal = _filled(tmp_path, 10, clock)
    journal.truncate(settled_to(10))
    assert sorted(_tombstones(tmp_path, journal)) == sorted(path.name for path in tmp_path.glob("*.parquet"))[:5]
    clock.seconds += 100
    journal.delete_removed()
    successor = open_journal(tmp_path, clock)
    assert _tombstones(tmp_path, successor) == []
    successor.truncate(settled_to(20))
    clock.seconds += 100
    successor.delete_removed()
    assert _tombstones(tmp_path, successor) == []


def _tombstones(folder: Path, journal: Journal) -> list[str]:
    with pq.ParquetFile(folder / LOG_FOLDER / checkpoint_name(journal.checkpoint())) as file:
        return [removed["path"] for removed in file.read()["remove"].to_pylist() if removed]


def test_truncation_makes_bounded_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many settled files leave in several commits, so that none holds up an acknowledgement for long."""
    monkeypatch.setattr("delta_store.journal.journal.JOURNAL_REMOVES_PER_COMMIT_MAX", 4)
    journal = _filled(tmp_path)
    before = journal.reader.version
    assert journal.truncate(settled_to(20)) == 10
    assert journal.reader.version - before == 3
    assert journal.reader.live_files() == []
    assert journal.commit(group(21)) == before + 4


def test_files_that_no_commit_names_are_deleted(tmp_path: Path) -> None:
    """What a crash left between file and log entry goes after its grace time; nothing else does."""
    clock = SteppedClock()
    version = _filled(tmp_path, 2, clock).reader.version
    (tmp_path / f"{version + 1:020d}-000001-000000000099.parquet").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_text("not ours")
    (tmp_path / LOG_FOLDER / f".{entry_name(9)}.tmp").write_bytes(b"torn")
    journal = open_journal(tmp_path, clock)
    assert journal.delete_removed(grace_seconds=60) == 0
    clock.seconds += 60
    assert journal.delete_removed(grace_seconds=60) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        ".reserve",
        *(file.name for file in journal.reader.live_files()),
        "notes.txt",
    ]
    assert not [name for name in _log(tmp_path) if name.endswith(".tmp")]


def test_checkpoints_and_cleanup_keep_the_log_short(tmp_path: Path) -> None:
    """However long it runs, entries stay from the last but one old enough checkpoint on, and all readers go on."""
    clock = SteppedClock()
    journal, follower = open_journal(tmp_path, clock), reader(tmp_path)
    next_version, seen = 0, []
    for seq in range(1, 201):
        journal.commit(group(seq))
        clock.seconds += 1
        if seq % 10 == 0:
            journal.checkpoint()
            journal.cleanup(min_age_seconds=20)
            assert len(_log(tmp_path)) <= 70
            journal.truncate(settled_to(seq - 20))
        if seq % 50 == 0:
            assert through_delta_rs(tmp_path) == list(range(seq - 19, seq + 1))
            assert sequences(live_rows(reader(tmp_path))) == list(range(seq - 19, seq + 1))
        for version, rows in tail(follower, next_version):
            seen += rows.seq
            next_version = version + 1
    assert seen == list(range(1, 201))
    assert not (tmp_path / LOG_FOLDER / entry_name(0)).exists()
    again = open_journal(tmp_path, clock)
    assert again.epoch == 2
    again.commit(group(201))
    assert through_delta_rs(tmp_path) == list(range(181, 202))


def test_cleanup_leaves_what_a_reader_still_needs(tmp_path: Path) -> None:
    """Entries from ``keep_from`` on stay, and a checkpoint before them; those of files in the table stay anyway."""
    clock = SteppedClock()
    journal = open_journal(tmp_path, clock)
    for seq in range(1, 61):
        journal.commit(group(seq))
        if seq % 10 == 0:
            journal.checkpoint()
    clock.seconds += 100
    assert journal.cleanup() == 0
    journal.truncate(settled_to(57))
    assert journal.cleanup(min_age_seconds=101) == 0
    assert journal.cleanup(keep_from=5) == 0
    assert journal.cleanup(keep_from=25) == 20
    assert sequences(tail(reader(tmp_path), 25)) == list(range(24, 61))
    assert _checkpoints(tmp_path) == [checkpoint_name(version) for version in (21, 31, 41, 51, 61)]
    assert journal.cleanup() == 30
    assert journal.cleanup() == 0
    with pytest.raises(ReadOvertaken):
        list(tail(reader(tmp_path), 25))


def test_a_reader_that_never_comes_on_costs_few_checkpoints(tmp_path: Path) -> None:
    """They are thinned out while entries must stay; once it comes on, the log is short again."""
    clock = SteppedClock()
    journal = open_journal(tmp_path, clock)
    for seq in range(1, 101):
        journal.commit(group(seq))
        journal.checkpoint()
        clock.seconds += 100
        journal.cleanup()
        assert len(_checkpoints(tmp_path)) <= 12
    assert (tmp_path / LOG_FOLDER / entry_name(2)).exists()
    journal.truncate(settled_to(90))
    journal.cleanup()
    assert len(_log(tmp_path)) < 50
    assert sequences(live_rows(reader(tmp_path))) == list(range(91, 101)) == through_delta_rs(tmp_path)


def _checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / LOG_FOLDER).glob("*.checkpoint.parquet"))


def test_an_overtaken_reader_starts_anew(tmp_path: Path) -> None:
    """Reload, take the live rows, go on: nothing is missed and nothing seen twice."""
    clock = SteppedClock()
    journal = open_journal(tmp_path, clock)
    follower = reader(tmp_path)
    for seq in range(1, 41):
        journal.commit(group(seq))
        if seq % 10 == 0:
            journal.checkpoint()
    clock.seconds += 100
    journal.truncate(settled_to(25))
    assert journal.cleanup() == 20
    with pytest.raises(ReadOvertaken):
        follower.refresh()
    follower.reload()
    assert sequences(live_rows(follower)) == list(range(26, 41))
    before = follower.version
    assert follower.since(before - 1, before) is None
    journal.commit(group(41))
    assert sequences(tail(follower, before + 1)) == [41]
    assert follower.refresh() == before + 1
    assert follower.since(before, before + 1) == follower.live_files()[-1:]
    assert follower.since(before - 1, before + 1) is None


@pytest.mark.parametrize("opened", ["before the journal is there", "at its first commit"])
def test_a_follower_looks_at_the_end(tmp_path: Path, opened: str) -> None:
    """Whether cleanup has overtaken it or not; damage is told at each look, and passed when it is mended."""
    clock = SteppedClock()
    follower = FollowedJournal(str(tmp_path))
    if opened == "before the journal is there":
        assert follower.newest().version == -1
    journal = open_journal(tmp_path, clock)
    for seq in range(1, 41):
        journal.commit(group(seq))
        if seq == 1:
            first = follower.newest().version
        if seq % 10 == 0:
            journal.checkpoint()
    assert (follower.known().version, first) == (first, first)
    clock.seconds += 100
    journal.truncate(settled_to(25))
    assert journal.cleanup() == 20
    assert sequences(live_rows(follower.newest())) == list(range(26, 41))
    entry = tmp_path / LOG_FOLDER / entry_name(journal.commit(group(41)))
    whole = entry.read_bytes()
    entry.write_bytes(whole[:-1])
    for _ in range(2):
        with pytest.raises(DamagedData, match=entry.name):
            follower.newest()
    entry.write_bytes(whole)
    assert sequences(live_rows(follower.newest())) == list(range(26, 42))


def test_a_checkpoint_is_due_after_so_many_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the last one."""
    monkeypatch.setattr("delta_store.journal.journal_upkeep.JOURNAL_CHECKPOINT_COMMITS", 5)
    journal = _filled(tmp_path, 3)
    assert not journal.checkpoint_is_due
    journal.commit(group(7))
    assert journal.checkpoint_is_due
    journal.checkpoint()
    assert not journal.checkpoint_is_due


def test_upkeep_and_reading_go_on_beside_commits(tmp_path: Path) -> None:
    """Truncation, checkpoints, cleanup, a reader and delta-rs, all while commits run: nothing is lost or doubled."""
    journal = open_journal(tmp_path)
    total = 400
    failures: list[BaseException] = []

    def commit() -> None:
        for seq in range(1, total + 1):
            journal.commit(group(seq))

    def upkeep() -> None:
        try:
            while committing.is_alive():
                journal.truncate(settled_to(max(0, journal.reader.version - 100)))
                journal.checkpoint()
                journal.cleanup(min_age_seconds=3)
        except BaseException as error:  # noqa: BLE001  # handed to the test's own thread
            failures.append(error)

    committing, keeping = Thread(target=commit), Thread(target=upkeep)
    committing.start()
    keeping.start()
    while committing.is_alive():
        seqs = through_delta_rs(tmp_path)
        assert seqs == list(range(seqs[0], seqs[-1] + 1)) if seqs else True
        live = sequences(live_rows(reader(tmp_path)))
        assert live == list(range(live[0], live[-1] + 1)) if live else True
    committing.join()
    keeping.join()
    assert failures == []
    live = sequences(live_rows(reader(tmp_path)))
    assert live == list(range(live[0], total + 1)) == through_delta_rs(tmp_path)


def test_a_group_may_be_large(tmp_path: Path) -> None:
    """Tens of megabytes in one commit, written in as many pieces as the kernel takes."""
    rows = RowColumns()
    for seq in range(1, 41):
        rows.append(message(seq, data=b"x" * 1_000_000))
    open_journal(tmp_path).commit(rows)
    assert [len(data) for _, group_ in tail(reader(tmp_path), 0) for data in group_.data] == [1_000_000] * 40


@pytest.mark.parametrize("most", [1, 1000, 70_000, 10**9])
def test_writes_that_end_early_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The kernel may take fewer bytes than it was given, of one piece or of many, at any place."""
    size = 200_000 if most > 1 else 20
    rows = RowColumns()
    for seq in range(1, 31):
        rows.append(message(seq, data=bytes([seq]) * size))
    write, writev = os.write, os.writev

    def some(fd: int, parts: Sequence[bytes]) -> int:
        return write(fd, b"".join(parts)[:most])

    journal = open_journal(tmp_path)
    monkeypatch.setattr(os, "writev", some if most < 10**9 else writev)
    monkeypatch.setattr(os, "write", lambda fd, body: write(fd, memoryview(body)[:most]))
    journal.commit(rows)
    assert [data for _, group_ in tail(reader(tmp_path), 0) for data in group_.data] == rows.data


def test_streams_of_one_id_are_settled_each_by_itself(tmp_path: Path) -> None:
    """Two streams in one file, told apart by their names: neither's rows leave before both are settled."""
    journal = open_journal(tmp_path)
    journal.commit(columns([message(1, stream="A"), message(1, stream="B"), message(2, stream="A")]))
    assert journal.truncate(settled_to(2, stream="A")) == 0
    assert journal.truncate(settled_to(2, stream="A") | settled_to(1, stream="B")) == 1
