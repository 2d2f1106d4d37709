"""Times as Go writes and reads them: nanoseconds to text and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.dialect.durations import parse_age
from delta_store.dialect.times import ZERO_TIME, format_time, parse_time


@pytest.mark.parametrize(
    ("ts_ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_500_000_000, "1970-01-01T00:00:01.5Z"),
        (1_764_000_000_123_456_789, "2025-11-24T16:00:00.123456789Z"),
        (1_764_000_000_120_000_000, "2025-11-24T16:00:00.12Z"),
        (None, "0001-01-01T00:00:00Z"),
    ],
)
def test_format(ts_ns: int | None, text: str) -> None:
    """Trailing zeros of the fraction are left out; no time is Go's zero time."""
    assert format_time(ts_ns) == text


@pytest.mark.parametrize(
    ("text", "ts_ns"),
    [
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:30:00-01:30", 0),
        ("1970-01-01T0:00:00,5Z", 500_000_000),
        ("1970-01-02T01:00:00+24:60", 0),
        ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
        ("1678-01-01T00:00:00Z", -9_214_560_000 * 10**9),
        ("2262-01-01T00:00:00Z", 9_214_646_400 * 10**9),
        (ZERO_TIME, -(2**63)),
        ("0000-02-29T00:00:00Z", -(2**63)),
        ("9999-12-31T23:59:59Z", 2**63 - 1),
    ],
)
def test_parse(text: str, ts_ns: int) -> None:
    """Offsets, commas, one-digit hours and fractions beyond a nanosecond are read as Go reads them."""
    assert parse_time(text) == ts_ns


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_round_trip(ts_ns: int) -> None:
    """What is written is read back."""
    assert parse_time(format_time(ts_ns)) == ts_ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("2w", 1_209_600), ("1w1d", 691_200), ("1d12h", 129_600), ("90s", 90), ("1d1.5s", 86_401.5), ("", None)],
)
def test_an_age_may_begin_with_weeks_and_days(text: str, seconds: float | None) -> None:
    """What follows them is a duration of Go's; an empty text is none."""
    assert parse_age(text) == (None if seconds is None else seconds * 10**9)
