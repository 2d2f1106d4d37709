"""Per-message TTLs as nats-server reads them."""

import pytest

from delta_store.config.schedule_pattern import firing
from delta_store.streams.msg_ttl import ttl_seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"5", 5),
        (b"00", 0),
        (b"never", -1),
        (b"NEVER", -1),
        (b"1h30m", 5400),
        (b"1500ms", 1),
        (b"1000000\xc2\xb5s", 1),
        (b"0.1s" * 10, 1),
        (b"0", None),
        (b"-5s", None),
        (b"999ms", None),
        (b"", None),
        (b"soon", None),
        (b"\xff", None),
    ],
)
def test_what_a_ttl_says(value: bytes, seconds: int | None) -> None:
    """Whole seconds, a duration of at least one, or never."""
    assert ttl_seconds(value) == seconds


@pytest.mark.parametrize("unit", [b"", b"s", b"h"])
@pytest.mark.parametrize("digits", [30, 400, 5000, 60_000])
def test_numbers_beyond_all_bounds_are_refused(digits: int, unit: bytes) -> None:
    """A header may be 64 KiB of digits; that is an invalid value, never an exception."""
    value = b"9" * digits + unit
    assert ttl_seconds(value) is None
    assert firing(f"@every {value.decode()}", None, ts_ns=0, now_ns=0) is None
