"""Hostile SQL: nothing is read beyond the views, nothing is written, and the engine answers afterwards."""

import hashlib
from pathlib import Path

import pytest

from delta_store.sql.sql_errors import SqlError
from delta_store.sql.sql_limits import SqlLimits
from delta_store.values.read_errors import NoSuchStream
from tests import hostile_sql
from tests.sql_answers import engine_on, rows_of
from tests.tables import History, Tables

SECRET = "sEcReT-7f3a"
ERASED = "eRaSeD-91bc"
HIDDEN = "hIdDeN-55d0"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A store with an erased message and a stream that may not be read, and a file that must not be."""
    folder = tmp_path_factory.mktemp("guarded")
    history, other, tables = History(), History(stream="HIDDEN"), Tables(folder / "data")
    tables.commit([history.create(), other.create(), history.publish("s.1", ERASED.encode())])
    tables.commit([history.publish("s.2", b"shown"), other.publish("s.1", HIDDEN.encode())])
    tables.settle()
    tables.commit([history.remove([1], "delete", erase=True)])
    [parquet] = [
        path for path in (folder / "data" / "messages").rglob("*.parquet") if "=s.1" in str(path) and "=S" in str(path)
    ]
    assert ERASED.encode() in parquet.read_bytes()
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text(f"name,value\n{SECRET},1\n")
    places = {"secret": outside / "secret.csv", "folder": outside, "parquet": parquet, "stream": "HIDDEN"}
    return folder, {name: str(place) for name, place in places.items()}


def prints_of(folder: Path) -> dict[str, str]:
    """The content of every file below a folder, in short."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def filled(text: str, places: dict[str, str]) -> str:
    """A hostile text with the places that it aims at."""
    for name, place in places.items():
        text = text.replace("{" + name + "}", place)
    return text


def test_nothing_is_read_or_written(guarded: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text is refused, or has no meaning, or answers with nothing that it should not know."""
    folder, places = guarded
    monkeypatch.chdir(places["folder"])
    monkeypatch.setenv("HOME", places["folder"])
    engine, before = engine_on(folder / "data", limits=SqlLimits(seconds=20, threads=1)), prints_of(folder)
    assert len(hostile_sql.ALL) + len(hostile_sql.ENDLESS) >= 200
    answered = []
    for text in hostile_sql.ALL:
        asked = filled(text, places)
        try:
            with engine.query(asked, readable=lambda stream: stream == "S") as query:
                query.run()
                shown = str([batch.to_pylist() for batch in query.batches()])
        except (SqlError, NoSuchStream) as error:
            shown = str(error)
        else:
            answered.append(text)
        for secret in (SECRET, ERASED, HIDDEN, "/silt-sql-"):
            assert secret not in shown, text
        assert places["parquet"] not in shown or places["parquet"] in asked, text
    assert answered == ANSWERED
    assert prints_of(folder) == before
    assert [row["text"] for row in rows_of(engine, "FROM S")] == ["shown"]


ANSWERED = [
    'SELECT (WITH "{parquet}" AS (SELECT 1) SELECT 1), (SELECT count(*) FROM "{parquet}")',
    'WITH "{secret}" AS (FROM "{secret}") FROM "{secret}"',
    'WITH a AS (FROM "{secret}"), "{secret}" AS (SELECT 1) FROM a',
    "SHOW ALL",
    "WITH duckdb_views AS (FROM duckdb_views) FROM duckdb_views",
]
"""Texts with an answer: outside of its WITH clause, a name that it defines stands for an empty view."""


@pytest.mark.parametrize("text", hostile_sql.ENDLESS)
def test_nothing_goes_on_for_ever(guarded: tuple[Path, dict[str, str]], text: str) -> None:
    """A statement without end meets one of its limits, and leaves nothing on disk."""
    folder, _ = guarded
    before = prints_of(folder)
    limits = SqlLimits(seconds=0.3, memory_bytes=64 << 20, temp_bytes=16 << 20, rows=100_000, threads=1)
    with pytest.raises(SqlError):
        rows_of(engine_on(folder / "data", limits=limits), text)
    assert prints_of(folder) == before
    assert [row["text"] for row in rows_of(engine_on(folder / "data"), "FROM S")] == ["shown"]
