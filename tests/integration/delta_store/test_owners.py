"""What the owners of both tables have in common, on a real folder: claims, fencing, the log's growth and its end."""

from pathlib import Path
from typing import Any

import pytest

from delta_store.entries.log_entry import entry_name
from delta_store.storage.local_storage import LocalStorage
from delta_store.storage.object_storage import race
from delta_store.values.journal_errors import Fenced, JournalPoisoned, NotOwner
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import SteppedClock
from tests.owned_tables import HORIZON_SECONDS, TABLES, OwnedTable

pytestmark = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)


def _log(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / LOG_FOLDER).iterdir())


def _filled(table: OwnedTable, folder: Path, commits: int, clock: SteppedClock) -> Any:
    owner = table.claimed(LocalStorage(folder), clock)
    for seq in range(1, commits + 1):
        table.commit(owner, seq)
    return owner


def test_only_an_owner_writes(table: OwnedTable, tmp_path: Path) -> None:
    """Opening is not owning."""
    owner = table.open(LocalStorage(tmp_path), SteppedClock())
    for what in (table.checkpoint, table.clean, lambda owner: owner.epoch, lambda owner: table.commit(owner, 1)):
        with pytest.raises(NotOwner):
            what(owner)


def test_a_newer_owner_fences_the_older(table: OwnedTable, tmp_path: Path) -> None:
    """The old one's next commit fails, nothing of it is in the table, and it stays stopped."""
    old = _filled(table, tmp_path, 10, SteppedClock())
    new = table.claimed(LocalStorage(tmp_path), SteppedClock())
    assert (old.epoch, new.epoch) == (1, 2)
    with pytest.raises(Fenced) as caught:
        table.commit(old, 11)
    assert (caught.value.own_epoch, caught.value.found_epoch) == (1, 2)
    for what in (table.checkpoint, table.clean, lambda owner: table.commit(owner, 11)):
        with pytest.raises(JournalPoisoned):
            what(old)
    table.commit(new, 11)
    assert table.read(LocalStorage(tmp_path)) == list(range(1, 12))


def test_an_owner_that_slept_through_a_cleanup_is_fenced(
    table: OwnedTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is free again, as the entry was cleaned up; winning it must not count as a commit."""
    monkeypatch.setattr("delta_store.settled.settled_upkeep.SETTLED_CHECKPOINT_COMMITS", 5)
    clock = SteppedClock()
    old = _filled(table, tmp_path, 3, clock)
    slept_at = max(_log(tmp_path))
    new = table.claimed(LocalStorage(tmp_path), clock)
    for seq in range(4, 34):
        table.commit(new, seq)
        if seq in {17, 32}:
            table.checkpoint(new)
        clock.seconds += 30
    clock.seconds += HORIZON_SECONDS
    table.clean(new)
    lost = _log(tmp_path)
    assert slept_at not in lost
    with pytest.raises(Fenced) as caught:
        table.commit(old, 4)
    assert caught.value.found_epoch == new.epoch
    assert _log(tmp_path) == lost
    before = table.read(LocalStorage(tmp_path))
    table.commit(new, 34)
    assert table.read(LocalStorage(tmp_path)) == [*before, 34]


def test_claims_at_the_same_time_get_epochs_of_their_own(table: OwnedTable, tmp_path: Path) -> None:
    """However a race of claims ends, no two owners share an epoch, and the highest one can commit."""
    clock = SteppedClock()
    table.open(LocalStorage(tmp_path), clock)
    for seq in range(1, 11):
        owners = [table.open(LocalStorage(tmp_path), clock) for _ in range(3)]
        race([lambda owner=owner: bool(owner.claim()) for owner in owners])  # type: ignore[misc]
        by_epoch = sorted(owners, key=lambda owner: int(owner.epoch))
        assert len({owner.epoch for owner in owners}) == 3
        table.commit(by_epoch[-1], seq)
        with pytest.raises(Fenced):
            table.commit(by_epoch[0], seq)


def test_creations_at_the_same_time_make_one_table(table: OwnedTable, tmp_path: Path) -> None:
    """Two that find no table agree on one version 0."""
    for number in range(10):
        folder = tmp_path / str(number)

        def create(folder: Path = folder) -> bool:
            return bool(table.open(LocalStorage(folder), SteppedClock()))

        assert race([create, create]) == [True, True]
        assert _log(folder) == [entry_name(0)]


def test_a_file_system_without_nameless_files_works_too(table: OwnedTable, tmp_path: Path) -> None:
    """Then the entry has a temporary name until it is whole; the put is as exclusive."""
    storage = LocalStorage(tmp_path)
    storage.nameless = False
    owner = table.claimed(storage, SteppedClock())
    for seq in (1, 2, 3):
        table.commit(owner, seq)
    table.claimed(LocalStorage(tmp_path), SteppedClock())
    with pytest.raises(Fenced):
        table.commit(owner, 4)
    assert table.read(storage) == [1, 2, 3]
    assert _log(tmp_path) == [entry_name(version) for version in range(6)]
