"""``silt verify`` and ``silt repair`` on typed tables."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conf.clock import SystemClock
from conf.data_location import DataLocation
from delta_store.beside.beside_table import BesideTable, read_state, write_file
from delta_store.checking.repair_store import Planner
from delta_store.checking.verify_typed import look_at_typed
from delta_store.entries.beside_entry import BesideFile, Change
from delta_store.entries.findings import Severity
from delta_store.storage.local_storage import LocalStorage
from delta_store.typed.table_columns import STATISTICS
from tests.stores import empty, flip, halve, missing
from tests.typed_store import NUMBERS, WORDS, TypedStore

DELETED = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n"


def filled(data: Path) -> TypedStore:
    """60 messages of five subjects, of which each seventh does not fit, as rows, as the last ones, and inferred."""
    store = TypedStore(data)
    store.typed_stream("S", NUMBERS)
    store.typed_stream("L", NUMBERS, table="latest")
    store.create("I", metadata={"silt.schema": "infer"})
    for number in range(60):
        store.tick()
        if number == 30:
            store.update("S", WORDS)
        payload = json.dumps({"n": number if number % 7 else "x", "word": str(number), "part": number / 2}).encode()
        for name in ("S", "L", "I"):
            store.publish(name, f"k{number % 5}", payload)
        if number % 20 == 9:
            store.settle(ends_before_typed=number == 29)
            store.caught_up()
    store.publish("L", "k1", b"", headers=DELETED)
    store.settle()
    store.caught_up()
    return store


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> TypedStore:
    """The store, made once."""
    return filled(tmp_path_factory.mktemp("typed") / "data")


@pytest.fixture
def store(built: TypedStore, tmp_path: Path) -> TypedStore:
    """A copy of it, to which nothing is published."""
    shutil.copytree(built.data, tmp_path / "data")
    store = TypedStore(tmp_path / "data")
    store.catalog = built.catalog
    store.start()
    return store


def found(store: TypedStore) -> list[str]:
    """What is found, as text."""
    findings = look_at_typed(DataLocation(str(store.data))).findings
    assert {one.severity for one in findings} <= {Severity.REPAIRABLE}
    return [f"{one.file}: {one.what}" for one in findings]


def repaired(store: TypedStore) -> list[str]:
    """Repair; return what was done."""
    steps = Planner(DataLocation(str(store.data)), SystemClock(), 1000.0).plan(accept_lost_journal=False)
    for step in steps:
        step.do()
    store.start()
    store.caught_up()
    return [step.table for step in steps]


def test_whole_tables_are_found_whole(tmp_path: Path) -> None:
    """With dead letters, markers, a column that came later, a batch that ended early; also when they are behind."""
    store = filled(tmp_path / "data")
    look = look_at_typed(DataLocation(str(store.data)))
    assert (look.findings, [one.table for one in look.seen]) == (
        (),
        [f"tables/{name}{dead}" for name in "ILS" for dead in ("", "~dlq")],
    )
    store.catalog.remove("S", 3, now_ns=store.tick(), rows=store.rows)
    store.catalog.purge("L", subject="L.k2", now_ns=store.tick(), rows=store.rows)
    store.publish("S", "k1", b'{"n": 1}')
    store.settle(ends_before_typed=True)
    for name in ("S", "L"):
        store.clean(name)
    assert found(store) == []
    store.caught_up()
    assert found(store) == []
    store.typed_stream("T", NUMBERS)
    store.update("S", None)
    store.publish("T", "k", b'{"n": 1}')
    store.settle(ends_before_typed=True)
    assert found(store) == []


@pytest.mark.parametrize("what", ["S/_delta_log/*2.json", "S", "L", "S~dlq"])
def test_damage_is_named_and_made_good(store: TypedStore, what: str) -> None:
    """A damaged entry or file, in each way; afterwards the table is made anew, and equal."""
    name, tables = what[0], store.data / "tables"
    before = store.table(name), store.rejected(name)
    file = min(tables.glob(what) if "/" in what else (tables / what / one for one in _files(tables / what)))
    whole = file.read_bytes()
    for harm in (empty, halve, flip, missing):
        file.write_bytes(whole)
        harm(file)
        assert any(str(file.relative_to(store.data)) in one for one in found(store)), harm
    assert repaired(store) == [f"tables/{name}"]
    assert found(store) == []
    columns = before[0].column_names if name == "L" else ["subject", "seq", "time", "n"]
    assert (store.table(name).select(columns), store.rejected(name)) == (before[0].select(columns), before[1])


def _files(folder: Path) -> dict[str, BesideFile]:
    return dict(read_state(LocalStorage(folder)).files)


def _commit(store: TypedStore, name: str, change: Change) -> None:
    storage = LocalStorage(store.folder(name))
    table = BesideTable.open(storage, epoch=store.owner.epoch, clock=SystemClock(), horizon_seconds=1000)
    table.commit(lambda _: change)


@pytest.mark.parametrize(("name", "column"), [("S", "subject"), ("L", "n"), ("I", "part")])
def test_rows_that_are_not_their_messages_are_named(store: TypedStore, name: str, column: str) -> None:
    """A row that is lacking, one that is there twice, and one with another value."""
    storage = LocalStorage(store.folder(name))
    path, file = min(_files(store.folder(name)).items())
    _commit(store, name, Change(removed={path}))
    [said] = found(store)
    assert "of messages is neither here nor a dead letter" in said
    rows = pq.read_table(store.folder(name) / path, partitioning=None)
    wrong = rows.set_column(rows.column_names.index(column), column, [rows[column].take([0] * rows.num_rows)])
    added = [
        write_file(storage, one, epoch=store.owner.epoch, names=STATISTICS, partition=file.partition)  # type: ignore[arg-type]
        for one in (wrong, rows, rows)
    ]
    _commit(store, name, Change((added[0],)))
    [said] = found(store)
    assert f"column {column} of sequence" in said
    _commit(store, name, Change(added[1:], {added[0].path}))
    [said] = found(store)
    assert "is there twice, dead letters included" in said
    assert repaired(store) == [f"tables/{name}"]
    assert found(store) == []
