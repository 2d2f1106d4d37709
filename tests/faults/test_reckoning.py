"""The reckoning after a fault must see each kind of damage, or the fault tests would prove nothing."""

import pytest

from tests.faults.reckoning import (
    History,
    Sent,
    Stored,
    digest,
    everything_wrong,
    holes,
    lost_or_altered,
    never_sent,
    stored_twice,
    unequal,
    used_twice,
)


def _message(key: str, *, with_id: bool = True) -> Stored:
    return Stored("a", digest(key.encode()), f"id-{key}" if with_id else None)


@pytest.fixture
def history() -> History:
    """Three messages sent, two acknowledged."""
    sent = {key: Sent(*_message(key)) for key in ("one", "two", "three")}
    return History(sent=sent, acked=[("one", 1), ("two", 2)])


def test_sound_stream_has_no_problems(history: History) -> None:
    """An unacknowledged message may be there or not."""
    stored = {1: _message("one"), 2: _message("two")}
    assert everything_wrong(history, stored) == []
    assert everything_wrong(history, stored | {3: _message("three")}) == []


def test_lost_message_is_seen(history: History) -> None:
    """An acknowledged message that is not there."""
    assert len(lost_or_altered(history, {1: _message("one")})) == 1


def test_altered_message_is_seen(history: History) -> None:
    """Another payload at an acknowledged sequence."""
    stored = {1: _message("one"), 2: Stored("a", digest(b"x"), "id-two")}
    assert len(lost_or_altered(history, stored)) == 1
    assert never_sent(history, stored)


def test_sequence_used_twice_is_seen(history: History) -> None:
    """One sequence acknowledged for two messages; the same acknowledgement twice is fine."""
    history.acked.append(("two", 2))
    assert used_twice(history) == []
    history.acked.append(("three", 2))
    assert len(used_twice(history)) == 1


def test_duplicate_is_seen(history: History) -> None:
    """One id stored twice, and one message without an id stored twice."""
    stored = {1: _message("one"), 2: _message("two"), 3: _message("two")}
    assert stored_twice(stored)
    history.sent["bare"] = Sent(*_message("bare", with_id=False))
    bare = {1: _message("one"), 2: _message("bare", with_id=False), 3: _message("bare", with_id=False)}
    assert stored_twice(bare) == []
    assert len(never_sent(history, bare)) == 1


def test_hole_is_seen() -> None:
    """A missing sequence below the last one."""
    assert holes({1: _message("one"), 3: _message("three")})


def test_unequal_readings_are_seen() -> None:
    """A row that one reading has and the other has not."""
    one = {1: _message("one")}
    assert unequal(one, {}, names=("x", "y"))
    assert unequal(one, dict(one), names=("x", "y")) == []
