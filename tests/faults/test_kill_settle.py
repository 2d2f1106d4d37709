"""kill -9 of the settle job at random points and between the commits of a batch: each message stays in one place."""

from pathlib import Path

import pytest

from tests.faults.kill_settle import kill_rounds


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_tables_are_whole_after_kills(tmp_path: Path) -> None:
    """In the typed table or its dead letters, once; of a table of latest ones, the last of each subject."""
    outcome = kill_rounds(tmp_path / "data", rounds=9, seed=1)
    assert outcome.problems == [], outcome
    assert sum(outcome.cuts.values()) > 1, f"hardly any kill came between two commits: {outcome}"
