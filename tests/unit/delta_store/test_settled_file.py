"""Files of settled rows: what is said of them is what is in them, and they are read back as they were written."""

import json
from itertools import pairwise
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_store.entries.settled_file import (
    FILE_SCHEMA,
    ROW_GROUP_ROWS,
    STATISTICS_CHARS,
    decode,
    encode,
    statistics,
)
from delta_store.entries.staged_file import STATISTICS
from delta_store.values.schemas import MESSAGES_COLUMNS

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80) | st.text("a\U0010ffff", min_size=30, max_size=40)


def rows(count: int, **given: Any) -> pa.Table:
    """Rows of a stream, with some columns given."""
    values: dict[str, Any] = {name: list(range(1, count + 1)) for name in FILE_SCHEMA.names}
    values |= {"kind": ["message"] * count, "subject": [f"s.{number % 7}" for number in range(count)]}
    values |= {"msg_id": [None if number % 2 else f"id-{number}" for number in range(count)]}
    values |= {"headers": [None] * count, "data": [b"%d" % number for number in range(count)]} | given
    return pa.table({name: pa.array(values[name], FILE_SCHEMA.field(name).type) for name in FILE_SCHEMA.names})


def footer_bounds(body: pa.Buffer, name: str) -> tuple[Any, Any, int]:
    """A column's lowest and highest value and its nulls, as the file's own footer has them."""
    metadata = pq.ParquetFile(pa.BufferReader(body)).metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found = [group.column(FILE_SCHEMA.get_field_index(name)).statistics for group in groups]
    known = [one for one in found if one.has_min_max]
    low, high = min((one.min for one in known), default=None), max((one.max for one in known), default=None)
    return low, high, sum(one.null_count for one in found)


@pytest.mark.parametrize("count", [1, 2, ROW_GROUP_ROWS + 1])
def test_what_is_said_is_what_the_footer_says(count: int) -> None:
    """Size, rows, checksum, and the bounds and nulls of every column that the table names."""
    file = encode(rows(count))
    said = json.loads(file.stats)
    assert (file.rows, said["numRecords"], file.checksum) == (count, count, crc32(file.body))
    assert set(said["nullCount"]) == set(STATISTICS)
    for name in STATISTICS:
        bounds = said["minValues"].get(name), said["maxValues"].get(name), said["nullCount"][name]
        assert bounds == footer_bounds(file.body, name), name


def test_a_file_is_read_back() -> None:
    """With its partition values; row groups are bounded and in order, each page has a checksum."""
    whole = rows(2 * ROW_GROUP_ROWS + 5)
    file = encode(whole)
    back = decode(file.body.to_pybytes(), "A", "A.x")
    assert set(back.column_names) == {column.name for column in MESSAGES_COLUMNS}
    assert back.select(whole.column_names).equals(whole)
    assert set(back["stream"].to_pylist() + back["subject_partition"].to_pylist()) == {"A", "A.x"}
    metadata = pq.ParquetFile(pa.BufferReader(file.body)).metadata
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 5]
    damaged = bytearray(file.body.to_pybytes())
    damaged[len(damaged) // 3] ^= 1
    with pytest.raises(OSError, match=r"(?i)crc|corrupt"):
        decode(bytes(damaged), "A", "A.x")


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=5))
def test_bounds_of_long_strings_hold(texts: list[str | None]) -> None:
    """Shortened, never past a value; a column without values has nulls and no bounds."""
    said = json.loads(statistics(rows(len(texts), msg_id=texts)))
    known = [text for text in texts if text is not None]
    assert said["nullCount"]["msg_id"] == texts.count(None)
    assert ("msg_id" in said["minValues"]) == ("msg_id" in said["maxValues"]) == bool(known)
    for low, value in pairwise([said["minValues"].get("msg_id"), *sorted(known)][:2]):
        assert low <= value
        assert len(low) <= STATISTICS_CHARS
    for text in known:
        assert text <= said["maxValues"]["msg_id"]
        assert text.encode() <= said["maxValues"]["msg_id"].encode()
    if known and len(max(known)) <= STATISTICS_CHARS:
        assert said["maxValues"]["msg_id"] == pc.max(pa.array(known)).as_py()
