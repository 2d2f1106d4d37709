"""Typed tables kept by the settle job itself: in the job of each batch, and by its maintenance."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from api.demo.flights import Flights, load_flights
from delta_store.typed.table_folders import table_folder
from tests.spark.store import Store
from tests.typed_store import flights_schema

ROWS = 3000
SPOILT = range(99, ROWS, 100)


def _payloads(flights: Flights) -> list[bytes]:
    """The flights, with one in a hundred spoilt."""
    payloads = list(flights.payloads)
    for place in SPOILT:
        payloads[place] = payloads[place].replace(b'"hour":', b'"hour":"late","was":')
    return payloads


def _folder(store: Store, name: str, *, dead_letters: bool = False) -> str:
    return str(store.data / table_folder(name, dead_letters=dead_letters))


def _table(store: Store, name: str, *, dead_letters: bool = False) -> pa.Table:
    return DeltaTable(_folder(store, name, dead_letters=dead_letters)).to_pyarrow_table().sort_by("seq")


@pytest.fixture
def flights() -> Flights:
    """The first of them."""
    return load_flights(ROWS)


def test_the_table_of_the_flights(store: Callable[..., Store], flights: Flights) -> None:
    """Has every column as pandas has it, over several batches and a column that came between; Spark reads it too."""
    silt, schema = store(), flights_schema(flights.frame)
    later = {**schema, "properties": {**schema["properties"], "gate": {"type": ["string", "null"]}}}  # type: ignore[dict-item]
    silt.create("F", metadata={"silt.schema": json.dumps(schema)})
    payloads = _payloads(flights)
    for start in range(0, ROWS, 1000):
        if start == 2000:
            config = silt.config("F", metadata={"silt.schema": json.dumps(later)})
            silt.catalog.update(config, now_ns=silt.tick(), rows=silt.rows)
        for place in range(start, start + 1000):
            silt.publish(
                "F", str(place % 7), payloads[place].replace(b"}", b',"gate":"A1"}'), msg_id=flights.ids[place]
            )
        silt.settle(fresh=start == 1000)
    silt.maintenance.run_due()
    rows, kept = _table(silt, "F"), np.setdiff1d(np.arange(ROWS), SPOILT)
    assert rows["seq"].to_pylist() == (kept + 1).tolist()
    assert rows["msg_id"].to_pylist() == [flights.ids[place] for place in kept]
    frame = flights.frame.iloc[kept].reset_index(drop=True)
    for name in frame:
        expected = pd.to_datetime(frame[name], utc=True) if name == "time_hour" else frame[name]
        pd.testing.assert_series_equal(rows[name].to_pandas(), expected, check_dtype=expected.dtype.kind in "if")
    gates = rows["gate"].to_pylist()
    assert set(gates[: np.searchsorted(kept, 2000)]) == {None}
    assert set(gates[np.searchsorted(kept, 2000) :]) == {"A1"}
    dead = _table(silt, "F", dead_letters=True)
    assert dead["seq"].to_pylist() == [place + 1 for place in SPOILT]
    assert set(dead["reason"].to_pylist()) == {"Expected `int`, got `str` - at `$.hour`"}
    by_spark = silt.spark.read.format("delta").load(_folder(silt, "F"))
    assert by_spark.count() == len(kept)
    assert by_spark.where("distance > 2000").count() == int((frame["distance"] > 2000).sum())
    found = by_spark.where("gate = 'A1'").selectExpr("min(seq)", "max(time_hour)").head()
    assert found is not None
    assert found[0] == 2001


def test_the_latest_of_each_subject_is_what_multi_last_has(store: Callable[..., Store]) -> None:
    """After deletes and purges as well, once maintenance has run."""
    silt, schema = store(), {"type": "object", "properties": {"n": {"type": "integer"}}}
    silt.create("K", metadata={"silt.schema": json.dumps(schema), "silt.table": "latest"})
    for number in range(1, 60):
        silt.publish("K", f"k{number % 9}", json.dumps({"n": number}).encode())
        if number == 40:
            silt.settle()
    silt.catalog.remove("K", 59, now_ns=silt.tick(), rows=silt.rows)
    silt.catalog.purge("K", now_ns=silt.tick(), rows=silt.rows, subject="K.k3")
    silt.settle()
    silt.maintenance.run_due()
    silt.start()
    silt.maintenance.run_due()
    newest = {f"K.k{number % 9}": number for number in silt.live("K")}
    rows = _table(silt, "K")
    assert dict(zip(rows["subject"].to_pylist(), rows["n"].to_pylist(), strict=True)) == newest
    assert newest.keys() == {f"K.k{number}" for number in range(9) if number != 3}
    assert newest["K.k5"] == 50


def test_what_leaves_messages_leaves_the_table(store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """Erased messages and what limits removed, from the files too once the horizon is past."""
    monkeypatch.setattr("delta_store.settling.typed_tables.TYPED_ROUND_SECONDS", 0)
    silt, schema = store(horizon_seconds=0), {"type": "object", "properties": {"n": {"type": "integer"}}}
    silt.create("L", max_msgs=30, metadata={"silt.schema": json.dumps(schema)})
    for number in range(1, 51):
        silt.publish("L", "k", json.dumps({"n": number if number % 5 else "secret"}).encode())
    silt.settle()
    silt.catalog.remove("L", 40, now_ns=silt.tick(), rows=silt.rows)
    silt.catalog.remove("L", 41, now_ns=silt.tick(), rows=silt.rows)
    silt.settle()
    for _ in range(2):
        silt.maintenance.run_due()
        silt.maintenance._pace._rest_until = 0.0
    live = silt.live("L")
    assert _table(silt, "L")["seq"].to_pylist() == [seq for seq in live if seq % 5]
    assert _table(silt, "L", dead_letters=True)["seq"].to_pylist() == [seq for seq in live if not seq % 5]
    for dead_letters in (False, True):
        folder = _folder(silt, "L", dead_letters=dead_letters)
        there = {path.name for path in Path(folder).rglob("*.parquet") if path.parent.name != "_delta_log"}
        assert there == {uri.rpartition("/")[2] for uri in DeltaTable(folder).file_uris()}
