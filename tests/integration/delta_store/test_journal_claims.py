"""Claims stay in the journal's log when it is cleaned up, so that who slept meanwhile wins no version of long ago."""

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from delta_store.checking.verify_journal import look_at_log
from delta_store.entries.log_entry import entry_name, is_claim, version_of
from delta_store.journal.journal import Journal
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.storage import Blob
from delta_store.values.journal_errors import Fenced, ReadOvertaken
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import SHARD, SteppedClock, group, live_rows, open_journal, reader, sequences, settled_to
from tests.groups import through_delta_rs as by_delta_rs


def _versions(folder: Path) -> list[int]:
    found = (version_of(path.name) for path in (folder / LOG_FOLDER).iterdir())
    return sorted(version for version in found if version is not None)


def _commit(journal: Journal, first: int, last: int) -> None:
    for seq in range(first, last + 1):
        journal.commit(group(seq))


def _grown_and_cleaned(journal: Journal, clock: SteppedClock, first: int, last: int) -> None:
    """Commit messages, settle all but the last, and clean up: of the log, what lies behind the second last is left."""
    _commit(journal, first, last - 1)
    journal.checkpoint()
    _commit(journal, last, last)
    journal.truncate(settled_to(last - 1))
    journal.checkpoint()
    clock.seconds += 100
    assert journal.cleanup() > 0


def test_cleanup_leaves_claims_alone(tmp_path: Path) -> None:
    """All others are gone; readers, the next owner, delta-rs and verify find a whole journal, and little of the old."""
    clock = SteppedClock()
    for turn in range(4):
        journal = open_journal(tmp_path, clock)
        _grown_and_cleaned(journal, clock, turn * 10 + 1, turn * 10 + 10)
    versions = _versions(tmp_path)
    claims = [version for version in versions if is_claim((tmp_path / LOG_FOLDER / entry_name(version)).read_bytes())]
    assert len(claims) == 4
    assert versions[:4] == claims
    assert versions[4:] == list(range(versions[4], versions[-1] + 1))
    assert len(versions) < 10
    assert sequences(live_rows(reader(tmp_path))) == [40] == by_delta_rs(tmp_path)
    assert look_at_log(LocalStorage(tmp_path)).findings == []
    (tmp_path / LOG_FOLDER / entry_name(versions[5])).unlink()
    assert len(look_at_log(LocalStorage(tmp_path)).findings) == 1


def test_old_claims_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often gateways were started."""
    monkeypatch.setattr("delta_store.journal.journal_upkeep.JOURNAL_CLAIMS_KEPT", 3)
    clock = SteppedClock()
    for turn in range(8):
        _grown_and_cleaned(open_journal(tmp_path, clock), clock, turn * 10 + 1, turn * 10 + 10)
    assert len(_versions(tmp_path)) < 10
    assert sequences(live_rows(reader(tmp_path))) == [80]


def test_a_commit_looks_at_nothing(tmp_path: Path) -> None:
    """Two puts are all that an acknowledgement waits for."""
    journal = open_journal(tmp_path)
    refused = mock.Mock(side_effect=AssertionError)
    with mock.patch.multiple(LocalStorage, read=refused, exists=refused, sizes=refused):
        _commit(journal, 1, 3)
    assert sequences(live_rows(reader(tmp_path))) == [1, 2, 3]


class _Slow(LocalStorage):
    """A storage whose next put comes late."""

    before: Callable[[], None] | None = None

    def publish(self, entry: Blob, data: Blob | None = None) -> None:
        """Let something happen, and put then."""
        act, self.before = self.before, None
        if act is not None:
            act()
        super().publish(entry, data)


@pytest.mark.parametrize("seen", [0, 3], ids=["a claim", "a commit"])
def test_a_claim_that_slept_is_withdrawn(tmp_path: Path, seen: int) -> None:
    """It wins a version of long ago, whose entry was cleaned up: nothing of it is left, and no owner is harmed."""
    clock = SteppedClock()
    owner = open_journal(tmp_path, clock)
    _commit(owner, 1, seen)
    slow = _Slow(tmp_path)
    late = Journal.open(slow, shard=SHARD, clock=clock)

    def meanwhile() -> None:
        _grown_and_cleaned(owner, clock, seen + 1, seen + 20)

    slow.before = meanwhile
    with pytest.raises(ReadOvertaken):
        late.claim()
    versions = _versions(tmp_path)
    assert versions[1:] == list(range(versions[1], versions[-1] + 1))
    owner.commit(group(seen + 21))
    assert sequences(live_rows(reader(tmp_path))) == [seen + 20, seen + 21] == by_delta_rs(tmp_path)


def test_an_owner_that_slept_in_its_put_is_fenced(tmp_path: Path) -> None:
    """Its version is its successor's claim, which is there however much was cleaned up."""
    clock, slow = SteppedClock(), _Slow(tmp_path)
    old = Journal.open(slow, shard=SHARD, clock=clock)
    old.claim()
    _commit(old, 1, 3)

    def meanwhile() -> None:
        _grown_and_cleaned(open_journal(tmp_path, clock), clock, 4, 20)

    slow.before = meanwhile
    with pytest.raises(Fenced):
        old.commit(group(4))
    assert sequences(live_rows(reader(tmp_path))) == [20] == by_delta_rs(tmp_path)


def test_a_reader_that_slept_at_a_claim_is_overtaken(tmp_path: Path) -> None:
    """The claim is there still and the entry behind it is not: that is not the log's end."""
    clock = SteppedClock()
    owner = open_journal(tmp_path, clock)
    follower = reader(tmp_path)
    assert follower.refresh() == 1
    _grown_and_cleaned(owner, clock, 1, 20)
    with pytest.raises(ReadOvertaken):
        follower.refresh()
    follower.catch_up()
    assert follower.version == owner.reader.version
