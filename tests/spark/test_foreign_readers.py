"""Both tables through every reader we know of: a filter on any column finds the same rows."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as sf

from delta_store.entries import journal_file, log_entry
from delta_store.values.schemas import JOURNAL_SCHEMA, MESSAGES_SCHEMA
from tests.groups import columns, event, group, message, open_journal, reader
from tests.spark.store import Store

Keys = list[tuple[int, int, int]]
Asked = tuple[str, Any]
"""A column and the value asked for; None asks for those without one."""
KEY = ["stream_id", "seq", "event_no"]
MakeStore = Callable[..., Store]


def _keys(table: Any) -> Keys:
    return sorted(zip(*(table[name].to_pylist() for name in KEY), strict=True))


def _by_pyarrow(folder: Path, asked: list[Asked]) -> Iterator[Keys]:
    dataset = DeltaTable(str(folder)).to_pyarrow_dataset()
    for name, value in asked:
        column = pc.field(name)
        chosen = column.is_null() if value is None else column == pa.scalar(value, dataset.schema.field(name).type)
        yield _keys(dataset.to_table(columns=KEY, filter=chosen))


def _by_duckdb(folder: Path, asked: list[Asked]) -> Iterator[Keys]:
    dataset = DeltaTable(str(folder)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("rows", dataset)
        yield from _asked_of_duckdb(connection, "rows", asked)


def _by_duckdb_itself(folder: Path, asked: list[Asked]) -> Iterator[Keys]:
    """By its own extension, where that is on this machine."""
    with duckdb.connect() as connection, suppress(duckdb.Error):
        connection.execute("LOAD delta")
        yield from _asked_of_duckdb(connection, f"delta_scan('{folder}')", asked)


def _asked_of_duckdb(connection: duckdb.DuckDBPyConnection, rows: str, asked: list[Asked]) -> Iterator[Keys]:
    for name, value in asked:
        chosen, values = (f'"{name}" IS NULL', []) if value is None else (f'"{name}" = ?', [value])
        found = connection.execute(f"SELECT stream_id, seq, event_no FROM {rows} WHERE {chosen}", values)
        yield sorted(found.fetchall())


def _by_polars(folder: Path, asked: list[Asked]) -> Iterator[Keys]:
    for name, value in asked:
        column = pl.col(name)
        found = pl.scan_delta(str(folder)).filter(column.is_null() if value is None else column == pl.lit(value))
        yield sorted(found.select(KEY).collect().rows())


def _by_datafusion(folder: Path, asked: list[Asked]) -> Iterator[Keys]:
    context = datafusion.SessionContext()
    context.register_table("rows", DeltaTable(str(folder)))
    for name, value in asked:
        column = datafusion.col(f'"{name}"')
        chosen = column.is_null() if value is None else column == datafusion.lit(value)
        found = context.table("rows").filter(chosen).select(*KEY).to_arrow_table()
        yield _keys(found)


def _by_spark(store: Store, folder: Path, asked: list[Asked]) -> list[Keys]:
    """One query for all, a scan for each."""

    def one(number: int, name: str, value: Any) -> Any:
        literal = sf.lit(bytearray(value) if isinstance(value, bytes) else value)
        chosen = sf.col(name).isNull() if value is None else sf.col(name) == literal
        rows = store.spark.read.format("delta").load(str(folder)).where(chosen)
        return rows.select(sf.lit(number).alias("asked"), *KEY)

    parts = [one(number, name, value) for number, (name, value) in enumerate(asked)]
    found = reduce(lambda left, right: left.unionByName(right), parts).collect()
    return [sorted(tuple(row[1:]) for row in found if row["asked"] == number) for number in range(len(asked))]


def _truth(folder: Path, schema: pa.Schema) -> tuple[list[Asked], list[Keys]]:
    """For each column a value in the middle of it, and the absence of one; and the rows that have it."""
    rows = DeltaTable(str(folder)).to_pyarrow_table(columns=schema.names)
    asked: list[Asked] = []
    answers: list[Keys] = []
    for name in schema.names:
        values = rows[name].to_pylist()
        known = [value for value in values if value is not None]
        for value in {known[len(known) // 2], None} if len(known) < len(values) else {known[len(known) // 2]}:
            asked.append((name, value))
            answers.append(_keys(rows.filter(pa.array([one == value for one in values]))))
    return asked, answers


def _filled(store: MakeStore) -> Store:
    """Messages with and without ids and headers, events, most of them settled, in small files."""
    here = store()
    here.create("A", max_msgs_per_subject=2)
    here.create("B")
    for number in range(4):
        here.publish("A", f"x.{number % 2}", b"a%d" % number, msg_id=f"id-{number}" if number % 2 else None)
        here.publish("B", "y" * 40, b"b%d" % number)
        here.commit()
        if number == 2:
            here.catalog.remove("A", 3, now_ns=here.tick(), rows=here.rows)
            here.settle()
    here.settle()
    return here


def _compare(folder: Path, schema: pa.Schema) -> tuple[list[Asked], list[Keys]]:
    """Ask all readers that need no JVM; returns what was asked and the answers."""
    asked, answers = _truth(folder, schema)
    assert all(answers)
    for read in (_by_pyarrow, _by_duckdb, _by_duckdb_itself, _by_polars, _by_datafusion):
        for one, found, answer in zip(asked, read(folder, asked), answers, strict=False):
            assert found == answer, (read.__name__, folder.name, one)
    return asked, answers


def test_a_filter_on_any_column_finds_the_same_rows(store: MakeStore) -> None:
    """By pyarrow, DuckDB, Polars, DataFusion and Spark, in both tables."""
    here = _filled(store)
    for name, schema in (("journal", JOURNAL_SCHEMA), ("messages", MESSAGES_SCHEMA)):
        asked, answers = _compare(here.data / name, schema)
        for one, found, answer in zip(asked, _by_spark(here, here.data / name, asked), answers, strict=True):
            assert found == answer, ("spark", name, one)


def test_an_older_journal_is_put_right_by_its_next_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose table did not name its columns with statistics, with files that count nulls of all: at the claim."""
    with monkeypatch.context() as before:
        older = {name: value for name, value in log_entry.TABLE_CONFIGURATION.items() if "Stats" not in name}
        before.setattr(log_entry, "TABLE_CONFIGURATION", older)
        before.setattr(journal_file, "_NO_NULLS", dict.fromkeys(JOURNAL_SCHEMA.names, 0))
        journal = open_journal(tmp_path)
        for seq in range(1, 5):
            journal.commit(columns([message(seq), event(seq, seq)]))
    kinds = pc.field("kind") == "message"
    assert not len(DeltaTable(str(tmp_path)).to_pyarrow_dataset().to_table(filter=kinds))
    journal = open_journal(tmp_path)
    _compare(tmp_path, JOURNAL_SCHEMA)
    claimed = journal.reader.version
    journal.checkpoint()
    journal.commit(group(5))
    assert reader(tmp_path).version == claimed + 1
    _compare(tmp_path, JOURNAL_SCHEMA)
    open_journal(tmp_path)
    names = [entry.name for entry in (tmp_path / "_delta_log").glob("*.json") if b"metaData" in entry.read_bytes()]
    assert sorted(names) == [log_entry.entry_name(0), log_entry.entry_name(claimed)]


