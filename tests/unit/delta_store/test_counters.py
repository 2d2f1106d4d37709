"""What a counter's copy adds to the counter of another stream."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.streams.counters import BrokenCounter, Total, whole_number


@pytest.mark.parametrize(
    ("shares", "source", "data", "added", "told"),
    [
        (b"", b"A 1 > > a.x abc", b'{"val":"5"}', 5, b'{"A":{"a.x":"5"}}'),
        (b'{"A":{"a.x":"5"}}', b"A 2 > > a.x abc", b'{"val":"3"}', -2, b'{"A":{"a.x":"3"}}'),
        (b'{"B":{"b":"1"}}', b"A 2 > > a.x", b'{"val":"-3"}', -3, b'{"A":{"a.x":"-3"},"B":{"b":"1"}}'),
        (b'{"A":{"z":"1"}}', b"A 2 > > a<&> abc", b"{}", 0, b'{"A":{"a\\u003c\\u0026\\u003e":"0","z":"1"}}'),
    ],
)
def test_only_the_difference_is_added(shares: bytes, source: bytes, data: bytes, added: int, told: bytes) -> None:
    """What the origin contributed before is not added again, and what others contributed stays."""
    assert Total(Decimal(100), shares).with_source(source, data) == (added, told)


@pytest.mark.parametrize("data", [b"", b"no JSON", b"7", b'{"val":7}', b"[" * 100_000])
def test_what_holds_no_total_is_not_added(data: bytes) -> None:
    """A message that is no counter's breaks off."""
    with pytest.raises(BrokenCounter):
        Total(Decimal(), b"").with_source(b"A 1 > > a.x", data)


@given(st.integers(), st.integers())
def test_totals_are_exact(total: int, added: int) -> None:
    """Integers of any sign and size are added to their last digit."""
    assert Total(whole_number(str(total)), b"").plus(whole_number(f"{added:+}")) == b'{"val":"%d"}' % (total + added)


def test_totals_grow_beyond_what_python_reads_as_an_integer() -> None:
    """A total of a million digits is added to, written and read again."""
    payload = Total(whole_number("9" * 1_000_000), b"").plus(whole_number("1"))
    assert payload == b'{"val":"1' + b"0" * 1_000_000 + b'"}'
    assert Total(Decimal(), b"").with_source(b"A 1 > > a.x", payload)[0] == whole_number("1" + "0" * 1_000_000)


@pytest.mark.parametrize(("text", "number"), [("-0", b"0"), ("+007", b"7"), ("-07", b"-7"), ("", b"0"), ("x", b"0")])
def test_numbers_are_written_the_shortest_way(text: str, number: bytes) -> None:
    """No sign of zero, no leading zeros; what is no number is none."""
    assert Total(Decimal(), b"").plus(whole_number(text)) == b'{"val":"%b"}' % number
