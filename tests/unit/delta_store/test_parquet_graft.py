"""Files that are another one's bytes and new columns behind them: to any reader the old rows with other values."""

import json
from io import BytesIO
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_store.entries.parquet_graft import TAIL_BYTES, Graft, can_take, footer_bytes, graft, metadata_of
from delta_store.entries.settled_file import FILE_SCHEMA, ROW_GROUP_ROWS, decode, encode, statistics_of
from tests.unit.delta_store.test_settled_file import rows

OWN: Final = {"stream_id": 1 << 60, "event_no": 3, "first_seq": 17, "evicts": 0}


def footer_of(body: bytes) -> bytes:
    """The footer of a file."""
    length = footer_bytes(body[-TAIL_BYTES:])
    return body[-TAIL_BYTES - length : -TAIL_BYTES]


def grown(body: bytes, values: dict[str, int]) -> bytes:
    """A file with other values in some columns."""
    return body + grafted(body, len(body), values).more


def grafted(body: bytes, size: int, values: dict[str, int]) -> Graft:
    """What a file becomes if it is of some size."""
    return graft(footer_of(body), metadata_of(footer_of(body)), size, values)


def changed(table: pa.Table, values: dict[str, int]) -> pa.Table:
    """Rows with other values in some columns."""
    for name, value in values.items():
        column = pa.repeat(pa.scalar(value, pa.int64()), table.num_rows)
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


@pytest.mark.parametrize("count", [1, 7, ROW_GROUP_ROWS, 2 * ROW_GROUP_ROWS + 1])
def test_a_grafted_file_has_the_old_rows_with_new_columns(count: int) -> None:
    """By Arrow with every page's checksum, and by polars; also one that is grafted again."""
    table = rows(count)
    old = encode(table).body.to_pybytes()
    body, values = old, OWN
    for _ in range(3):
        body, values = grown(body, values), {name: value + 1 for name, value in values.items()}
        assert body.startswith(old)
        before = {name: value - 1 for name, value in values.items()}
        back = decode(body, "A", "A.x").select(FILE_SCHEMA.names)
        assert back.equals(changed(table, before))
        assert pl.read_parquet(BytesIO(body)).select(FILE_SCHEMA.names).to_arrow().cast(FILE_SCHEMA).equals(back)


@pytest.mark.parametrize("ends", [(0, -1), (-(1 << 63), (1 << 63) - 1), (1 << 6, 1 << 7), (127, 1 << 62)])
def test_what_is_said_of_a_grafted_file_is_what_is_in_it(ends: tuple[int, int]) -> None:
    """The statistics that its footer gives are those of its rows."""
    count = ROW_GROUP_ROWS + 1
    values = OWN | dict(zip(("stream_id", "evicts"), ends, strict=True))
    new = grafted(encode(rows(count)).body.to_pybytes(), 10_000_000, values)
    stats = statistics_of(new.metadata)
    assert stats is not None
    assert json.loads(stats) == json.loads(encode(changed(rows(count), values)).stats)


def test_a_file_may_have_many_row_groups_and_be_of_any_size() -> None:
    """Lists of more than fourteen, and places of many digits, are written as Thrift has them."""
    sink, table = BytesIO(), rows(200)
    pq.write_table(table, sink, row_group_size=3, store_schema=False)
    body = sink.getvalue()
    assert decode(grown(body, OWN), "A", "A.x").select(FILE_SCHEMA.names).equals(changed(table, OWN))
    for size in (len(body), 1 << 31, 1 << 40):
        new = grafted(body, size, OWN)
        assert new.metadata.num_row_groups == 67
        column = new.metadata.row_group(66).column(len(FILE_SCHEMA) - 1)
        assert size < column.data_page_offset < size + len(new.more)


def test_row_groups_lie_where_they_begin() -> None:
    """Their first column has stayed, and the bytes from there on end in the file: so parquet-java finds each once."""
    body = grown(encode(rows(3 * ROW_GROUP_ROWS)).body.to_pybytes(), OWN)
    metadata = pq.read_metadata(BytesIO(body))
    starts = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(place) for place in range(group.num_columns)]
        first = columns[0]
        starts.append(first.dictionary_page_offset or first.data_page_offset)
        assert starts[-1] + sum(one.total_compressed_size for one in columns) < len(body)
    assert starts == sorted(starts)
    assert starts[0] < 100_000


def test_files_that_others_wrote_are_not_taken() -> None:
    """Another writer's, one with other columns, one that says it is sorted; and bytes that are no file are refused."""
    table, sink = rows(9), BytesIO()
    assert can_take(metadata_of(footer_of(encode(table).body.to_pybytes())), FILE_SCHEMA.names)
    pl.from_arrow(table).write_parquet(sink)  # type: ignore[union-attr]  # a table is a frame
    assert not can_take(pq.read_metadata(sink), FILE_SCHEMA.names)
    for columns, more in ((["seq"], {}), (FILE_SCHEMA.names, {"write_page_index": True})):
        other = BytesIO()
        pq.write_table(table.select(columns), other, **more)
        assert not can_take(pq.read_metadata(other), FILE_SCHEMA.names)
    ordered = BytesIO()
    pq.write_table(table, ordered, sorting_columns=[pq.SortingColumn(1)])
    assert not can_take(pq.read_metadata(ordered), FILE_SCHEMA.names)
    with pytest.raises(ValueError, match="not the end"):
        footer_bytes(b"PAR1 no!")
    with pytest.raises(ValueError, match="thrift"):
        metadata_of(b"no footer at all")


def test_statistics_that_a_footer_lacks_are_not_made_up() -> None:
    """A column without bounds in one row group: nothing is said."""
    sink = BytesIO()
    pq.write_table(rows(9), sink, write_statistics=["seq"])
    assert statistics_of(pq.read_metadata(sink)) is None
