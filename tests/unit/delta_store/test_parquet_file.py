"""Parquet files made here are what Arrow reads: each way to write a column, and each damage."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from delta_store.entries.parquet_file import Field, Layout

FIELDS = (
    Field("name", "string", False),
    Field("number", "long", False),
    Field("label", "string", True),
    Field("amount", "long", True),
    Field("body", "binary", False),
    Field("head", "binary", True),
)
LAYOUT = Layout(FIELDS, created_by="silt")
TYPES = {"string": pa.string(), "long": pa.int64(), "binary": pa.binary()}
VALUES = {
    "string": st.text(max_size=20),
    "long": st.integers(-(2**63), 2**63 - 1),
    "binary": st.binary(max_size=300) | st.integers(3000, 9000).map(lambda size: b"v" * size),
}


def column(field: Field, rows: int) -> st.SearchStrategy[list[object]]:
    """Values all different, a few different ones, or one alone; some of them missing where that is allowed."""
    value = VALUES[field.kind]
    if field.nullable:
        value = st.none() | value
    few = st.lists(value, min_size=1, max_size=3).flatmap(
        lambda some: st.lists(st.sampled_from(some), min_size=rows, max_size=rows)
    )
    return few | st.lists(value, min_size=rows, max_size=rows) | value.map(lambda one: [one] * rows)


@st.composite
def tables(draw: st.DrawFn) -> list[list[object]]:
    """Columns of equal lengths, around the numbers of rows at which the way to write them changes."""
    rows = draw(st.sampled_from([1, 2, 7, 8, 9, 63, 64, 65, 129]))
    return [draw(column(field, rows)) for field in FIELDS]


def encoded(columns: list[list[object]]) -> bytes:
    """The file in one piece."""
    return b"".join(LAYOUT.encode(columns))


def read(body: bytes) -> pa.Table:
    """As Arrow reads it, page checksums verified."""
    with pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True) as file:
        return file.read()


MANY = list(map(str, range(257)))
NONE = [None] * 257


@settings(deadline=None, max_examples=150)
@given(tables())
@example([MANY, list(range(257)), NONE, NONE, [b"x"] * 257, NONE])
@example([[*MANY[:256], "0"], list(range(257)), [*NONE[1:], "x"], [0, *NONE[1:]], [b""] * 257, NONE])
def test_arrow_reads_what_was_written(columns: list[list[object]]) -> None:
    """All values, in order, with the types and the nullability that the fields name."""
    table = read(encoded(columns))
    assert table.schema == pa.schema([pa.field(field.name, TYPES[field.kind], field.nullable) for field in FIELDS])
    assert [table[field.name].to_pylist() for field in FIELDS] == columns


def test_columns_that_repeat_themselves_take_no_room() -> None:
    """A thousand equal values are one value; two different strings are a byte a row."""
    rows = 1000
    equal: list[list[object]] = [["orders"] * rows, [7] * rows, ["x"] * rows, [None] * rows, [b"d"] * rows]
    small = encoded([*equal, [None] * rows])
    mixed = encoded([["orders", "prices"] * (rows // 2), *equal[1:], [None] * rows])
    assert len(small) < 5 * rows + 1000
    assert rows < len(mixed) - len(small) < rows + 100


def test_large_values_are_handed_over_as_they_are() -> None:
    """A file of large payloads is not a copy of them."""
    large = [bytes([number]) * 100_000 for number in range(3)]
    parts = LAYOUT.encode([["n"] * 3, [1] * 3, NONE[:3], NONE[:3], list(large), [large[0], None, large[2]]])
    handed = {id(part) for part in parts}
    assert all(id(value) in handed for value in large)
    assert read(b"".join(parts))["head"].to_pylist() == [large[0], None, large[2]]


@pytest.mark.parametrize("place", range(0, 2000, 97))
def test_a_changed_page_is_noticed(place: int) -> None:
    """Page checksums cover every byte of every value."""
    body = bytearray(encoded([["n"], [1], [None], [None], [b"payload" * 300], [None]]))
    body[body.index(b"payload") + place] ^= 1
    with pytest.raises(OSError, match="CRC"):
        read(bytes(body))
