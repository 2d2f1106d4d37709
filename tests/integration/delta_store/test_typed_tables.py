"""Typed tables beside ``messages``, kept as the settle job keeps them: every message once, in the table or its dlq."""

import itertools
import json
import random
from pathlib import Path
from unittest import mock

import duckdb
import polars as pl
import pytest
from click.testing import Result
from deltalake import DeltaTable
from typer.testing import CliRunner

from api.cli.app import app
from conf.exit_codes import Exit
from delta_store.beside.beside_table import BesideTable
from delta_store.entries.beside_entry import Change
from delta_store.values.journal_errors import CommitUnknown, StorageFailed
from tests.typed_store import NUMBERS, WORDS, TypedStore


@pytest.fixture
def store(tmp_path: Path) -> TypedStore:
    """An empty store."""
    return TypedStore(tmp_path)


def _publish(store: TypedStore, *numbers: object, name: str = "S") -> None:
    for place, number in enumerate(numbers):
        store.tick()
        store.publish(name, f"k{place % 3}", json.dumps({"n": number}).encode())


def test_every_message_is_in_the_table_or_its_dead_letters(store: TypedStore) -> None:
    """Whether it came with the batch that made the table, with the next, or while the process ended."""
    store.typed_stream("S", NUMBERS)
    _publish(store, 1, "x", 3)
    store.settle()
    _publish(store, 4, 5.5)
    store.settle()
    _publish(store, 6, None)
    store.settle(ends_before_typed=True)
    store.caught_up()
    assert store.table("S").select(["seq", "n"]).to_pylist() == [{"seq": n, "n": n} for n in (1, 3, 4, 6)]
    assert store.rejected("S") == [2, 5, 7]


def test_a_schema_grows(store: TypedStore) -> None:
    """A new column is there for what comes after."""
    store.typed_stream("S", NUMBERS)
    _publish(store, 1)
    store.settle()
    store.update("S", WORDS)
    store.publish("S", "k", b'{"n":2,"word":"two"}')
    store.settle()
    store.publish("S", "k", b'{"n":3,"word":"three"}')
    store.settle()
    store.caught_up()
    assert store.table("S")["word"].to_pylist() == [None, "two", "three"]


def _silt(*arguments: str, data: Path) -> Result:
    return CliRunner().invoke(app, ["table", *arguments, "--data", str(data)], env={"COLUMNS": "200"})


def test_tables_are_shown(store: TypedStore) -> None:
    """With how far they have come, their newest rows and their columns."""
    store.typed_stream("S", WORDS)
    _publish(store, *range(1, 30), "x")
    store.settle()
    _publish(store, 31)
    store.settle()
    listed = json.loads(_silt("ls", "-o", "json", data=store.data).output)
    said = {one["table"]: (one["stream"], one["kind"], one["rows"], one["seq"]) for one in listed}
    assert said == {"tables/S": ("S", "append", 30, 31), "tables/S~dlq": ("S", "dlq", 1, 30)}
    shown = json.loads(_silt("show", "S", "--limit", "2", "-o", "json", data=store.data).output)
    assert [(row["seq"], row["n"], row["word"]) for row in shown] == [(29, 29, None), (31, 31, None)]
    assert "got `str` - at `$.n`" in _silt("show", "S", "--dlq", data=store.data).output
    columns = json.loads(_silt("schema", "S", "-o", "json", data=store.data).output)
    assert [one["column"] for one in columns] == ["subject", "seq", "time", "msg_id", "n", "word", "stored_on"]
    missing = _silt("show", "NOPE", data=store.data)
    assert missing.exit_code == Exit.NOT_FOUND
    assert "stream 'NOPE' has no table" in missing.stderr


def test_a_table_follows_its_stream(store: TypedStore) -> None:
    """It begins anew with the stream, is empty without one, and without a schema; also where no process knew it."""
    store.typed_stream("S", NUMBERS)
    _publish(store, 1, 2, "x")
    store.settle()
    store.catalog.delete("S", now_ns=store.tick(), rows=store.rows)
    store.settle()
    store.clean("S")
    store.caught_up()
    assert store.table("S").num_rows == 0
    store.typed_stream("S", WORDS)
    _publish(store, 7)
    store.settle()
    store.caught_up()
    assert store.table("S").select(["seq", "n", "word"]).to_pylist() == [{"seq": 1, "n": 7, "word": None}]
    store.update("S", None)
    store.settle(ends_before_typed=True)
    store.typed.vacuum()
    store.caught_up()
    assert (store.table("S").num_rows, store.rejected("S")) == (0, [])