def test_large_payloads_are_read_by_all(store: MakeStore) -> None:
    """A commit of megabytes is compressed: each reader finds every payload, and so does settling."""
    here, dice = store(), random.Random(1)
    here.create("A")
    bodies = [dice.randbytes(700).ljust(1_400 + number % 9, b".") for number in range(2_000)]
    for body in bodies:
        here.publish("A", "x", body)
    here.commit()
    folder = here.data / "journal"
    [file] = (path for path in folder.glob("*.parquet") if path.stat().st_size > 1_000_000)
    assert pq.read_metadata(file).row_group(0).column(11).compression == "SNAPPY"
    context = datafusion.SessionContext()
    context.register_table("rows", DeltaTable(str(folder)))
    dataset = DeltaTable(str(folder)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("rows", dataset)
        read = {
            "pyarrow": dataset.to_table(columns=["kind", "data"]).to_pylist(),
            "duckdb": connection.sql("SELECT kind, data FROM rows").to_arrow_table().to_pylist(),
            "polars": pl.scan_delta(str(folder)).select("kind", "data").collect().to_dicts(),
            "datafusion": context.table("rows").select("kind", "data").to_arrow_table().to_pylist(),
            "spark": [row.asDict() for row in here.spark.read.format("delta").load(str(folder)).collect()],
        }
    for name, rows in read.items():
        assert sorted(bytes(row["data"]) for row in rows if row["kind"] == "message") == sorted(bodies), name
    here.settle()
    settled = DeltaTable(str(here.data / "messages")).to_pyarrow_table(columns=["kind", "data"]).to_pylist()
    assert sorted(row["data"] for row in settled if row["kind"] == "message") == sorted(bodies)
