"""A table beside ``messages`` on a real folder: commits planned on what is there, and files that every engine reads."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from delta_store.beside.beside_table import BesideTable, read_state, write_file
from delta_store.entries.beside_entry import BesideState, Change, NewTable
from delta_store.entries.checkpoint_table import checkpoint_name
from delta_store.entries.log_entry import entry_name
from delta_store.log.delta_log import path_of
from delta_store.storage.local_storage import LocalStorage
from delta_store.values.journal_errors import Fenced
from delta_store.values.read_errors import DamagedData
from delta_store.values.schemas import LOG_FOLDER
from tests.groups import SteppedClock

_HORIZON = 1_000.0
_START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
_NAMES = ("number", "at")
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"number","type":"long","nullable":true,"metadata":{}},'
    '{"name":"at","type":"timestamp","nullable":true,"metadata":{}}%s]}'
)
_MORE = ',{"name":"more","type":"string","nullable":true,"metadata":{}}'
_NEW = NewTable("numbers", _SCHEMA % "", _NAMES, properties={"silt.kind": "test"})


@pytest.fixture(autouse=True)
def checkpoints_are_due_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After five commits."""
    monkeypatch.setattr("delta_store.beside.beside_table.BESIDE_CHECKPOINT_COMMITS", 5)


def _open(folder: Path, *, clock: SteppedClock | None = None, epoch: int = 1) -> BesideTable:
    storage = LocalStorage(folder)
    return BesideTable.open(storage, _NEW, epoch=epoch, clock=clock or SteppedClock(), horizon_seconds=_HORIZON)


def _append(table: BesideTable, *numbers: int, **more: list[str]) -> int | None:
    """Append numbers behind the mark, which moves to the last one; those at or below it are left out."""

    def plan(state: BesideState) -> Change | None:
        new = [number for number in numbers if number > state.txns.get("mark", -1)]
        if not new:
            return None
        rows = pa.table({"number": new, "at": [_START + timedelta(seconds=one) for one in new], **more})
        return Change([write_file(table.storage, rows, epoch=1, names=_NAMES)], txns={"mark": new[-1]})

    return table.commit(plan)


