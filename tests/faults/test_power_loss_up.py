"""Power cuts of the whole of ``silt up``: it starts by itself each time, and nothing acknowledged is missing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.disk import NoDisk
from tests.faults.power_cuts import cut_rounds


@pytest.mark.power_loss
@pytest.mark.timeout(14_400)
def test_silt_up_survives_power_cuts(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """While tables are made, filled, truncated, compacted, vacuumed and checkpointed; the seed is in the failure."""
    cuts = request.config.getoption("--power-cuts")
    seed = request.config.getoption("--power-seed") or int.from_bytes(os.urandom(4))
    try:
        outcome = cut_rounds(tmp_path, cuts=cuts, seed=seed)
    except NoDisk as reason:
        pytest.skip(str(reason))
    assert outcome.problems == [], outcome
    assert outcome.points.total() == cuts, outcome
    assert outcome.acknowledged > 10 * cuts, f"hardly any load: {outcome}"
    shutil.rmtree(tmp_path, ignore_errors=True)
