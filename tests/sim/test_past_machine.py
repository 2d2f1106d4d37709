"""Random histories with cuts, branches, rewinds and undeletes: live and past are the model's, by NATS and by SQL."""

from collections import Counter

import pytest

from tests.sim.past_machine import simulate

SEEDS = 4
STEPS = 24
MORE_SEEDS = 300


def test_live_and_past_are_as_the_model_says() -> None:
    """Over restarts, kills, settling, cleanup and vacuum; the seed is in the failure."""
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        counts += _lived(seed, STEPS)
    for what in (
        "_cut",
        "_branch",
        "files",
        "_rewind",
        "_undelete",
        "_kill_a_branch",
        "_settle",
        "_restart",
        "replays to the end",
    ):
        assert counts[what], f"too little happened: {counts}"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_live_and_past_are_as_the_model_says_for_long() -> None:
    """The same over many more lives."""
    for seed in range(SEEDS + 1, SEEDS + MORE_SEEDS):
        _lived(seed, 2 * STEPS)


def _lived(seed: int, steps: int) -> Counter[str]:
    try:
        return simulate(seed, steps)
    except AssertionError as error:
        raise AssertionError(f"python -m tests.sim.past_machine --seed {seed} --steps {steps}: {error}") from error
