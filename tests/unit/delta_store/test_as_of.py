"""What ``--as-of`` means."""

from datetime import UTC, datetime, timedelta

import pytest

from delta_store.values.as_of import AsOf, NotAPoint, parse_as_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "point"),
    [
        (None, AsOf()),
        ("42", AsOf(seq=42)),
        ("2026-01-30T08:00:00Z", AsOf.at(datetime(2026, 1, 30, 8, tzinfo=UTC))),
        ("2026-01-30T08:00:00", AsOf.at(datetime(2026, 1, 30, 8, tzinfo=UTC))),
        ("1970-01-01T00:00:01.000001", AsOf(before_ns=1_000_001_000)),
        ("1970-01-01T01:00:00+01:00", AsOf(before_ns=0)),
        ("15m", AsOf.at(NOW - timedelta(minutes=15))),
        ("2d12h ago", AsOf.at(NOW - timedelta(days=2, hours=12))),
        ("1h2m3s", AsOf.at(NOW - timedelta(hours=1, minutes=2, seconds=3))),
        ("cut:Before_the-1st", AsOf(cut="Before_the-1st")),
    ],
)
def test_points(text: str | None, point: AsOf) -> None:
    """A revision, a time with or without a zone, an age, a cut, or nothing at all; written as a text it is the same."""
    assert parse_as_of(text, now=NOW) == point
    assert parse_as_of(point.text, now=NOW) == point


NONE = [
    "",
    "0",
    "soon",
    "ago",
    "cut:",
    "cut:a.b",
    "cut:*",
    f"cut:{'x' * 65}",
    "Cut:a",
    "-5",
    "1.5h",
    "12:00",
    "999999d",
    "9999999999d",
    "9" * 5000,
    "9" * 5000 + "d",
]


@pytest.mark.parametrize("text", NONE, ids=range(len(NONE)))
def test_no_point(text: str) -> None:
    """What names no point is refused, not guessed."""
    with pytest.raises(NotAPoint):
        parse_as_of(text, now=NOW)
