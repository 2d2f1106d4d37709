"""Which columns a statement can name."""

import duckdb
import pytest

from delta_store.sql.named_columns import named_columns
from delta_store.sql.statement import read_statement


def named(text: str) -> frozenset[str] | None:
    """Return what a statement names."""
    [row] = duckdb.sql("SELECT json_serialize_sql(?)", params=[text]).fetchall()
    return named_columns(read_statement(str(row[0])).tree)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT change, count(*) FROM diff('S', 1, 2) AS d GROUP BY change", "change"),
        ("SELECT d.a.b, Z FROM d ORDER BY y LIMIT 3", "d a b z y"),
        ("SELECT d FROM diff('S', 1, 2) AS d", "d"),
        ("SELECT count(*) FROM a JOIN b USING (x) WHERE k IN (SELECT y FROM b) AND z LIKE 'a%'", "x k y z"),
        ("WITH q AS (SELECT z FROM a) SELECT count(*) FROM q", "z"),
        ("SELECT row_number() OVER (PARTITION BY x ORDER BY y) FROM a QUALIFY v = 1", "x y v"),
        ("SELECT CASE WHEN a THEN b::INT ELSE c BETWEEN d AND e END FROM t", "a b c d e"),
        ("SELECT (SELECT max(d.f) FROM b) FROM d UNION ALL SELECT g FROM h", "d f g"),
    ],
)
def test_names_are_found_wherever_they_stand(text: str, names: str) -> None:
    """Each part of a name is one: a row can be named by its relation."""
    assert named(text) == frozenset(names.split())


@pytest.mark.parametrize(
    "text",
    [
        "FROM a", "SELECT a.* FROM a", "SELECT COLUMNS('x') FROM a", "SELECT count(COLUMNS(*)) FROM a",
        "SELECT #1 FROM a", "SELECT 1 FROM a NATURAL JOIN b", "SELECT x FROM a AS a(x, y)", "DESCRIBE a", "SUMMARIZE a",
        "UNPIVOT a ON b, c", "SELECT list_transform([1], lambda x: x + 1) FROM a", "SELECT x FROM (FROM a)",
        "SELECT 1 ORDER BY ALL",
    ],
)  # fmt: skip
def test_what_may_name_any_column(text: str) -> None:
    """Stars, places, whole relations, and what is not understood."""
    assert named(text) is None


def test_a_call_under_a_name_of_its_own() -> None:
    """Its arguments are no columns of it, but count: that costs time, not truth."""
    assert named("SELECT seq FROM multi_last(S, '>')") == frozenset({"seq", "s"})
