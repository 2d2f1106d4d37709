"""Every scenario, once against nats-server and once against Silt: the same answers, apart from a written list."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.integration.differential import (
    scenarios_acking,
    scenarios_advisories,
    scenarios_batches,
    scenarios_bodies,
    scenarios_consumers,
    scenarios_consuming,
    scenarios_direct,
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
)
from tests.integration.differential.allowed import ALLOWED
from tests.integration.differential.side import SCENARIOS, Scenario, Side
from tests.integration.differential.transcript import Transcript, differences
from tests.servers import AGAINST, ROOT, side_by_side
from tests.wire import Wire

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
)
STEPS_LEAST = 800
OVER_A_CLIENT_LINK = ("pulls_at_once", "pulls_to_nobody", "queues_of_pulls", "queues_of_replies")
"""What depends on the order of the gateway's two links."""
_steps_seen: dict[str, int] = {}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URLs of a fresh nats-server with JetStream and of a fresh Silt."""
    with side_by_side(tmp_path_factory.mktemp("differential")) as urls:
        yield urls


@pytest.fixture(scope="module")
def pair_over_a_client_link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Likewise, with a Silt on a hub that keeps the API from leafs."""
    with side_by_side(tmp_path_factory.mktemp("differential"), api_over="client") as urls:
        yield urls


async def run_scenario(url: str, steps: Scenario) -> Transcript:
    """Run one scenario against one server and leave no stream behind."""
    async with Wire.open(url) as wire:
        side = Side(wire)
        try:
            await steps(side)
        finally:
            await side.finish()
        return side.transcript


async def run_both(urls: tuple[str, str], steps: Scenario) -> tuple[Transcript, Transcript]:
    """Run one scenario against both servers at the same time."""
    async with asyncio.TaskGroup() as group:
        reference, silt = (group.create_task(run_scenario(url, steps)) for url in urls)
    return reference.result(), silt.result()


def verdict(name: str, reference: Transcript, silt: Transcript) -> list[str]:
    """What is wrong with a pair of transcripts: one block of text for each step that fails."""
    allowed = {item.label: item for item in ALLOWED if item.scenario == name and AGAINST == "silt"}
    problems = []
    labels = [step.label for step in reference.steps]
    if labels != [step.label for step in silt.steps]:
        problems.append("the two sides took different steps")
    for expected, actual in zip(reference.steps, silt.steps, strict=False):
        found = differences(expected.replies, actual.replies)
        permit = allowed.pop(expected.label, None)
        if permit is not None and not found:
            problems.append(f"── {expected.label}\n   is equal now: take it out of the list of differences")
        unexplained = [line for line in found if permit is None or not line.startswith(permit.paths)]
        if permit is not None and found and permit.silt not in "\n".join(found):
            unexplained.append(f"is meant to differ by {permit.silt!r}")
        if unexplained:
            problems.append("\n   ".join([f"── {expected.label}", *unexplained]))
    problems += [f"── {label}\n   is in the list of differences, but no such step was taken" for label in allowed]
    return problems


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_same_answers(name: str, pair: tuple[str, str]) -> None:
    """Silt answers every step of the scenario as nats-server does."""
    reference, silt = asyncio.run(run_both(pair, SCENARIOS[name]))
    _steps_seen[name] = len(reference.steps)
    problems = verdict(name, reference, silt)
    summary = f"{len(problems)} of {len(reference.steps)} steps of {name} differ (nats-server → Silt)"
    assert not problems, "\n".join([summary, *problems])


@pytest.mark.parametrize("name", OVER_A_CLIENT_LINK)
def test_same_answers_over_a_client_link(name: str, pair_over_a_client_link: tuple[str, str]) -> None:
    """Silt answers as nats-server does where requests come over one link and subscriptions over the other."""
    problems = verdict(name, *asyncio.run(run_both(pair_over_a_client_link, SCENARIOS[name])))
    assert not problems, "\n".join(problems)


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
    assert [item.label for item in ALLOWED if item.told not in told] == []
