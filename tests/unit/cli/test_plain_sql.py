"""The plain uses of ``silt sql``: read as typer reads them, or left to it."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from api.cli import plain_sql, sql
from api.cli.app import app
from api.cli.plain_sql import plain_use, run_plain
from api.cli.sql_command import SqlArguments, WrongUse
from api.formats.table_format import TableFormat
from conf.data_location import DataLocation
from conf.exit_codes import Exit

PIECES = (
    "SELECT 1", "s", "", "-", "--", "-1", "--data", "--data=", "--data=d", "--data=s3://b/p", "--data=ftp://x", "d",
    "--output", "--output=json", "--output=none", "-o", "-ocsv", "csv", "-f", "--file=x", "--timeout=1", "--help",
    "--engine", "spark", "--dat=d", "--http=x",
)  # fmt: skip


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[SqlArguments]:
    """What would have been run."""
    found: list[SqlArguments] = []

    def run_sql(arguments: SqlArguments) -> Exit:
        found.append(arguments)
        return Exit.OK

    monkeypatch.setattr(sql, "run_sql", run_sql)
    monkeypatch.setattr(plain_sql, "run_sql", run_sql)
    return found


def test_what_is_plain(tmp_path: Path) -> None:
    """A statement, where the tables are, a format: in any order, each once."""
    said = ["--data", str(tmp_path), "SELECT 1", "-o", "csv"]
    assert plain_use(said, {}) == SqlArguments("SELECT 1", DataLocation(str(tmp_path)), output=TableFormat.CSV)
    assert plain_use(["SELECT 1"], {"SILT_DATA": str(tmp_path)}) == SqlArguments(
        "SELECT 1", DataLocation(str(tmp_path))
    )
    file = tmp_path / "file"
    file.touch()
    for given_to_typer in (["SELECT 1"], said[:2], [*said, "--timeout", "1"], ["x", *said], ["x", "--data", str(file)]):
        assert plain_use(given_to_typer, {}) is None


def test_it_is_read_as_typer_reads_it(seen: list[SqlArguments], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is typed: the same arguments, or nothing run."""
    runner = CliRunner()

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.sampled_from(PIECES), max_size=6), st.sampled_from(["", "env"]))
    def check(words: list[str], data: str) -> None:
        monkeypatch.setenv("SILT_DATA", data)
        seen.clear()
        if run_plain(words) is None:
            assert not seen
        else:
            assert runner.invoke(app, ["sql", *words]).exit_code == Exit.OK
            plain, by_typer = seen
            assert plain == by_typer

    check()


def test_what_does_not_go_together_is_left_to_typer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so in its way; Ctrl-C ends the process as typer's does."""

    def fail(error: BaseException) -> None:
        def run_sql(_: SqlArguments) -> Exit:
            raise error

        monkeypatch.setattr(plain_sql, "run_sql", run_sql)

    fail(WrongUse("no"))
    assert run_plain(["SELECT 1", "--data", str(tmp_path)]) is None
    fail(KeyboardInterrupt())
    assert run_plain(["SELECT 1", "--data", str(tmp_path)]) == 130
