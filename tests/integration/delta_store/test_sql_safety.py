"""Hostile SQL: nothing is read beyond the views, nothing is written, and the engine answers afterwards."""

import pytest

from delta_store.sql.sql_errors import SqlError
from delta_store.sql.sql_limits import SqlLimits
from delta_store.values.read_errors import NoSuchStream
from tests import hostile_sql
from tests.guarded_store import Guarded, guarded_store
from tests.sql_answers import engine_on, rows_of


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """A store with what nobody may read."""
    return guarded_store(tmp_path_factory.mktemp("guarded"))


def test_nothing_is_read_or_written(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text is refused, or has no meaning, or answers with nothing that it should not know."""
    monkeypatch.chdir(guarded.outside)
    monkeypatch.setenv("HOME", str(guarded.outside))
    engine, before = engine_on(guarded.data, limits=SqlLimits(seconds=20, threads=1)), guarded.prints()
    assert len(hostile_sql.ALL) + len(hostile_sql.ENDLESS) >= 200
    answered = []
    for text in hostile_sql.ALL:
        asked = guarded.filled(text)
        try:
            with engine.query(asked, readable=lambda stream: stream == "S") as query:
                query.run()
                shown = str([batch.to_pylist() for batch in query.batches()])
        except (SqlError, NoSuchStream) as error:
            shown = str(error)
        else:
            answered.append(text)
        assert guarded.told_by(shown, asked) == [], text
    assert answered == ANSWERED
    assert guarded.prints() == before
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
def test_nothing_goes_on_for_ever(guarded: Guarded, text: str) -> None:
    """A statement without end meets one of its limits, and leaves nothing on disk."""
    before = guarded.prints()
    limits = SqlLimits(seconds=0.3, memory_bytes=64 << 20, temp_bytes=16 << 20, rows=100_000, threads=1)
    with pytest.raises(SqlError):
        rows_of(engine_on(guarded.data, limits=limits), text)
    assert guarded.prints() == before
    assert [row["text"] for row in rows_of(engine_on(guarded.data), "FROM S")] == ["shown"]
