"""One table in every format: nothing is lost where the format can say it, and what it can't say has one form."""

import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.formats.encoding import distinct, encode
from api.formats.table_format import TableFormat

TABLE = pa.table({
    "subject": ["a", "b\x1b[1m", None],
    "seq": pa.array([1, None, 1 << 62], pa.int64()),
    "time": pa.array([1, None, 1_764_000_000_123_456_789], pa.timestamp("ns", "UTC")),
    "data": [b"text", b"\xff\x00", None],
    "headers": pa.array([[("A", ["x", "y"])], [], None], pa.map_(pa.string(), pa.list_(pa.string()))),
    "share": [0.5, float("nan"), float("-inf")],
    "total": pa.array([Decimal(5), None, Decimal(7)], pa.decimal128(38, 0)),
    "price": pa.array([Decimal("1.25"), None, Decimal("-0.50")], pa.decimal128(5, 2)),
    "nested": [{"at": datetime(2020, 1, 2, tzinfo=UTC), "of": [1]}, None, {"at": None, "of": []}],
    "day": [date(2020, 1, 2), None, None],
    "took": [timedelta(seconds=90), None, None],
    "good": [True, False, None],
    "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
})  # fmt: skip
FIRST = {
    "subject": "a",
    "seq": 1,
    "time": "1970-01-01T00:00:00.000000001Z",
    "data": "dGV4dA==",
    "headers": {"A": ["x", "y"]},
    "share": 0.5,
    "total": 5,
    "price": 1.25,
    "nested": {"at": "2020-01-02T00:00:00.000000Z", "of": [1]},
    "day": "2020-01-02",
    "took": "0:01:30",
    "good": True,
    "kind": "x",
}


def encoded(kind: TableFormat, table: pa.Table, rows: int = 2) -> bytes:
    """The table in batches of so many rows."""
    return b"".join(encode(kind, table.schema, table.to_batches(max_chunksize=rows)))


def test_json_and_ndjson_hold_the_same_objects() -> None:
    """Times have all digits, bytes are base64, what JSON lacks is a string, and null is null."""
    objects = json.loads(encoded(TableFormat.JSON, TABLE))
    assert objects[0] == FIRST
    assert (objects[1]["share"], objects[2]["share"]) == ("NaN", "-Infinity")
    assert {name for name, value in objects[2].items() if value is None} == {
        "subject", "data", "headers", "day", "took", "good",
    }  # fmt: skip
    assert objects[2]["seq"] == 1 << 62
    assert [json.loads(line) for line in encoded(TableFormat.NDJSON, TABLE).splitlines()] == objects


@given(st.lists(st.text('a,"\r\n \0é', max_size=4) | st.none(), max_size=6), st.integers(1, 3))
def test_csv_is_quoted_as_pythons_own(texts: list[str | None], width: int) -> None:
    """Field by field the bytes of the library's writer: separators, quotes and line ends inside, lone empty fields."""
    table = pa.table({f"a,{number}": pa.array(texts, pa.string()) for number in range(width)})
    expected = io.StringIO()
    csv.writer(expected).writerows([table.column_names, *zip(*[texts] * width, strict=True)])
    assert encoded(TableFormat.CSV, table).decode() == expected.getvalue()


def test_csv_has_a_header_and_nests_as_json() -> None:
    """Every row has every field; null is an empty one."""
    lines = list(csv.DictReader(io.StringIO(encoded(TableFormat.CSV, TABLE).decode(), newline="")))
    assert len(lines) == 3
    assert {name: lines[0][name] for name in ("seq", "time", "data")} == {
        "seq": "1", "time": FIRST["time"], "data": "dGV4dA==",
    }  # fmt: skip
    assert json.loads(lines[0]["headers"]) == FIRST["headers"]
    assert json.loads(lines[0]["nested"]) == FIRST["nested"]
    assert (lines[0]["good"], lines[1]["time"], lines[2]["subject"]) == ("true", "", "")


