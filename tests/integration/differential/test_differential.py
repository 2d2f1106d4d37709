"""Every scenario, once against nats-server and once against Silt: the same answers, apart from a written list."""

import logging
import random
import time
from concurrent.futures import Future

import pytest

from tests.integration.differential import (
    scenarios_acking,
    scenarios_advisories,
    scenarios_batches,
    scenarios_bodies,
    scenarios_consumers,
    scenarios_consuming,
    scenarios_direct,
    scenarios_direct_requests,
    scenarios_fast_batches,
    scenarios_features,
    scenarios_levels,
    scenarios_messages,
    scenarios_publish,
    scenarios_pushing,
    scenarios_queues,
    scenarios_schedules,
    scenarios_sources,
    scenarios_streams,
    scenarios_tables,
)
from tests.integration.differential.allowed import ALLOWED, EVERYWHERE
from tests.integration.differential.lanes import Lanes, Transcripts
from tests.integration.differential.random_requests import KINDS
from tests.integration.differential.side import SCENARIOS, Scenario
from tests.integration.differential.verdict import verdict
from tests.servers import ROOT

SCENARIO_MODULES = (
    scenarios_streams,
    scenarios_publish,
    scenarios_levels,
    scenarios_messages,
    scenarios_direct,
    scenarios_features,
    scenarios_batches,
    scenarios_bodies,
    scenarios_fast_batches,
    scenarios_schedules,
    scenarios_sources,
    scenarios_consumers,
    scenarios_consuming,
    scenarios_pushing,
    scenarios_acking,
    scenarios_advisories,
    scenarios_queues,
    scenarios_direct_requests,
    scenarios_tables,
)
STEPS_LEAST = 13_000
SLOW_SECONDS = 120.0
OVER_A_CLIENT_LINK = ("pulls_at_once", "pulls_to_nobody", "queues_of_pulls", "queues_of_replies")
"""What depends on the order of the gateway's two links."""
Played = dict[tuple[str, str], "Future[Transcripts]"]
_steps_seen: dict[str, int] = {}


def check(lanes: Lanes, name: str, steps: Scenario, seen: Transcripts, *, over: str = "leaf") -> None:
    """Fail, naming all that differs, unless nats-server itself differs so from one time to another."""
    reference, silt = seen
    if problems := verdict(name, [reference], silt):
        logging.getLogger(__name__).warning("%s is played once more: %s", name, problems)
        again, _ = lanes.play(name, steps, over=over).result()
        problems = verdict(name, [reference, again], silt)
    summary = f"{len(problems)} of {len(silt.steps)} steps of {name} differ (nats-server → Silt)"
    assert not problems, "\n".join([summary, *problems])


@pytest.mark.parametrize(
    ("name", "over"),
    [*((name, "leaf") for name in sorted(SCENARIOS)), *((name, "client") for name in OVER_A_CLIENT_LINK)],
)
def test_same_answers(name: str, over: str, played: Played, lanes: Lanes) -> None:
    """Silt answers every step of the scenario as nats-server does, or as it does when asked once more."""
    reference, silt = played[name, over].result()
    _steps_seen[name] = len(silt.steps)
    check(lanes, name, SCENARIOS[name], (reference, silt), over=over)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_for_long(kind: str, lanes: Lanes) -> None:
    """Random requests of other seeds each time; the one that fails is told."""
    seed, until = random.randrange(10**9), time.monotonic() + SLOW_SECONDS
    while time.monotonic() < until:
        name, steps = scenarios_tables.at_random(kind, seed)
        check(lanes, name, steps, lanes.play(name, steps).result())
        seed += 1


def test_steps_are_enough() -> None:
    """The scenarios together take at least the promised number of steps, and each name in the list exists."""
    if set(_steps_seen) != set(SCENARIOS):
        pytest.skip("only some scenarios were run")
    assert sum(_steps_seen.values()) >= STEPS_LEAST
    assert {item.scenario for item in ALLOWED} <= set(SCENARIOS)


def test_users_are_told_of_every_difference() -> None:
    """Each one on the list stands in the README too."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    told = readme.partition("## Deliberate differences")[2].partition(" ## ")[0]
    assert [item.reason for item in (*ALLOWED, *EVERYWHERE) if item.told not in told] == []
