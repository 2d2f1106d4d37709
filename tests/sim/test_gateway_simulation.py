"""The whole gateway through random lives: what it promised holds after any end, and planted faults are found."""

import gc
from pathlib import Path

import pytest

from tests.sim.gateway_simulation import simulate
from tests.sim.planted import PLANTS

SEEDS = 200
AT_ONCE = 20
MORE_SEEDS = 3_000
PLANTED_SEEDS = 60


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_promises_hold_after_any_end(first: int) -> None:
    """Nothing acknowledged is lost or doubled, consumers get everything, the past stays; else the seed is named."""
    outcomes = [simulate(seed) for seed in range(first, first + AT_ONCE)]
    broken = [
        f"python -m tests.sim.gateway_simulation --seed {one.seed}: {one.broken}" for one in outcomes if one.broken
    ]
    assert not broken, "\n".join(broken)
    counts = sum((one.counts for one in outcomes), start=type(outcomes[0].counts)())
    for what in ("acked", "duplicates", "readings", "delivered by PULL", "delivered by PUSH", "delivered by WORK"):
        assert counts[what] > 10, f"too little happened: {counts}"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_promises_hold_in_many_more_lives() -> None:
    """The same for long."""
    for seed in range(SEEDS + 1, SEEDS + MORE_SEEDS):
        broken = simulate(seed).broken
        assert not broken, f"python -m tests.sim.gateway_simulation --seed {seed}: {broken}"


def test_one_seed_is_one_history() -> None:
    """Nothing but the seed decides what happens, and nothing of it stays open."""
    for seed in (3, 4):
        first = simulate(seed)
        open_files = _open_files()
        again = simulate(seed)
        assert len(first.trace) > 20
        assert first.trace == again.trace
        assert _open_files() == open_files


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """Some seed among the first ones breaks a gateway with this fault, and does not break one without it."""
    found = next((seed for seed in range(1, PLANTED_SEEDS) if simulate(seed, PLANTS[name]).broken), 0)
    assert found, f"no seed up to {PLANTED_SEEDS} finds: {name}"
    assert not simulate(found).broken


def _open_files() -> int:
    gc.collect()  # the storages of what was killed close their folders
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
