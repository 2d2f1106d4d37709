"""The archive of Java's classes: mapped where it fits, passed over in silence where it does not."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_store.settling import class_archive


def test_the_session_maps_the_archive(spark: SparkSession) -> None:
    """As ``make setup`` leaves it."""
    assert spark.version
    path = class_archive.archive_path()
    if path is None or not path.is_file():
        pytest.skip("no archive: silt doctor --fetch-jars makes it")
    assert any(str(path) in Path(f"/proc/{pid}/maps").read_text() for pid in _children(os.getpid()))


def test_a_damaged_archive_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java starts without it, and says nothing."""
    monkeypatch.setattr(class_archive, "FOLDER", tmp_path)
    assert class_archive.archive_options() == ""
    path = class_archive.archive_path()
    assert path is not None
    path.write_bytes(b"torn" * 1_000)
    java = shutil.which("java")
    assert java is not None
    options = class_archive.archive_options().split()
    assert f"-XX:SharedArchiveFile={path}" in options
    said = subprocess.run([java, *options, "-version"], capture_output=True, text=True, timeout=60, check=True)
    assert "openjdk" in said.stderr.lower() or "java" in said.stderr.lower()
    assert not said.stdout


def _children(process: int) -> list[str]:
    return [
        child for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()
    ]
