"""``silt doctor``: what it finds, and what it says to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from api.up import doctor
from conf.data_location import DataLocation
from tests.servers import nats_server

ROOT = Path(__file__).resolve().parents[2]


def _silt(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "api.cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_is_fit() -> None:
    """What the tests themselves need is found."""
    assert all(check().ok for check in doctor.installed_checks())


@pytest.mark.parametrize("said", ["11.0.2", "1.8.0_392", "22"])
def test_a_java_that_spark_does_not_run_on_is_a_failure(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only 17 and 21 will do."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{said}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = doctor.check_java()
    assert not found.ok
    assert "17 or 21" in found.advice


def test_no_java_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither PATH nor JAVA_HOME leads to one."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert not doctor.check_java().ok


def test_a_server_that_runs_is_found_on_both_ports(tmp_path: Path) -> None:
    """The client and the leafnode listener both greet."""
    with nats_server(tmp_path, leaf=True) as server:
        assert server.leaf_url is not None
        assert doctor.check_nats(server.url).ok
        assert doctor.check_leaf(server.leaf_url).ok


def test_a_server_that_does_not_run_is_a_failure() -> None:
    """Nobody listens on port 1; the advice says what to start and how to name it."""
    assert "silt up" in doctor.check_nats("nats://127.0.0.1:1").advice
    leaf = doctor.check_leaf("nats-leaf://127.0.0.1:1")
    assert not leaf.ok
    assert "leafnodes" in leaf.advice


def test_a_folder_that_takes_no_files_is_a_failure(tmp_path: Path) -> None:
    """A file is where the folder should be."""
    (tmp_path / "file").write_text("")
    assert not doctor.check_storage(DataLocation(str(tmp_path / "file"))).ok
    good = doctor.check_storage(DataLocation(str(tmp_path / "new")))
    assert "fsync works" in good.found
    assert list((tmp_path / "new").iterdir()) == []


def test_the_command_lists_every_check_and_fails_when_one_does(tmp_path: Path) -> None:
    """Exit code 1, and each failure carries its advice."""
    ran = _silt("doctor", "--data", str(tmp_path), "--nats", "nats://127.0.0.1:1", "--output", "json")
    checks = {check["check"]: check for check in json.loads(ran.stdout)}
    assert set(checks) == {
        "python",
        "java",
        "spark",
        "nats-server",
        "jars",
        "nats",
        "leaf listener",
        "settling",
        "storage",
    }
    assert ran.returncode == 1
    assert checks["nats"]["result"] == "FAILED"
    assert all(bool(check["what to do"]) == (check["result"] == "FAILED") for check in checks.values())


def test_an_unknown_setting_stops_every_verb() -> None:
    """A misspelt variable is told in one line, not by a traceback."""
    ran = _silt("doctor", SILT_HTTP__PROT="1")
    assert ran.returncode == 2
    assert ran.stderr.strip() == "silt: no such setting: SILT_HTTP__PROT"
