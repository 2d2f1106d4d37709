"""A read of the past costs the same with 600,000 versions of ``messages`` behind it as with 600, in files looked at.

The log is one that is never written: each entry is encoded when it is read, as its owner would have committed it.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from math import ceil, log2
from typing import Any, cast

import pytest

from conf.limits import SETTLED_CHECKPOINT_COMMITS, SETTLED_CHECKPOINT_COMMITS_MAX
from delta_store.entries import messages_checkpoint, settled_entry
from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, LAST_FILES, checkpoint_name, files_name
from delta_store.entries.log_entry import Stamp, version_of
from delta_store.entries.messages_checkpoint import MessagesSnapshot
from delta_store.entries.messages_state import MessagesState
from delta_store.entries.settled_entry import SettledCommit, TableFile
from delta_store.entries.settled_log import NO_TABLE
from delta_store.entries.staged_file import StagedFile, Writing, staged_path
from delta_store.log import log_follower
from delta_store.log.delta_log import DeltaLog, MessagesFormat
from delta_store.log.messages_log import LoadedMessages
from delta_store.reading.settled import SettledTable
from delta_store.settled.settled_upkeep import SettledUpkeep
from delta_store.values.horizons import Horizons
from delta_store.values.journal_errors import NotStored
from delta_store.values.read_errors import PastHorizon
from delta_store.values.watermark import Claim, CommitNote, Op, Watermark
from tests.groups import STREAM_ID, SteppedClock

ROUND = 300
"""Versions from one compaction to the next: five minutes of a batch a second."""
TOMBSTONE_BYTES = 17
"""Of a file that has left the table, in a checkpoint."""
STREAM = "ORDERS"
HORIZONS = Horizons(7 * 24 * 3600.0)
LOOKS = 2 * SETTLED_CHECKPOINT_COMMITS
"""Files that are looked at: a list of live files comes after fifty commits, or when the log is as large as it."""


class LongLog:
    """The storage of a table of so many versions; a message each, but every ``ROUND``th merges all files into one."""

    repeatable = True

    def __init__(self, versions: int, *, oldest: int = 0) -> None:
        """``oldest``: log cleanup has deleted the entries before."""
        self.uri, self.options = "memory://messages", dict[str, str]()
        self.versions, self._oldest = versions, oldest
        self.looks = Counter[str]()
        """Files read or looked for, and names listed."""

    def read(self, name: str) -> bytes:
        """Return an entry, checkpoint, list or pointer."""
        self.looks["read"] += 1
        file = name.rpartition("/")[2]
        if (version := version_of(file)) is not None and self._has(version):
            return settled_entry.encode(self._commit(version))
        checkpoints, lists = self.points
        if file in (LAST_CHECKPOINT, LAST_FILES):
            snapshot = self._snapshot((checkpoints if file == LAST_CHECKPOINT else lists)[-1])
            return messages_checkpoint.pointer(snapshot, messages_checkpoint.encode(snapshot))
        at = int(file[:20]) if file[:20].isdecimal() else -1
        if (file == checkpoint_name(at) and at in checkpoints) or (file == files_name(at) and at in lists):
            return messages_checkpoint.encode(self._snapshot(at))
        raise NotStored(name, "missing")

    def exists(self, name: str) -> bool:
        """Whether an entry is there."""
        self.looks["exists"] += 1
        version = version_of(name.rpartition("/")[2])
        return version is not None and self._has(version)

    def sizes(self, folder: str) -> dict[str, int]:
        """List the entries."""
        del folder
        self.looks["listed"] += self.versions
        return {f"{version:020d}.json": 1 for version in range(self._oldest, self.versions)}

    def _has(self, version: int) -> bool:
        return self._oldest <= version < self.versions

    @cached_property
    def points(self) -> tuple[list[int], list[int]]:
        """The versions with a checkpoint and those with a list of their live files, by the owner's own rules."""
        upkeep = SettledUpkeep(cast(Any, self), LoadedMessages(MessagesState(NO_TABLE), -1), SteppedClock(), HORIZONS)
        append, merge = (len(settled_entry.encode(self._content(at, -1, None))) for at in (ROUND + 1, ROUND))
        listed = len(messages_checkpoint.encode_files(self._snapshot(ROUND - 1)))
        checkpoints, lists = [-1], [-1]
        for version in range(1, self.versions):
            upkeep.note_entry(append if version % ROUND else merge)
            if not upkeep.is_due(version) and not upkeep.list_is_due(version):
                continue
            if upkeep.is_due(version):
                checkpoints.append(version)
                upkeep.checkpointed(version, TOMBSTONE_BYTES * version)
            lists.append(version)
            upkeep.listed(version, listed)
        return checkpoints, lists

    def _commit(self, version: int) -> SettledCommit:
        base, listed = (points[bisect_right(points, version - 1) - 1] for points in self.points)
        return self._content(version, base, listed if listed > 0 else None)

    def _content(self, version: int, base: int, listed: int | None) -> SettledCommit:
        merges = version > 0 and version % ROUND == 0
        rows = version - version // ROUND
        marks = {STREAM: Watermark(STREAM_ID, rows, 0, 1)} if version else {}
        appends = not merges and version > 0
        claim = Claim(rows, {STREAM: 1} if appends else {})
        note = CommitNote(Op.APPEND if appends else Op.COMPACT, marks, rows, claim)
        return SettledCommit(
            version,
            version * 1_000,
            Stamp(1, version),
            "writer",
            base,
            note,
            metadata=settled_entry.new_metadata("id", 0, settled_entry.PROPERTIES) if version == 0 else None,
            added=[self._file(version)] if version else [],
            removed=[_table_file(one) for one in self._live(version - 1)] if merges else [],
            files=listed,
        )

    def _file(self, version: int) -> StagedFile:
        """Return the file that a version adds: its one message, or all."""
        last = version - version // ROUND
        first = last if version % ROUND else 1
        path = staged_path(Writing(1, version), STREAM, "$recent", number=0, unique="0" * 16)
        ends = [f'{{"stream_id":{STREAM_ID},"seq":{seq},"ts_ns":{STREAM_ID + seq}}}' for seq in (first, last)]
        stats = f'{{"numRecords":{last - first + 1},"minValues":{ends[0]},"maxValues":{ends[1]},"nullCount":{{}}}}'
        return StagedFile(path, STREAM, "$recent", 1_000, last - first + 1, 0, stats)

    def _live(self, version: int) -> list[StagedFile]:
        merged = version // ROUND * ROUND
        return [self._file(one) for one in range(max(merged, 1), version + 1)]

    def _snapshot(self, version: int) -> MessagesSnapshot:
        metadata = settled_entry.new_metadata("id", 0, settled_entry.PROPERTIES)
        return MessagesSnapshot(version, metadata, (), tuple(map(_table_file, self._live(version))), ())


