"""What a counter's copy adds to the counter of another stream."""

import pytest

from delta_store.counters import BrokenCounter, Total


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
    assert Total(100, shares).with_source(source, data) == (added, told)


@pytest.mark.parametrize("data", [b"", b"no JSON", b"7", b'{"val":7}'])
def test_what_holds_no_total_is_not_added(data: bytes) -> None:
    """A message that is no counter's breaks off."""
    with pytest.raises(BrokenCounter):
        Total(0, b"").with_source(b"A 1 > > a.x", data)
