"""Requests at random: nats-server and Silt give the same answers, whatever is asked."""

import asyncio
import random
import time
from collections.abc import Iterator

import pytest

from tests.integration.differential.random_requests import KINDS, Ask
from tests.integration.differential.side import Scenario, Side
from tests.integration.differential.test_differential import run_both
from tests.integration.differential.transcript import differences
from tests.servers import side_by_side

SLOW_SECONDS = 120.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URLs of a fresh nats-server with JetStream and of a fresh Silt."""
    with side_by_side(tmp_path_factory.mktemp("random")) as urls:
        yield urls


def scenario_of(asks: list[Ask]) -> Scenario:
    """The requests as a scenario, one step each."""

    async def steps(side: Side) -> None:
        for number, ask in enumerate(asks):
            label = f"{number} {ask.subject} {ask.body.decode()[:200]} {ask.header.decode()!r}"
            if ask.many:
                await side.batch(ask.subject.removeprefix("$JS.API.DIRECT.GET."), ask.body, label=label)
            else:
                await side.request(ask.subject, ask.body, raw_header=ask.header, label=label)

    return steps


def problems(urls: tuple[str, str], kind: str, seed: int) -> list[str]:
    """What the first difference is, and the requests before it; bytes of streams in memory are meant to differ."""
    asks = KINDS[kind](random.Random(seed))
    reference, silt = asyncio.run(run_both(urls, scenario_of(asks)))
    in_memory = any(b'"memory"' in ask.body for ask in asks)
    for place, (expected, actual) in enumerate(zip(reference.steps, silt.steps, strict=True)):
        found = differences(expected.replies, actual.replies)
        found = [line for line in found if not (in_memory and ".state.bytes: " in line)]
        if found:
            asked = [repr(ask) for ask in asks[max(0, place - 10) : place + 1]]
            return [f"{kind} {seed}: request {place} differs (nats-server → Silt)", *asked, *found]
    return []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_same_answers(kind: str, seed: int, pair: tuple[str, str]) -> None:
    """A few chosen seeds."""
    found = problems(pair, kind, seed)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_for_long(kind: str, pair: tuple[str, str]) -> None:
    """Other seeds each time; the one that fails is told."""
    seed, until = random.randrange(10**9), time.monotonic() + SLOW_SECONDS
    while time.monotonic() < until:
        found = problems(pair, kind, seed)
        assert not found, "\n".join(found)
        seed += 1
