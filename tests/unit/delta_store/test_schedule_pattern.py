"""Patterns of message schedules."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_store.config.schedule_pattern import BadZone, Firing, firing, time_ns, zone
from delta_store.dialect.times import format_time

SECOND = 1_000_000_000
NOW = 1_790_000_000 * SECOND


def following(pattern: str, name: str, since: str) -> str:
    """The time that a pattern names after another one, both as text."""
    start = time_ns(since)
    assert start is not None
    found = firing(pattern, zone(name), ts_ns=start, now_ns=start)
    assert found is not None
    return format_time(found.due_ns, zone(name))


@pytest.mark.parametrize(
    ("pattern", "name", "since", "due"),
    [
        ("@daily", "UTC", "2026-11-21T10:00:00.5Z", "2026-11-22T00:00:00Z"),
        ("@weekly", "UTC", "2026-11-21T10:00:00Z", "2026-11-22T00:00:00Z"),
        ("@yearly", "UTC", "2026-11-21T10:00:00Z", "2027-01-01T00:00:00Z"),
        ("0 0 0 29 2 *", "UTC", "2026-11-21T10:00:00Z", "2028-02-29T00:00:00Z"),
        ("59 59 23 31 dec ?", "UTC", "2026-12-31T23:59:59Z", "2027-12-31T23:59:59Z"),
        ("0 0 0 13 * fri", "UTC", "2026-11-21T10:00:00Z", "2026-11-27T00:00:00Z"),
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T02:30:00+02:00"),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T02:30:00+02:00"),
        ("0 0 9 * * *", "America/New_York", "2026-03-07T15:00:00Z", "2026-03-08T09:00:00-04:00"),
        ("*/20 * * * * *", "Asia/Kolkata", "2026-01-01T00:00:41Z", "2026-01-01T05:31:00+05:30"),
    ],
)
def test_next_time(pattern: str, name: str, since: str, due: str) -> None:
    """A cron pattern is next due at a known time, summer time or not."""
    assert following(pattern, name, since) == due


def test_missed_times_are_one() -> None:
    """What was due many times before now is due once, later."""
    late = firing("@every 10s", None, ts_ns=0, now_ns=NOW + 1)
    assert late == Firing(NOW + 10 * SECOND, repeats=True)
    assert firing("* * * * * *", None, ts_ns=0, now_ns=NOW) == Firing(NOW + SECOND, repeats=True)
    assert firing("@at 2020-01-01T00:00:00Z", None, ts_ns=0, now_ns=NOW) == Firing(1577836800 * SECOND, repeats=False)


@pytest.mark.parametrize("name", ["Nowhere/None", "", "../UTC", "Europe"])
def test_unknown_zone(name: str) -> None:
    """A time zone that is none is an error."""
    with pytest.raises(BadZone):
        zone(name)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 59), st.integers(0, 59), st.integers(0, 23), st.integers(0, 4_000_000_000),
)  # fmt: skip
def test_daily_time_is_within_a_day(second: int, minute: int, hour: int, since: int) -> None:
    """A time of day is due within the next day, and shows that time."""
    found = firing(f"{second} {minute} {hour} * * *", None, ts_ns=since * SECOND, now_ns=0)
    assert found is not None
    assert 0 < found.due_ns - since * SECOND <= 86_400 * SECOND
    at = datetime.fromtimestamp(found.due_ns // SECOND, UTC)
    assert (at.second, at.minute, at.hour) == (second, minute, hour)


@settings(max_examples=300, deadline=None)
@given(st.text("0123456789*?,-/@ .:TZ+atevrymonsw", max_size=24))
def test_any_text(pattern: str) -> None:
    """Any text is a schedule or none, and never an error."""
    found = firing(pattern, None, ts_ns=NOW, now_ns=NOW)
    assert found is None or pattern.startswith("@at ") or found.due_ns > NOW


@given(st.integers(0, 1 << 62))
def test_times_are_read_as_written(ns: int) -> None:
    """A time that was written is read as the same."""
    assert time_ns(format_time(ns)) == ns