def test_text_is_a_table_that_moves_no_cursor() -> None:
    """Columns line up, payloads are readable, and control characters are shown."""
    lines = encoded(TableFormat.TEXT, TABLE.select(["subject", "seq", "data"]), rows=3).decode().splitlines()
    assert lines == [
        " subject  |         seq         | data",
        "----------+---------------------+------",
        " a        |                   1 | text",
        " b\\x1b[1m |                     | ff00",
        "          | 4611686018427387904 |",
        "(3 rows)",
    ]


def test_arrow_and_parquet_keep_every_type() -> None:
    """What is read back is the same table."""
    ordered = TABLE.drop_columns(["share"])  # NaN equals nothing
    assert pa.ipc.open_stream(encoded(TableFormat.ARROW, ordered)).read_all() == ordered
    typed = ordered.drop_columns(["took"])
    assert pq.read_table(io.BytesIO(encoded(TableFormat.PARQUET, typed))) == typed


def test_parquet_gathers_small_batches() -> None:
    """Row groups are large, however small the batches are, and yet nothing is held for ever."""
    table = pa.table({"n": range(200_000)})
    chunks = list(encode(TableFormat.PARQUET, table.schema, table.to_batches(max_chunksize=1_000)))
    assert pq.ParquetFile(io.BytesIO(b"".join(chunks))).metadata.num_row_groups == 4
    assert len(chunks) >= 4


@pytest.mark.parametrize("kind", list(TableFormat))
def test_no_rows_are_no_error(kind: TableFormat) -> None:
    """An empty result has a form in every format, the same with and without empty batches."""
    empty = b"".join(encode(kind, TABLE.schema, []))
    assert b"".join(encode(kind, TABLE.schema, TABLE.slice(0, 0).to_batches())) == empty
    readable = {TableFormat.JSON: b"[]\n", TableFormat.NDJSON: b"", TableFormat.CSV: ",".join(FIRST).encode() + b"\r\n"}
    assert empty == readable.get(kind, empty)


@pytest.mark.parametrize("kind", list(TableFormat))
def test_an_error_on_the_way_is_not_an_end(kind: TableFormat) -> None:
    """What the batches raise is raised, so that a part is never taken for the whole."""

    def broken() -> Any:
        yield from TABLE.to_batches()
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(encode(kind, TABLE.schema, broken()))


def test_columns_of_one_name_stay_apart() -> None:
    """Two columns ``a`` are ``a`` and ``a_1``, and no column that is there takes the name of another."""
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    for kind in (TableFormat.JSON, TableFormat.NDJSON):
        assert json.loads(encoded(kind, table).strip(b"[]\n")) == {"a": 1, "a_1": 2}
    assert pq.read_table(io.BytesIO(encoded(TableFormat.PARQUET, table))).column_names == ["a", "a_1"]


@given(st.lists(st.sampled_from(["a", "a_1", "a_2", "b", ""]), max_size=8))
def test_distinct_names_are_distinct(names: list[str]) -> None:
    """The first of a name keeps it."""
    result = distinct(names)
    assert len(set(result)) == len(names)
    assert all(result[names.index(name)] == name for name in names)


@given(
    st.lists(
        st.fixed_dictionaries({
            "text": st.none() | st.text(),
            "data": st.none() | st.binary(),
            "count": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        }),
        max_size=20,
    ),
    st.integers(1, 7),
)  # fmt: skip
def test_any_table_is_read_back(rows: list[dict[str, Any]], size: int) -> None:
    """However it is cut into batches."""
    kinds = {"text": pa.string(), "data": pa.binary(), "count": pa.int64(), "tags": pa.list_(pa.string())}
    table = pa.Table.from_pylist(rows, schema=pa.schema(kinds))
    assert pa.ipc.open_stream(encoded(TableFormat.ARROW, table, size)).read_all() == table
    lines = [json.loads(line) for line in encoded(TableFormat.NDJSON, table, size).split(b"\n") if line]
    assert [{**line, "data": None} for line in lines] == [{**row, "data": None} for row in rows]
