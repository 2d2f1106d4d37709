"""A journal that was damaged: refused by the name of the file, or made up for; never silently shorter or different."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_store.entries.checkpoint_table import LAST_CHECKPOINT, checkpoint_name
from delta_store.entries.journal_file import DamagedFile
from delta_store.entries.log_entry import entry_name
from delta_store.reading.journal_scan import rows_above
from delta_store.reading.journal_tail import JournalTail
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import (
    STREAM_ID,
    group,
    live_rows,
    open_journal,
    reader,
    sequences,
    settled_to,
    tail,
    through_delta_rs,
)

Harm = Callable[[Path], None]


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _nul(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


def _no_json(path: Path) -> None:
    path.write_bytes(b"this is not a log entry\n")


def _flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


HARMS = [_empty, _halve, _nul, _no_json, _flip]


def _filled(folder: Path, commits: int = 8, *, checkpoints: tuple[int, ...] = ()) -> Path:
    """A journal of single messages: sequence ``n`` is version ``n + 1``; returns its log folder."""
    journal = open_journal(folder)
    for seq in range(1, commits + 1):
        journal.commit(group(seq))
        if seq in checkpoints:
            journal.checkpoint()
    return folder / LOG_FOLDER


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("version", [0, 1, 5, 9])
def test_a_damaged_log_entry_is_named(tmp_path: Path, version: int, harm: Harm) -> None:
    """First, claim, middle, last: neither owner nor reader goes past it."""
    log = _filled(tmp_path)
    harm(log / entry_name(version))
    for opening in (open_journal, reader):
        with pytest.raises(DamagedData) as caught:
            opening(tmp_path)
        assert caught.value.file == str(log / entry_name(version))


@pytest.mark.parametrize("version", [0, 1, 5, 8])
def test_a_missing_log_entry_is_named(tmp_path: Path, version: int) -> None:
    """Any but the last."""
    log = _filled(tmp_path)
    (log / entry_name(version)).unlink()
    with pytest.raises(DamagedData) as caught:
        reader(tmp_path)
    assert caught.value.file == str(log / entry_name(version))


def test_a_log_that_lost_its_end_is_refused(tmp_path: Path) -> None:
    """Files of versions that the log no longer reaches give it away; one entry alone is what a crash leaves."""
    log = _filled(tmp_path)
    (log / entry_name(9)).unlink()
    assert sequences(live_rows(reader(tmp_path))) == list(range(1, 8))
    (log / entry_name(8)).unlink()
    with pytest.raises(DamagedData, match="ends at version 7"):
        open_journal(tmp_path)


def test_a_log_behind_its_checkpoint_pointer_is_refused(tmp_path: Path) -> None:
    """A pointer to a checkpoint that is gone, with the entries after an older one gone too."""
    log = _filled(tmp_path, 8, checkpoints=(4, 8))
    for path in [log / checkpoint_name(9), *(log / entry_name(version) for version in range(6, 10))]:
        path.unlink()
    for path in tmp_path.glob("*.parquet"):
        if int(path.name[:20]) > 5:
            path.unlink()
    with pytest.raises(DamagedData, match="a checkpoint was made at 9"):
        reader(tmp_path)


@pytest.mark.parametrize("harm", [_empty, _halve, os.unlink])
def test_a_short_or_missing_file_is_named(tmp_path: Path, harm: Harm) -> None:
    """Found when the journal is opened, before anything is served."""
    _filled(tmp_path)
    harmed = sorted(tmp_path.glob("*.parquet"))[3]
    harm(harmed)
    for opening in (open_journal, reader):
        with pytest.raises(DamagedData) as caught:
            opening(tmp_path)
        assert caught.value.file == str(harmed)


def _all(one: JournalTail) -> object:
    return [row for rows in rows_above(one, one.refresh(), {}) for row in rows.rows()]


def _third(one: JournalTail) -> object:
    return one.current("ORDERS", STREAM_ID, [3])


def test_flipped_bits_in_a_file_are_never_read(tmp_path: Path) -> None:
    """Wherever the bit is: the file is not what its log entry says, and no other row or message is read from it."""
    open_journal(tmp_path).commit(group(1, 30))
    [harmed] = tmp_path.glob("*.parquet")
    original, dice = harmed.read_bytes(), random.Random(7)
    expected = [(read, read(JournalTail(str(tmp_path)))) for read in (_all, _third)]
    refused = 0
    for _ in range(150):
        altered = bytearray(original)
        altered[dice.randrange(len(altered))] ^= 1 << dice.randrange(8)
        harmed.write_bytes(altered)
        for read, whole in expected:
            try:
                assert read(JournalTail(str(tmp_path))) == whole
            except DamagedData as error:
                assert error.file == str(harmed)  # noqa: PT017  # either outcome is right
                refused += 1
        with pytest.raises(DamagedFile):
            list(live_rows(reader(tmp_path)))
    assert refused > 150
    harmed.write_bytes(original)
    assert sequences(tail(reader(tmp_path), 0)) == list(range(1, 31))


def test_a_reader_does_not_wait_behind_a_hole(tmp_path: Path) -> None:
    """An entry that goes missing ahead of a running reader is damage, not the end of the log."""
    journal, follower = open_journal(tmp_path), reader(tmp_path)
    for seq in range(1, 6):
        journal.commit(group(seq))
    (tmp_path / LOG_FOLDER / entry_name(4)).unlink()
    with pytest.raises(DamagedData, match=entry_name(4)):
        follower.refresh()
    assert follower.version == 3


@pytest.mark.parametrize("owned", [True, False])
def test_a_file_that_vanishes_under_a_reader_is_damage(tmp_path: Path, *, owned: bool) -> None:
    """Unless the table let go of it: then the reader has been overtaken."""
    journal = open_journal(tmp_path)
    follower = JournalTail(str(tmp_path), owner=journal.reader if owned else None)
    follower.refresh()
    for seq in range(1, 4):
        journal.commit(group(seq))
    gone = sorted(tmp_path.glob("*.parquet"))[1]
    gone.unlink()
    assert follower.current("ORDERS", STREAM_ID, [1]).keys() == {1}
    with pytest.raises(DamagedData, match="missing") as caught:
        follower.current("ORDERS", STREAM_ID, [1, 2])
    assert caught.value.file == str(gone)
    journal.truncate(settled_to(2))
    assert follower.current("ORDERS", STREAM_ID, [1, 2, 3]).keys() == {3}


@pytest.mark.parametrize("harm", [*HARMS, os.unlink])
def test_a_damaged_checkpoint_is_made_up_for(tmp_path: Path, harm: Harm) -> None:
    """From the checkpoint before it and the entries kept behind it; the next owner puts a whole one in its place."""
    log = _filled(tmp_path, 12, checkpoints=(4, 8))
    harm(log / checkpoint_name(9))
    assert sequences(live_rows(reader(tmp_path))) == list(range(1, 13))
    journal = open_journal(tmp_path)
    journal.commit(group(13))
    assert sequences(live_rows(reader(tmp_path))) == list(range(1, 14))
    assert through_delta_rs(tmp_path) == list(range(1, 14))
    assert DeltaTable(str(tmp_path)).version() == journal.reader.version


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_without_entries_behind_it_is_named(tmp_path: Path, harm: Harm) -> None:
    """Nothing can make up for it then."""
    log = _filled(tmp_path, 8, checkpoints=(8,))
    for version in range(9):
        (log / entry_name(version)).unlink()
    harm(log / checkpoint_name(9))
    with pytest.raises(DamagedData, match=checkpoint_name(9)):
        reader(tmp_path)


@pytest.mark.parametrize("harm", [*HARMS, os.unlink])
def test_a_damaged_pointer_is_only_a_hint_less(tmp_path: Path, harm: Harm) -> None:
    """``_last_checkpoint`` may be anything."""
    log = _filled(tmp_path, 8, checkpoints=(4,))
    harm(log / LAST_CHECKPOINT)
    assert sequences(live_rows(reader(tmp_path))) == list(range(1, 9))


def test_no_flipped_bit_of_the_log_changes_what_is_read(tmp_path: Path) -> None:
    """Any bit of any file of the log: the journal reads the same, or says what is damaged."""
    log = _filled(tmp_path, 6, checkpoints=(3,))
    dice = random.Random(3)
    for _ in range(300):
        harmed = dice.choice(sorted(log.iterdir()))
        original = harmed.read_bytes()
        altered = bytearray(original)
        altered[dice.randrange(len(altered))] ^= 1 << dice.randrange(8)
        harmed.write_bytes(altered)
        try:
            assert sequences(live_rows(reader(tmp_path))) == list(range(1, 7))
        except DamagedData as error:
            assert error.file.endswith(harmed.name)  # noqa: PT017  # either outcome is right
        harmed.write_bytes(original)


def test_a_foreign_commit_is_refused(tmp_path: Path) -> None:
    """The gateway is the only committer: whatever another engine wrote into the journal is not served."""
    _filled(tmp_path, 3)
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 2 days"})
    with pytest.raises(DamagedData, match="not written by Silt"):
        open_journal(tmp_path)
