"""The horizons of streams, and the one of what all of them share."""

from delta_store.values.horizons import Horizons
from delta_store.values.oldest_point import OldestPoint, just_after


def test_the_longest_is_that_of_what_is_shared() -> None:
    """Streams that say nothing have the default one; those that are gone count no more."""
    horizons = Horizons(100.0)
    horizons.learn("LONG", 500 * 10**9)
    horizons.learn("SHORT", 0)
    assert [horizons.of(name) for name in ("LONG", "SHORT", "OTHER")] == [500, 0, 100]
    assert horizons.longest == 500
    horizons.learn("LONG", None)
    assert (horizons.longest, horizons.own) == (100, {"SHORT": 0})
    horizons.know([("LONG", 7), ("OTHER", None)])
    assert (horizons.longest, horizons.own) == (100, {"LONG": 7e-9})


def test_the_oldest_point_is_named_as_it_can_be_asked_for() -> None:
    """By sequence and time, or by what is known; a time is the first whole microsecond behind a message's."""
    assert str(OldestPoint(7, 1_500_000_000)) == "sequence 7, or the time 1970-01-01T00:00:01.5Z"
    assert [str(OldestPoint(7, 0)), str(OldestPoint(0, 10**9))] == ["sequence 7", "the time 1970-01-01T00:00:01Z"]
    assert str(OldestPoint(0, 0)) == "the present"
    assert [just_after(ns) for ns in (999, 1000, 1001)] == [1000, 2000, 2000]
