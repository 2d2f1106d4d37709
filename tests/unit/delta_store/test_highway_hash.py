"""HighwayHash of many contents at a time: as the published vectors say, and as plain integers compute it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.archive.highway_hash import hashes, key_of, padding
from tests.highway import highway_hash

KEY = bytes(range(32))
PUBLISHED = {
    0: "536ec222de567a90",
    1: "78ddcdc7aa43ab7e",
    3: "803d468aabef6b5c",
    8: "71315fe5085120e1",
    15: "3bf349a4863f7940",
    16: "32b87ef98934abcf",
    31: "685a03cf7c00c79f",
    32: "fc80d5ecd964c9a0",
    63: "a03921bfe9eb8eab",
    64: "ffa6d24c5d2c5475",
}
"""Hashes of the bytes 0, 1, 2, … with KEY by their number, of the authors' own test."""


def found_of(contents: list[bytes], key: bytes) -> list[bytes]:
    """The hashes of contents."""
    joined = b"".join(part for one in contents for part in (one, padding(len(one))))
    return [int(one).to_bytes(8, "little") for one in hashes(joined, [len(one) for one in contents], key)]


@pytest.mark.parametrize("size", PUBLISHED)
def test_published_hashes(size: int) -> None:
    """Both ways to compute them give what the authors publish."""
    content = bytes(range(size))
    assert found_of([content], KEY)[0].hex() == highway_hash(content, KEY).hex() == PUBLISHED[size]


@given(st.lists(st.binary(max_size=150), max_size=20), st.text(max_size=10))
def test_many_at_a_time(contents: list[bytes], name: str) -> None:
    """Contents of any sizes side by side have the hashes that each has alone."""
    key = key_of(name)
    assert found_of(contents, key) == [highway_hash(one, key) for one in contents]
