"""kill -9 of the gateway under load: nothing acknowledged is lost, no sequence used twice, no id stored twice."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.faults.kill_gateway import kill_rounds


def _run(folder: Path, rounds: int, seed: int) -> None:
    outcome = asyncio.run(kill_rounds(folder, rounds=rounds, seed=seed))
    assert outcome.problems == [], f"seed {seed}: {len(outcome.problems)} problems, {outcome.problems[:20]}"
    assert outcome.acknowledged > 10 * rounds, f"hardly any load: {outcome}"


def test_killed_a_few_times(tmp_path: Path) -> None:
    """Six kills at points that a fixed seed picks."""
    _run(tmp_path, rounds=6, seed=6)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_fifty_times(tmp_path: Path) -> None:
    """Fifty kills at points that differ from run to run; the seed is in the failure."""
    _run(tmp_path, rounds=50, seed=int.from_bytes(os.urandom(4)))
