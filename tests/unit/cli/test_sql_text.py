"""Statements taken apart."""

import pytest

from api.cli.sql_text import all_of, taken_apart


@pytest.mark.parametrize(
    ("text", "complete", "rest"),
    [
        ("", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2", ["SELECT 1"], " SELECT 2"),
        ("SELECT ';', \";\", `;`; x", ["SELECT ';', \";\", `;`"], " x"),
        ("SELECT 'it''s;'; -- ;\n;", ["SELECT 'it''s;'"], ""),
        ("/* ; */ SELECT 1 -- ;\n, 2;", ["/* ; */ SELECT 1 -- ;\n, 2"], ""),
        ("SELECT $$;$$, $a$;$$;$a$; y", ["SELECT $$;$$, $a$;$$;$a$"], " y"),
        ("SELECT '; SELECT 2;", [], "SELECT '; SELECT 2;"),
        ("SELECT 1 /* ; ", [], "SELECT 1 /* ; "),
        (";;  ;-- only\n;", [], ""),
        ("SELECT $1; SELECT 2;", ["SELECT $1", "SELECT 2"], ""),
        ("SELECT 5 - -3; z", ["SELECT 5 - -3"], " z"),
    ],
)
def test_statements_end_at_semicolons(text: str, complete: list[str], rest: str) -> None:
    """Not at those in quotes or comments; what is open waits for its end."""
    assert taken_apart(text) == (complete, rest)


def test_the_last_statement_needs_no_semicolon() -> None:
    """And comments alone are none."""
    assert all_of("SELECT 1;\nSELECT 2\n") == ["SELECT 1", "SELECT 2"]
    assert all_of("-- nothing\n") == []
