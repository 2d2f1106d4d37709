"""A clock that is never set back, driven by virtual ones."""

import random

from conf.clock import SteadyClock

HOUR = 3600 * 1_000_000_000


class _Times:
    """What the machine's clocks show."""

    wall = 1_750_000_000 * 1_000_000_000
    monotonic = 5

    def pass_(self, step: int, jump: int = 0) -> None:
        self.wall += step + jump
        self.monotonic += step


def test_it_goes_on_where_the_wall_clock_is_set_back_and_follows_it_ahead() -> None:
    """A step back costs nothing; when the wall clock has caught up, or is set ahead, it is followed again."""
    times = _Times()
    clock = SteadyClock(lambda: times.wall, lambda: times.monotonic)
    begun = clock.now_ns()
    times.pass_(7, jump=-6 * HOUR)
    assert clock.now_ns() == begun + 7
    times.pass_(HOUR)
    assert clock.now_ns() == begun + 7 + HOUR
    times.pass_(1, jump=6 * HOUR)
    assert clock.now_ns() == times.wall == begun + 8 + HOUR
    times.pass_(1, jump=3 * HOUR)
    assert clock.now_ns() == times.wall


def test_no_jumps_and_no_late_readings_put_it_off_for_good() -> None:
    """However often and late it is read, it is the wall clock's time while that is steady, and never goes back."""
    dice, times = random.Random(1), _Times()

    def late() -> int:
        times.pass_(dice.choice([0, 3, 50_000_000]))
        return times.monotonic

    clock, last = SteadyClock(lambda: times.wall, late), 0
    for _ in range(1000):
        times.pass_(dice.randrange(1000))
        now = clock.now_ns()
        assert now >= last
        assert abs(now - times.wall) <= 50_000_000
        last = now
