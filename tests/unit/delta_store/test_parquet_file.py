"""Parquet files made here are what Arrow reads: each way to write a column, and each damage."""

import random

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


def large_file(bodies: list[bytes]) -> bytes:
    """A file with these bodies."""
    rows = len(bodies)
    return encoded([["n"] * rows, list(range(rows)), [None] * rows, [None] * rows, bodies, [None] * rows])


@pytest.mark.parametrize("size", [1_000, 8_000, 900_000])
@pytest.mark.parametrize("share", [0, 0.3, 0.5, 0.7, 1])
def test_megabytes_shrink_by_half_at_most(size: int, share: float) -> None:
    """Readers get each value, and no more than twice what the file has; what does not shrink is written as it is."""
    dice = random.Random(size)
    lengths = [dice.randrange(size + 1) for _ in range(6_000_000 // size)]
    bodies = [dice.randbytes(round(length * share)).ljust(length, b".") for length in lengths]
    raw = large_file(bodies)
    total = sum(lengths)
    assert read(raw)["body"].to_pylist() == bodies
    assert total * max(0.5, share) < len(raw) < total * (max(0.5, share) + 0.15)


def test_every_page_of_a_compressed_column_is_checked() -> None:
    """A changed byte of any page is noticed."""
    dice = random.Random(1)
    raw = large_file([dice.randbytes(512).ljust(1024, b".") for _ in range(3_000)])
    with pq.ParquetFile(pa.BufferReader(raw)) as file:
        column = file.metadata.row_group(0).column(4)
        assert column.compression == "SNAPPY"
        assert column.total_uncompressed_size > 1.8 * column.total_compressed_size
        assert file.metadata.row_group(0).total_byte_size > 3_000 * 1024
    for at in range(column.data_page_offset + 100, column.data_page_offset + column.total_compressed_size, 200_000):
        with pytest.raises(OSError, match="CRC"):
            read(raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :])
