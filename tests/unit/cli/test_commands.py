"""The command line: help, version, usage errors."""

import sys

import pytest
from typer.testing import CliRunner

from api.cli import main
from api.cli.app import app
from conf.exit_codes import Exit

VERBS = ["up", "gateway", "settle", "serve", "sql", "doctor", "stream", "table", "demo"]


def test_help_lists_every_verb_and_exit_code() -> None:
    """What a user sees first."""
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    for verb in VERBS:
        assert f"\n  {verb} " in shown
    listed = f" {' '.join(shown.split('Exit codes:')[1].split())} "
    for code in Exit:
        assert f" {code.value} " in listed


@pytest.mark.parametrize(
    "verb",
    [
        *VERBS,
        "stream ls",
        "stream info",
        "stream report",
        "stream backup",
        "stream restore",
        "table ls",
        "table show",
        "table schema",
    ],
)
def test_every_verb_has_help(verb: str) -> None:
    """Help never needs a server, a folder or Java."""
    ran = CliRunner().invoke(app, [*verb.split(), "--help"], env={"COLUMNS": "200"})
    assert ran.exit_code == 0
    assert "Usage:" in ran.output


def test_the_version_is_told() -> None:
    """One line."""
    assert CliRunner().invoke(app, ["--version"]).output.startswith("silt 0.")


@pytest.mark.parametrize("arguments", [["nonsense"], ["up"], ["up", "--data", "x", "--port", "70000"], ["sql"]])
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown verb, a missing option, a value out of bounds."""
    monkeypatch.delenv("SILT_DATA", raising=False)
    assert CliRunner().invoke(app, arguments).exit_code == Exit.USAGE


def test_a_wrong_setting_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by a traceback."""
    monkeypatch.setattr(sys, "argv", ["silt", "doctor"])
    monkeypatch.setenv("SILT_HTTP__PORT", "many")
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == Exit.USAGE
    told = capsys.readouterr().err
    assert told.startswith("silt: wrong setting: http.port:")
    assert told.count("\n") == 1
