"""The demonstration on a small part of its data: it must agree with itself and clean up."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(600)
def test_the_demonstration_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    """Exit code 0, three equal answers, no folder left where temporary files go."""
    ran = subprocess.run(
        [sys.executable, "-m", "api.cli.main", "demo", "--rows", "20000"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Published and acknowledged 20,000 flights" in ran.stdout
    assert "all 2,000 found duplicate" in ran.stdout
    assert ran.stdout.count("yes") == 3
    assert "NO" not in ran.stdout.split("asked by")[1].split("flights.")[0]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("silt-demo-")] == []
