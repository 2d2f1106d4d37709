"""What a command says when it can't: a sentence that names the thing, the documented status, and no traceback."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from api.cli import main
from api.gateway import gateway_main
from api.rest import serve_main
from conf.exit_codes import Exit
from delta_store.settling import settle_main

NOBODY = "nats://127.0.0.1:1"
MAINS: dict[str, Callable[[list[str]], int]] = {
    "gateway": gateway_main.main,
    "serve": serve_main.main,
    "settle": settle_main.main,
}
"""Called without the command line, which would import them a second time."""


@pytest.fixture
def ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[str]], tuple[int, str]]:
    """Runs a command to its end: status and standard error."""
    monkeypatch.setattr(gateway_main, "without_pandas", lambda: None)

    def run(arguments: list[str]) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["silt", *arguments])
        verb, *rest = arguments
        status: object = 0
        try:
            if verb in MAINS:
                status = MAINS[verb](rest)
            else:
                main.run()
        except SystemExit as end:
            status = end.code
        assert isinstance(status, int)
        return status, capsys.readouterr().err

    return run


def check(outcome: tuple[int, str], status: int, names: str) -> None:
    """The status, a text that names the thing, and nothing that is for programmers."""
    assert outcome[0] == status, outcome
    assert names in " ".join(outcome[1].split()), outcome
    assert "Traceback" not in outcome[1]
    assert not outcome[1].strip().endswith(":")


@pytest.mark.parametrize(
    "command",
    [
        *(f"{verb} --data {{folder}}" for verb in ("gateway", "serve", "settle", "up", "doctor", "verify", "repair")),
        "sql SELECT --data {folder}",
        "doctor --fetch-jars",
        "stream ls",
        "kv get B k",
        "key new x --scope read",
        "demo",
    ],
)
@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("SILT_NO__THING=1", "SILT_NO__THING"),
        ("SILT_HTTP__PORT=many", "http.port"),
        ("SILT_CONFIG=/no/such.toml", "/no/such.toml"),
    ],
)
def test_settings(
    command: str,
    setting: str,
    names: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: Callable[[list[str]], tuple[int, str]],
) -> None:
    """An unknown setting, a wrong value and a file of settings that is not there are wrong usage, in every command."""
    monkeypatch.setenv(*setting.split("="))
    check(ended(command.format(folder=tmp_path).split()), Exit.USAGE, names)


def test_help_needs_no_settings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Who looks up what a setting is called gets an answer."""
    monkeypatch.setenv("SILT_NO__THING", "1")
    for arguments in ([], ["--help"], ["sql", "--help"], ["--version"]):
        monkeypatch.setattr(sys, "argv", ["silt", *arguments])
        with pytest.raises(SystemExit):
            main.run()
        shown = capsys.readouterr()
        assert "silt" in (shown.out + shown.err).lower()
        assert "SILT_NO__THING" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("arguments", "status", "names"),
    [
        (["nonsense"], 2, "nonsense"),
        (["stream", "nope"], 2, "nope"),
        (["stream", "ls", "-s", NOBODY], 4, NOBODY),
        (["stream", "report", "-s", NOBODY], 4, NOBODY),
        (["stream", "info", "X", "-s", NOBODY], 4, NOBODY),
        (["stream", "ls", "--context", "none"], 2, "none.json"),
        (["kv", "ls", "B", "-s", NOBODY], 4, NOBODY),
        (["kv", "get", "B", "k k"], 2, "'k k'"),
        (["kv", "get", "B", "k", "--as-of", "never"], 2, "'never'"),
        (["key", "new", "x", "--scope", "bad"], 2, "'bad'"),
        (["key", "new", "x", "--scope", "read", "--file", "{file}"], 2, "{file}"),
        (["key", "new", "x", "--scope", "read", "--file", "{file}/below"], 1, "{file}/below"),
        (["demo", "--rows", "1"], 2, "--rows"),
        (["demo", "--keep", "{folder}"], 1, "{folder}"),
        (["up", "--data", "{file}"], 2, "{file}"),
        (["up", "--data", "{file}/below"], 1, "{file}"),
        (["sql", "SELECT 1", "--data", "{file}"], 2, "{file}"),
        (["verify", "--data", "{file}"], 2, "{file}"),
        (["verify", "--data", "{file}/below"], 1, "{file}/below"),
        (["verify", "--data", "{folder}"], 1, "{folder}"),
        (["repair", "--data", "{folder}/none"], 1, "{folder}/none"),
        (["gateway", "--data", "{file}"], 1, "{file}"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_places_and_usage(
    arguments: list[str], status: int, names: str, tmp_path: Path, ended: Callable[[list[str]], tuple[int, str]]
) -> None:
    """A folder that is none, a server that is not there, a word that means nothing."""
    file = tmp_path / "file"
    file.write_text("x")
    made = [one.format(file=file, folder=tmp_path) for one in arguments]
    check(ended(made), status, names.format(file=file, folder=tmp_path))


def test_the_settle_job_names_what_ended_it(tmp_path: Path) -> None:
    """Before Spark is started, by a line instead of a traceback."""
    file = tmp_path / "file"
    file.write_text("x")
    command = [sys.executable, "-m", "delta_store.settling.settle_main", "--once", "--data", str(file / "below")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    check((ran.returncode, ran.stderr), Exit.FAILED, str(file))
