"""kill -9 of the gateway while consumers work: all is handled, double-acked messages stay away, floors stand."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.faults.kill_consumers import kill_rounds


def _run(folder: Path, rounds: int, seed: int) -> None:
    outcome = asyncio.run(kill_rounds(folder, rounds=rounds, seed=seed))
    assert outcome.problems == [], f"seed {seed}: {outcome}"
    assert all(count > rounds for count in outcome.finished.values()), f"hardly any load: {outcome}"


def test_consumers_survive_a_few_kills(tmp_path: Path) -> None:
    """Four kills at points that a fixed seed picks."""
    _run(tmp_path, rounds=4, seed=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_consumers_survive_fifty_kills(tmp_path: Path) -> None:
    """Fifty kills at points that differ from run to run; the seed is in the failure."""
    _run(tmp_path, rounds=50, seed=int.from_bytes(os.urandom(4)))
