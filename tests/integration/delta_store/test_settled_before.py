"""Where ``messages`` stood a while ago, by its log."""

from pathlib import Path

from delta_store.entries.log_entry import entry_name
from delta_store.settled.settled_before import SettledBefore, Stood
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.schemas import LOG_FOLDER
from delta_store.values.watermark import Op
from tests.groups import SteppedClock, event, message
from tests.staged import open_owner, settle


def test_a_past_state_is_found_and_followed(tmp_path: Path) -> None:
    """At each time that of the last commit until then, by a finder that is new and by one that has followed."""
    clock = SteppedClock()
    storage = LocalStorage(tmp_path / "messages")
    owner = open_owner(storage, clock)
    settle(owner, [event(0, 1)])
    stood = {clock.now_ns() // 1_000_000: Stood(owner.snapshot.version, owner.note.batch, owner.note.watermarks)}
    for seq in range(1, 40):
        clock.seconds += seq % 5
        settle(owner, [message(seq)])
        if seq % 7 == 0:
            owner.rewrite(Op.LIMITS, set())
        stood[clock.now_ns() // 1_000_000] = Stood(owner.snapshot.version, owner.note.batch, owner.note.watermarks)
    newest, times, now_ms = owner.snapshot.version, sorted(stood), clock.now_ns() // 1_000_000
    follower = SettledBefore(storage, clock)
    for time_ms, later_ms in zip(times, [*times[1:], times[-1] + 1], strict=True):
        for asked_ms in (time_ms, later_ms - 1):
            seconds = (now_ms - asked_ms) / 1e3
            assert follower.ago(seconds, newest=newest) == stood[time_ms]
            assert SettledBefore(storage, clock).ago(seconds, newest=newest) == stood[time_ms]
    assert SettledBefore(storage, clock).ago((now_ms - times[0] + 1) / 1e3, newest=newest) is None
    settle(owner, [message(40)])
    found = follower.ago(0, newest=owner.snapshot.version)
    assert found is not None
    assert found.marks == owner.note.watermarks


def test_a_clock_that_was_ahead_holds_nothing_up(tmp_path: Path) -> None:
    """What is dated in the future was committed before now."""
    clock = SteppedClock()
    storage = LocalStorage(tmp_path / "messages")
    clock.seconds += 1e6
    owner = open_owner(storage, clock)
    settle(owner, [event(0, 1), message(1)])
    clock.seconds -= 1e6
    settle(owner, [message(2)])
    found = SettledBefore(storage, clock).ago(60, newest=owner.snapshot.version)
    assert found is not None
    assert found.marks == owner.note.watermarks


def test_what_log_cleanup_has_deleted_is_not_known(tmp_path: Path) -> None:
    """Nothing is found before the oldest entry; one who had found an entry that is gone begins anew."""
    clock = SteppedClock()
    storage = LocalStorage(tmp_path / "messages")
    owner = open_owner(storage, clock)
    for seq in range(1, 10):
        clock.seconds += 1
        settle(owner, [event(0, 1), message(1)] if seq == 1 else [message(seq)])
    newest, follower = owner.snapshot.version, SettledBefore(storage, clock)
    assert follower.ago(8, newest=newest) is not None
    for version in range(newest - 3):
        (tmp_path / "messages" / LOG_FOLDER / entry_name(version)).unlink()
    assert SettledBefore(storage, clock).ago(6, newest=newest) is None
    found = follower.ago(0, newest=newest)
    assert found is not None
    assert found.version == newest