def test_a_late_schema_makes_the_table_of_old_messages(store: TypedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little at a time, while batches go on."""
    monkeypatch.setattr("delta_store.settling.typed_tables.TYPED_STEP_SECONDS", 0)
    store.create("S")
    for start in range(1, 60, 10):
        _publish(store, *range(start, start + 10))
        store.settle()
    store.update("S", NUMBERS)
    _publish(store, 61)
    store.settle()
    assert not store.folder("S").exists() or store.typed._streams["S"].catching_up is not None
    _publish(store, 62)
    store.settle()
    store.caught_up()
    assert store.table("S")["n"].to_pylist() == list(range(1, 63))


def test_small_files_are_merged_and_others_are_left(store: TypedStore) -> None:
    """The rows stay what they were."""
    store.typed_stream("S", NUMBERS)
    for number in range(1, 40):
        _publish(store, number if number % 2 else "x")
        store.settle()
    before = store.table("S"), store.rejected("S")
    store.caught_up()
    assert len(DeltaTable(str(store.folder("S"))).file_uris()) < 16
    assert (store.table("S"), store.rejected("S")) == before


def test_the_table_of_a_bucket_has_the_last_of_each_key(store: TypedStore) -> None:
    """A deleted key has none, nor one whose last value does not fit; before a removed one comes the one before."""
    store.typed_stream("S", NUMBERS, table="latest")
    _publish(store, 1, 2, 3, 4, "x")
    store.publish("S", "k2", b"", headers=b"NATS/1.0\r\nKV-Operation: PURGE\r\n\r\n")
    store.settle()
    store.caught_up()
    assert store.table("S").select(["subject", "n"]).to_pylist() == [{"subject": "S.k0", "n": 4}]
    _publish(store, 8, 9)
    store.settle()
    assert store.table("S")["n"].to_pylist() == [8, 9]
    store.catalog.remove("S", 7, now_ns=store.tick(), rows=store.rows)
    store.settle()
    store.clean("S")
    store.caught_up()
    assert store.table("S").select(["subject", "n"]).to_pylist() == [
        {"subject": "S.k0", "n": 4},
        {"subject": "S.k1", "n": 9},
    ]
    assert DeltaTable(str(store.folder("S"))).metadata().partition_columns == []


def test_other_engines_read_all_columns(store: TypedStore) -> None:
    """Nested ones too: DuckDB, Polars and delta-rs give the same rows, before and after a column was added."""
    parts = {"at": {"type": "string", "format": "date-time"}, "tags": {"type": "array", "items": {"type": "string"}}}
    place = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "integer"}}}
    schema = {"type": "object", "properties": {**parts, "place": place}}
    store.typed_stream("S", schema)
    store.publish("S", "a", b'{"at":"2026-01-02T03:04:05.678901Z","tags":["x","y"],"place":{"x":0.5,"y":7}}')
    store.publish("S", "b", b'{"place":{}}')
    store.settle()
    store.update("S", {"type": "object", "properties": {**parts, "place": place, "more": {"type": "boolean"}}})
    store.publish("S", "c", b'{"more":true}')
    store.settle()
    store.caught_up()
    expected = store.table("S").select(["seq", "at", "tags", "place", "more"]).to_pylist()
    assert [row["more"] for row in expected] == [None, None, True]
    assert expected[0]["place"] == {"x": 0.5, "y": 7}
    by_polars = (
        pl.read_delta(str(store.folder("S"))).sort("seq").select("seq", "at", "tags", "place", "more").to_dicts()
    )
    assert by_polars == [{**row, "place": row["place"] or by_polars[2]["place"]} for row in expected]
    files = DeltaTable(str(store.folder("S"))).file_uris()
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        query = "SELECT seq, tags, place, more FROM read_parquet(?, union_by_name = true) ORDER BY seq"
        rows = db.execute(query, [files]).fetchall()
    assert rows == [(row["seq"], row["tags"], row["place"], row["more"]) for row in expected]


@pytest.mark.parametrize("ends", [False, True])
def test_columns_are_inferred(store: TypedStore, ends: bool) -> None:
    """They come and widen with the payloads; what is of another type is a dead letter."""
    store.create("S", metadata={"silt.schema": "infer"})
    batches = (
        [b'{"n":1,"w":"a"}', b'{"n":2,"w":null}', b"no JSON"],
        [b'{"n":3}', b'{"n":"x"}'],
        [b'{"n":4,"more":true}', b"{}"],
        [b'{"n":4.5,"w":{"b":[1]}}'],
        [b'{"n":5,"more":"x"}', b'{"n":6}'],
    )
    for batch in batches:
        for payload in batch:
            store.publish("S", "k", payload)
        store.settle(ends_before_typed=ends)
    store.caught_up()
    rows = store.table("S")
    assert store.rejected("S") == [3, 5, 9]
    assert rows["seq"].to_pylist() == [1, 2, 4, 6, 7, 8, 10]
    assert rows["n"].to_pylist() == [1, 2, 3, 4, None, 4.5, 6]
    assert rows["w"].to_pylist() == ["a", None, None, None, None, '{"b":[1]}', None]
    assert rows["more"].to_pylist() == [None, None, None, True, None, None, None]


class _Walk:
    """A random history of a stream with a typed table, with failures, and what the table must then have."""

    def __init__(self, store: TypedStore, seed: int, *, kind: str) -> None:
        self.store, self.random, self.kind = store, random.Random(seed), kind
        self.schemas = itertools.cycle([WORDS, NUMBERS])
        self.payloads: dict[int, tuple[str, bytes, bool]] = {}
        store.typed_stream("S", NUMBERS, table=kind)

    def step(self) -> None:
        """Do something."""
        deeds = (
            [self._publish] * 4
            + [self._settle] * 3
            + [self._delete, self._clean, self._fail, self._renew, self._restart]
        )
        self.random.choice(deeds)()

    def check(self) -> None:
        """Compare, once all is settled, cleaned and caught up."""
        self.store.settle()
        self.store.clean("S")
        for stream in self.store.typed._streams.values():
            stream.rest_until = 0.0
        self.store.caught_up()
        live = self.store.live("S")
        fits = [seq for seq in live if self._fits(seq)]
        if self.kind == "latest":
            newest = {self.payloads[seq][0]: seq for seq in live}
            fits = [seq for seq in sorted(newest.values()) if self._fits(seq)]
        rows = self.store.table("S")
        assert rows["seq"].to_pylist() == fits
        assert rows["n"].to_pylist() == [json.loads(self.payloads[seq][1])["n"] for seq in fits]
        assert rows["subject"].to_pylist() == [self.payloads[seq][0] for seq in fits]
        misfits = [seq for seq in live if not self._fits(seq) and not self.payloads[seq][2]]
        assert self.store.rejected("S") == misfits

    def _fits(self, seq: int) -> bool:
        _, payload, marker = self.payloads[seq]
        return not marker and b'"x"' not in payload

    def _publish(self) -> None:
        for _ in range(self.random.randrange(1, 9)):
            token, marker = f"k{self.random.randrange(4)}", self.random.random() < 0.1
            payload = b"" if marker else json.dumps({"n": self.random.choice([1, 2, 3, "x"])}).encode()
            self.store.tick()
            headers = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n" if marker else None
            seq = self.store.publish("S", token, payload, headers=headers)
            self.payloads[seq] = (f"S.{token}", payload, marker)

    def _settle(self) -> None:
        self.store.settle(ends_before_typed=self.random.random() < 0.2)

    def _delete(self) -> None:
        live = self.store.live("S")
        if live:
            seq, now_ns = self.random.choice(live), self.store.tick()
            self.store.catalog.remove("S", seq, now_ns=now_ns, rows=self.store.rows)

    def _clean(self) -> None:
        self._settle()
        self.store.clean("S")
        if self.random.random() < 0.5:
            self.store.caught_up()

    def _fail(self) -> None:
        """Let one of the next commits fail, before or after it is made."""
        left, after = self.random.randrange(3), self.random.random() < 0.5
        put = BesideTable._put

        def failing(table: BesideTable, change: Change) -> int:
            nonlocal left
            left -= 1
            if left == 0 and not after:
                raise StorageFailed("x", "no more")
            version = put(table, change)
            if left == 0:
                raise CommitUnknown(version)
            return version

        with mock.patch.object(BesideTable, "_put", failing):
            self._publish()
            self._settle()
            self.store.caught_up()
        self._restart()

    def _renew(self) -> None:
        if self.random.random() < 0.5:
            self.store.update("S", None)
            self._settle()
        self.store.update("S", next(self.schemas), table=self.kind)

    def _restart(self) -> None:
        self.store.start()


@pytest.mark.parametrize("kind", ["append", "latest"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_each_message_is_in_one_place(store: TypedStore, seed: int, kind: str) -> None:
    """In the table or its dead letters, once, as long as it is in ``messages``."""
    walk = _Walk(store, seed, kind=kind)
    for _ in range(40):
        walk.step()
    walk.check()
