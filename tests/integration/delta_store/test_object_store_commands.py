"""Typed tables, SQL, views, verify and repair on an object store as on a folder, by the commands of ``silt``."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.app import app
from conf.clock import SystemClock
from conf.data_location import DataLocation, data_location
from conf.settings import load_settings
from delta_store.heads.head_tables import HeadTables
from delta_store.log.delta_log import path_of
from delta_store.storage.open_storage import open_storage
from delta_store.storage.storage import Blob
from delta_store.values.schemas import LOG_FOLDER, MESSAGES_FOLDER
from tests.s3 import BUCKET, S3Server, s3_server, store_variables
from tests.tables import History, Tables
from tests.typed_store import NUMBERS, TypedStore

_UNUSED = Path("unused")
_numbers = iter(range(1 << 30))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """A server with one bucket."""
    with s3_server() as running:
        yield running


@pytest.fixture
def data(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> DataLocation:
    """An empty place in it, which the environment's settings reach."""
    for name, value in store_variables(server.url).items():
        monkeypatch.setenv(name, value)
    return data_location(f"s3://{BUCKET}/store-{next(_numbers)}").with_settings(load_settings().storage)


def silt(data: DataLocation, *arguments: str) -> Result:
    """Run a command on the store."""
    return CliRunner().invoke(app, [*arguments, "--data", data.uri], env={"COLUMNS": "300"})


def test_typed_tables(data: DataLocation) -> None:
    """Every message is in the table or its dead letters, also where the process ended; and commands show them."""
    store = TypedStore(_UNUSED, store=data)
    store.typed_stream("S", NUMBERS)
    for numbers, ends in (((1, "x", 3), False), ((4, 5.5), False), ((6, None), True)):
        for number in numbers:
            store.tick()
            store.publish("S", "k", json.dumps({"n": number}).encode())
        store.settle(ends_before_typed=ends)
    store.caught_up()
    assert store.table("S").select(["seq", "n"]).to_pylist() == [{"seq": n, "n": n} for n in (1, 3, 4, 6)]
    assert store.rejected("S") == [2, 5, 7]
    listed = json.loads(silt(data, "table", "ls", "-o", "json").output)
    assert {(one["table"], one["rows"], one["seq"]) for one in listed} == {("tables/S", 4, 7), ("tables/S~dlq", 3, 7)}
    shown = json.loads(silt(data, "table", "show", "S", "--limit", "2", "-o", "json").output)
    assert [(row["seq"], row["n"]) for row in shown] == [(4, 4), (6, 6)]


def test_sql_and_views(data: DataLocation) -> None:
    """Live rows, settled and not, and those of a past point; views for other engines name the URL."""
    history, tables = History(per_subject=1), Tables(_UNUSED, store=data)
    tables.commit([history.create(), *(history.publish(f"s.{number % 3}") for number in range(9))])
    tables.settle(tables.rows[:8])
    heads = HeadTables.open(tables.owner, clock=SystemClock())
    heads.follow()
    live = silt(data, "sql", "SELECT subject, seq FROM S ORDER BY seq", "-o", "json")
    assert json.loads(live.output) == [{"subject": f"s.{number}", "seq": 7 + number} for number in range(3)]
    past = silt(data, "sql", "SELECT seq FROM as_of('S', 5) ORDER BY seq", "-o", "json")
    assert [row["seq"] for row in json.loads(past.output)] == [3, 4, 5]
    views = silt(data, "views", "--engine", "spark")
    assert f"{data.uri}/messages" in views.output, views.output


def test_verify_and_repair(data: DataLocation) -> None:
    """Each damage by its file; what can be made anew is, and the rest stays named."""
    history, tables = History(per_subject=1), Tables(_UNUSED, store=data)
    tables.commit([history.create()])
    heads = HeadTables.open(tables.owner, clock=SystemClock())
    for _ in range(3):
        tables.commit([history.publish(f"s.{number}") for number in range(3)])
        tables.settle()
        heads.follow()
    whole = silt(data, "verify")
    assert whole.exit_code == 0, whole.output
    of_heads = open_storage(data.table("heads"), data.options)
    lost = next(iter(of_heads.walk())).name
    of_heads.delete([lost])
    found = silt(data, "verify")
    assert f"heads/{lost}" in found.output
    assert silt(data, "repair", "--yes").exit_code == 0
    assert silt(data, "verify").exit_code == 0
    messages = open_storage(data.table(MESSAGES_FOLDER), data.options)
    entry = path_of(sorted(messages.sizes(LOG_FOLDER))[1])
    messages.write(Blob(entry, messages.read(entry)[:-9]))
    damaged = silt(data, "verify")
    assert (damaged.exit_code, f"{MESSAGES_FOLDER}/{entry}" in damaged.output) == (1, True), damaged.output
