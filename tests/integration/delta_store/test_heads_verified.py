"""``silt verify``, ``repair`` and ``views`` on ``heads`` and ``removed``."""

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from api.cli.app import app
from conf.clock import SystemClock
from delta_store.beside.beside_table import BesideTable
from delta_store.entries.beside_entry import Change
from delta_store.heads.head_tables import HeadTables
from delta_store.storage.local_storage import LocalStorage
from tests import plain_views
from tests.stores import Harm, empty, flip, halve, missing
from tests.tables import History, Tables, live_sequences


def stored(data: Path) -> tuple[Tables, History]:
    """A store of 41 messages of five subjects, of which the last of each is live."""
    tables, history = Tables(data), History(per_subject=1)
    tables.commit([history.create(), history.publish("s.kept")])
    heads = HeadTables.open(tables.owner, clock=SystemClock())
    for _ in range(4):
        tables.commit([history.publish(f"s.{number % 4}") for number in range(10)])
        tables.settle()
        heads.follow()
    return tables, history


def run(verb: str, data: Path, *more: str) -> Result:
    """Run a verb on the store."""
    return CliRunner().invoke(app, [verb, "--data", str(data), *more])


def test_whole_tables_are_found_whole(tmp_path: Path) -> None:
    """Also when messages is ahead of them."""
    tables, history = stored(tmp_path)
    tables.commit([history.publish("s.0")])
    tables.settle()
    told = run("verify", tmp_path)
    assert told.exit_code == 0, told.output
    assert "heads: version 4; 5 log entries, 4 files, 4 rows" in told.stderr
    assert "removed: version 4; 5 log entries, 4 files, 36 rows" in told.stderr


@pytest.mark.parametrize("harm", [empty, halve, flip, missing])
@pytest.mark.parametrize(
    "what", ["heads/_delta_log/*2.json", "heads/part-*", "removed/_delta_log/*1.json", "removed/p*"]
)
def test_damage_is_found_and_made_good(tmp_path: Path, what: str, harm: Harm) -> None:
    """A damaged entry or file of either; afterwards they say again what the rows say."""
    tables, _ = stored(tmp_path)
    harm(min(tmp_path.glob(what)))
    found = run("verify", tmp_path, "--output", "csv")
    assert (found.exit_code, f"repairable,{what.partition('/')[0]},{what[:6].rstrip('/')}" in found.stdout) == (1, True)
    mended = run("repair", tmp_path, "--yes")
    assert (mended.exit_code, "make it anew" in mended.stdout) == (0, True), mended.output
    assert plain_views.live(tmp_path) == 2 * [{"S": live_sequences(tables.rows)}]


def test_a_wrong_statement_is_found(tmp_path: Path) -> None:
    """A message that the tables show and the rows do not is named."""
    tables, _ = stored(tmp_path)
    removed = BesideTable.open(
        LocalStorage(tmp_path / "removed"), epoch=tables.owner.epoch, clock=SystemClock(), horizon_seconds=1000
    )
    removed.commit(lambda state: Change(removed=frozenset(sorted(state.files)[:1])))
    found = run("verify", tmp_path, "--output", "csv")
    assert (found.exit_code, "of stream 'S' is live by it, or by messages, but not by both" in found.stdout) == (
        1,
        True,
    )
    assert run("repair", tmp_path, "--yes").exit_code == 0


def test_views_are_printed_for_each_engine(tmp_path: Path) -> None:
    """All streams, one, and one at a point; what can't be shown is refused with the reason."""
    tables, _ = stored(tmp_path)
    live = live_sequences(tables.rows)
    text = run("views", tmp_path, "--engine", "duckdb").stdout
    assert text.startswith("INSTALL delta;\nLOAD delta;\n")
    statements = text.removeprefix("INSTALL delta;\nLOAD delta;\n")
    assert plain_views.by_stream(plain_views.duckdb_table(statements, "S")) == {"S": live}
    alone = run("views", tmp_path, "--engine", "polars", "--stream", "S").stdout
    assert plain_views.by_stream(plain_views.polars_table(alone, "live('S')")) == {"S": live}
    past = run("views", tmp_path, "--engine", "polars", "--stream", "S", "--as-of", "7").stdout
    assert plain_views.by_stream(plain_views.polars_table(past, "streams['S']")) == {
        "S": live_sequences(tables.rows, 7)
    }
    before = run("views", tmp_path, "--engine", "spark", "--as-of", "2025-06-15T15:06:40.000001Z").stdout
    assert "CREATE OR REPLACE TEMPORARY VIEW `S` AS" in before
    assert "VERSION AS OF 5" in before
    by_name = run("views", tmp_path, "--engine", "databricks", "--stream", "S").stdout
    assert f"CREATE TABLE IF NOT EXISTS heads USING DELTA LOCATION '{tmp_path}/heads'" in by_name
    for more, status, why in (
        (["--stream", "T"], 5, "no stream 'T'"),
        (["--stream", "S", "--as-of", "42"], 1, "settled up to sequence 41"),
        (["--as-of", "4"], 2, "name it with --stream"),
        (["--as-of", "when"], 2, "no sequence"),
    ):
        refused = run("views", tmp_path, "--engine", "spark", *more)
        assert (refused.exit_code, why in refused.stderr) == (status, True), refused.output
    none = run("views", tmp_path / "none", "--engine", "spark")
    assert (none.exit_code, "has no table heads" in none.stderr) == (1, True)