def _by_engines(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows as engines read them."""
    uri = str(folder)
    by_polars = pl.read_delta(uri).sort("number").rows()
    by_rs = sorted(tuple(row.values()) for row in DeltaTable(uri).to_pyarrow_table().to_pylist())
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        by_duckdb = db.execute("SELECT * FROM delta_scan(?) ORDER BY number", [uri]).fetchall() if _scans(db) else by_rs
    return {"polars": by_polars, "delta-rs": by_rs, "duckdb": by_duckdb}


def _scans(db: duckdb.DuckDBPyConnection) -> bool:
    """Whether DuckDB has its Delta extension here, which is not in its package."""
    try:
        db.execute("LOAD delta")
    except duckdb.Error:
        return False
    return True


def test_rows_are_read_by_other_engines(tmp_path: Path) -> None:
    """What was committed is what they find, filters by the statistics of times included."""
    table = _open(tmp_path)
    _append(table, 1, 2)
    _append(table, 3)
    expected = [(number, _START + timedelta(seconds=number)) for number in (1, 2, 3)]
    for engine, rows in _by_engines(tmp_path).items():
        assert rows == expected, engine
    last = expected[-1][1]
    assert pl.scan_delta(str(tmp_path)).filter(pl.col("at") >= last).collect().rows() == expected[-1:]
    found = DeltaTable(str(tmp_path)).to_pyarrow_dataset().to_table(filter=pa.compute.field("at") >= last)
    assert found["number"].to_pylist() == [3]
    assert table.state.properties["silt.kind"] == "test"
    assert read_state(LocalStorage(tmp_path)) == table.state


def test_columns_are_added(tmp_path: Path) -> None:
    """Rows from before have nulls in a new column."""
    table = _open(tmp_path)
    _append(table, 1)
    table.commit(lambda state: Change(metadata={**state.metadata, "schemaString": _SCHEMA % _MORE}, data_change=False))
    _append(table, 2, more=["x"])
    assert [row[2] for row in _by_engines(tmp_path)["polars"]] == [None, "x"]
    assert [row[2] for row in _by_engines(tmp_path)["delta-rs"]] == [None, "x"]


def test_files_are_replaced_in_one_commit(tmp_path: Path) -> None:
    """What is removed is gone, and past versions still have it."""
    table = _open(tmp_path)
    _append(table, 1)
    _append(table, 2)
    [first] = [path for path, file in table.state.files.items() if file.bounds("number") == (1, 1)]
    version = table.commit(lambda _: Change(removed={first}, operation="DELETE"))
    assert [row[0] for row in _by_engines(tmp_path)["delta-rs"]] == [2]
    assert version is not None
    assert DeltaTable(str(tmp_path), version=version - 1).to_pyarrow_table().num_rows == 2
    with pytest.raises((KeyError, DamagedData)):
        table.commit(lambda _: Change(removed={first}))


def test_who_loses_a_version_plans_again(tmp_path: Path) -> None:
    """Two writers that know the same state append each number once."""
    one, other = _open(tmp_path), _open(tmp_path)
    _append(one, 1, 2)
    assert _append(other, 1, 2) is None
    _append(other, 1, 2, 3)
    _append(one, 3, 4)
    assert [row[0] for row in _by_engines(tmp_path)["delta-rs"]] == [1, 2, 3, 4]
    assert one.state.txns["mark"] == 4


def test_an_older_owner_is_fenced(tmp_path: Path) -> None:
    """It stops once a newer one has committed, and nothing of it is in the table."""
    old, new = _open(tmp_path, epoch=1), _open(tmp_path, epoch=2)
    _append(old, 1)
    _append(new, 2)
    with pytest.raises(Fenced):
        _append(old, 3)
    assert [row[0] for row in _by_engines(tmp_path)["delta-rs"]] == [1, 2]


def test_a_checkpoint_replaces_the_log(tmp_path: Path) -> None:
    """Opened by the checkpoint alone, the table is what it was; a damaged checkpoint is passed over."""
    table = _open(tmp_path)
    for number in range(5):
        _append(table, number)
    assert table.upkeep() == 5
    assert table.upkeep() is None
    _append(table, 5)
    checkpoint = tmp_path / path_of(checkpoint_name(5))
    whole, entry = checkpoint.read_bytes(), tmp_path / path_of(entry_name(2))
    checkpoint.write_bytes(whole[:-9])
    assert read_state(LocalStorage(tmp_path)) == table.state
    checkpoint.write_bytes(whole)
    entry.unlink()
    found = read_state(LocalStorage(tmp_path))
    assert (found.files.keys(), found.txns, found.version) == (table.state.files.keys(), table.state.txns, 6)
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == 6
    checkpoint.write_bytes(whole[:-9])
    with pytest.raises(DamagedData):
        read_state(LocalStorage(tmp_path))


def test_a_log_that_ends_before_its_checkpoint_is_damage(tmp_path: Path) -> None:
    """An older owner's disk, say: who committed to it would write versions that readers have seen otherwise."""
    table = _open(tmp_path)
    for number in range(5):
        _append(table, number)
    assert table.upkeep() == 5
    for name in (checkpoint_name(5), entry_name(5), entry_name(4)):
        (tmp_path / path_of(name)).unlink()
    with pytest.raises(DamagedData, match="ends at version 3, a checkpoint was made at 5"):
        read_state(LocalStorage(tmp_path))


@pytest.mark.parametrize("harm", [b"", b"\0" * 40, b'{"commitInfo":{}}\n'])
def test_damage_is_reported(tmp_path: Path, harm: bytes) -> None:
    """An entry that is not what was written is named."""
    table = _open(tmp_path)
    _append(table, 1)
    (tmp_path / path_of(entry_name(1))).write_bytes(harm)
    with pytest.raises(DamagedData, match=r"00001\.json"):
        read_state(LocalStorage(tmp_path))


def test_vacuum_deletes_what_no_version_needs(tmp_path: Path) -> None:
    """Files that left the table beyond the horizon, abandoned ones after an hour, and the log below a checkpoint."""
    clock = SteppedClock()
    table = _open(tmp_path, clock=clock)
    for number in range(3):
        _append(table, number)
    gone = next(iter(table.state.files))
    table.commit(lambda _: Change(removed={gone}))
    rows = pa.table({"number": [9], "at": [_START]})
    lost = write_file(table.storage, rows, epoch=1, names=_NAMES).path
    assert table.vacuum(_HORIZON) == 0
    with mock.patch("delta_store.beside.beside_table.BESIDE_CHECKPOINT_COMMITS", 1):
        table.upkeep()
        clock.seconds += 2 * _HORIZON
        _append(table, 7)
        table.upkeep()
    clock.seconds += 1e9
    assert table.vacuum(_HORIZON) == 2
    assert not (tmp_path / gone).exists()
    assert not (tmp_path / lost).exists()
    assert not (tmp_path / LOG_FOLDER / entry_name(0)).exists()
    assert DeltaTable(str(tmp_path)).to_pyarrow_table()["number"].to_pylist() == [1, 2, 7]
    assert _open(tmp_path, clock=clock).state.files == table.state.files
