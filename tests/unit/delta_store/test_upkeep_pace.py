"""The pace of maintenance: by its intervals where it is cheap, by what it costs where it is not."""

import random

import pytest

from delta_store.settling.upkeep_pace import Schedule, UpkeepPace


def _share(schedule: Schedule, *, costs: tuple[float, float, float], seconds: float, early: bool) -> dict[str, float]:
    """Let virtual time pass as the settle job does; returns the share of each kind of work, and how often it was done.

    ``costs`` are seconds of a round, a vacuum, and of what pays at any time; with ``early`` that always pays.
    """
    rng, now, spent = random.Random(3), 0.0, 0.0
    pace, done = UpkeepPace(schedule, started=now), {"rounds": 0.0, "vacuums": 0.0, "early": 0.0}
    while now < seconds:
        now += rng.uniform(0.1, 0.9)
        began = now
        if pace.rests(now):
            continue
        if pace.round_due(began):
            done["rounds"] += 1
            now += costs[0] * rng.uniform(0.5, 1.5)
        elif early:
            done["early"] += 1
            now += costs[2] * rng.uniform(0.5, 1.5)
        if pace.vacuum_due(began):
            done["vacuums"] += 1
            now += costs[1] * rng.uniform(0.5, 1.5)
        pace.ended(began, now)
        spent += now - began
    return {"share": spent / now, **done}


@pytest.mark.parametrize("early", [False, True])
def test_upkeep_dearer_than_its_intervals_leaves_settling_three_quarters_of_the_time(early: bool) -> None:
    """Rounds and vacuums of 15 s every 3 and 4 s took nine tenths of it, and so did deletions that always pay."""
    seen = _share(Schedule(3, 4), costs=(15, 15, 9), seconds=20_000, early=early)
    assert seen["share"] <= 0.25
    assert seen["rounds"] > 100
    assert seen["vacuums"] > 100


def test_deletions_that_always_pay_do_not_take_over_between_rounds() -> None:
    """What pays before the next round is bounded too, and rounds still come about as often as they should."""
    seen = _share(Schedule(300, 3600), costs=(20, 20, 20), seconds=100_000, early=True)
    assert seen["share"] <= 0.25
    assert seen["rounds"] > 200
    assert seen["early"] > 500


def test_cheap_upkeep_keeps_its_intervals() -> None:
    """Where a round costs little, its interval alone says when the next one is due."""
    seen = _share(Schedule(300, 3600), costs=(2, 2, 0.01), seconds=100_000, early=True)
    assert 300 < seen["rounds"] <= 334
    assert 25 <= seen["vacuums"] <= 28


def test_nothing_is_due_before_its_interval_is_over_from_the_start_or_from_its_end() -> None:
    """A round that took a second is due an interval after it ended, and its rest is over long before."""
    pace = UpkeepPace(Schedule(10, 100), started=5)
    assert not pace.round_due(14.9)
    assert pace.round_due(15)
    assert not pace.vacuum_due(15)
    pace.ended(15, 16)
    assert pace.rests(18.9)
    assert not pace.rests(19)
    assert not pace.round_due(25.9)
    assert pace.round_due(26)


def test_a_vacuum_delays_the_next_round_and_both_may_be_due_at_once() -> None:
    """They hold the same lock, so they share one rest; neither pushes the other out."""
    pace = UpkeepPace(Schedule(10, 10), started=0)
    assert pace.round_due(10)
    assert pace.vacuum_due(10)
    pace.ended(10, 30)
    assert not pace.round_due(89.9)
    assert not pace.vacuum_due(89.9)
    assert pace.round_due(90)
    assert pace.vacuum_due(90)