def _table_file(file: StagedFile) -> TableFile:
    url = settled_entry.url_of(file.path)
    return TableFile(url, file.stream, file.subject_partition, file.size, 0, file.stats, None)


OpenTable = Callable[..., tuple[SettledTable, LongLog]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> OpenTable:
    """Opens a table of so many versions, as a process that has just been started; returns it with its storage."""

    def open_table(versions: int, *, oldest: int = 0) -> tuple[SettledTable, LongLog]:
        log = LongLog(versions, oldest=oldest)
        monkeypatch.setattr(log_follower, "open_storage", lambda *_: log)
        table = SettledTable("/nowhere/messages", relied_on=lambda: versions)
        assert table.refresh().version == versions - 1
        return table, log

    return open_table


@pytest.mark.parametrize("versions", [600, 6_000, 600_000])
def test_opening_costs_the_same(opened: OpenTable, versions: int) -> None:
    """The newest list of live files, and the entries behind it."""
    _, log = opened(versions)
    assert log.looks["listed"] == 0
    assert log.looks["read"] + log.looks["exists"] <= LOOKS


@pytest.mark.parametrize("versions", [600, 6_000, 600_000])
def test_a_past_read_costs_the_same(opened: OpenTable, versions: int) -> None:
    """By a new process: which version settled a message is bisected, and its files are those of a list and entries."""
    steps = ceil(log2(versions))
    for part in (2, 3, 7, 50):
        table, log = opened(versions)
        seq = versions // part
        log.looks.clear()
        version = table.append_version_for(STREAM, STREAM_ID, seq)
        assert log.looks["read"] + log.looks["exists"] <= 2 * steps + 1
        log.looks.clear()
        files = table.log.at(version)
        assert log.looks["read"] + log.looks["exists"] <= LOOKS
        assert log.looks["listed"] == 0
        assert files.rows == seq
        assert max(file.seq[1] for file in files.files.values()) == seq


def test_many_entries_of_an_object_store_are_read_at_once() -> None:
    """A few look-ups for all of them, and no more than one entry behind the end where one is new."""
    storage = LongLog(2_000)
    log = DeltaLog(cast(Any, storage), MessagesFormat())
    assert [entry.version for entry in log.since(1)] == list(range(1, 2_000))
    assert storage.looks["exists"] < 2_000 / 10
    storage.looks.clear()
    assert [entry.version for entry in log.since(1_999)] == [1_999]
    assert storage.looks["read"] == 2


def test_what_log_cleanup_took_is_past_the_horizon(opened: OpenTable) -> None:
    """The oldest entry is found without a list of the others."""
    table, log = opened(600_000, oldest=123_456)
    assert table.log.oldest_entry() == 123_456
    with pytest.raises(PastHorizon):
        table.append_version_for(STREAM, STREAM_ID, 1_000)
    assert table.append_version_for(STREAM, STREAM_ID, 300_000) == 301_003
    assert log.looks["listed"] == 0


def test_the_log_stays_small(opened: OpenTable) -> None:
    """With a batch a second for a week: lists come often and are small, checkpoints are large and come seldom."""
    _, log = opened(600_000)
    checkpoints, lists = log.points
    assert len(checkpoints) <= 600_000 / 1_000
    assert max(later - earlier for earlier, later in pairwise(checkpoints)) <= SETTLED_CHECKPOINT_COMMITS_MAX
    assert len(lists) <= 600_000 / SETTLED_CHECKPOINT_COMMITS + len(checkpoints)
