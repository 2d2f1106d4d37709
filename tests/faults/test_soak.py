"""All kinds of clients on ``silt up``, amid kills of its processes and a power cut where the machine allows it."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.faults.soak import soak
from tests.faults.written_once import WrittenOnce


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_nothing_is_lost_in_a_short_soak(tmp_path: Path) -> None:
    """Three minutes of faults at points that differ from run to run; the seed is in the failure."""
    outcome = asyncio.run(soak(tmp_path, minutes=3, seed=int.from_bytes(os.urandom(4))))
    print(outcome)  # noqa: T201  # a report, see -rP
    assert outcome.problems == [], str(outcome)
    assert outcome.stored > 1_000, f"hardly any load: {outcome}"
    assert sum(outcome.kills.values()) >= 5, str(outcome)
    assert outcome.counts["versions"] > 100, str(outcome)


def test_a_log_entry_that_is_written_again_is_seen(tmp_path: Path) -> None:
    """The watcher of the soak would notice."""
    log = tmp_path / "messages" / "_delta_log"
    log.mkdir(parents=True)
    watcher = WrittenOnce(tmp_path)
    (log / "0.json").write_text("{}")
    watcher.look()
    watcher.look()
    assert (watcher.versions, watcher.problems) == (1, [])
    (log / "1.json").write_text("{ }")
    (log / "1.json").replace(log / "0.json")
    watcher.look()
    assert ["0.json" in problem for problem in watcher.problems] == [True]
