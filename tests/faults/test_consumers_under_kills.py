"""Clients of nats.go at work while hub and gateway are killed: none loses its consumer, a message or an ack.

The same rounds against nats-server show what its clients see; the report (``-rP``) names both.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.go_history import Findings
from tests.faults.go_rounds import rounds
from tests.tools import GO_KILLS, Missing, go_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
Run = Callable[[str, int], Findings]
SEED = int.from_bytes(os.urandom(4))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Rounds on one kind of server, reported."""
    try:
        go_program(GO_KILLS)
    except Missing as missing:
        pytest.skip(str(missing))

    def run_rounds(kind: str, number: int) -> Findings:
        found = rounds(kind, tmp_path / kind, number=number, seed=SEED)
        print(f"seed {SEED}, {kind}\n{found.table()}")  # noqa: T201  # a report, see -rP
        return found

    return run_rounds


def test_consumers_stay_and_get_all(run: Run) -> None:
    """Thirty kills of gateway, hub or both; the same on nats-server loses no consumer either, but forgets acks."""
    reference = run("nats-server", 10)
    assert not any("gone" in problem for problem in reference.problems)
    found = run("silt", 30)
    assert found.problems == [], f"seed {SEED}: {found.table()}"
    assert found.numbers["published"] > 1_000


def test_consumers_stay_while_spark_settles(run: Run) -> None:
    """The same on ``silt up``, whose settle job takes what is superseded of consumers out of the tables meanwhile."""
    found = run("up", 15)
    assert found.problems == [], f"seed {SEED}: {found.table()}"
