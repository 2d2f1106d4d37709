"""A bad network between hub and gateway: nothing acknowledged is lost and nothing with a message id stored twice."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.kill_gateway import create_stream
from tests.faults.link_proxy import Fault, LinkProxy, link_proxy
from tests.faults.publishers import STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_direct_get
from tests.faults.reckoning import everything_wrong
from tests.servers import NatsServer, gateway, nats_server
from tests.wire import Wire

_PAUSE = 0.3
_WORKERS = 16


async def _bad_day(proxy: LinkProxy, rng: random.Random, rounds: int) -> None:
    """So many faults of the link, one after the other."""
    for number in range(rounds):
        await asyncio.sleep(rng.uniform(0, 2 * _PAUSE))
        if number % 3 == 0:
            proxy.cut()
        elif number % 3 == 1:
            await proxy.delay()
        else:
            await proxy.half_open()


async def _publish_through(hub: NatsServer, data: Path, *, seed: int, rounds: int) -> LinkProxy:
    """Publish while the link fails; afterwards hold what was acknowledged against what is stored."""
    rng = random.Random(seed)
    assert hub.leaf_url is not None
    async with link_proxy(hub.leaf_url, rng) as proxy:
        running = gateway(replace(hub, leaf_url=proxy.url), data)
        await asyncio.to_thread(running.__enter__)
        try:
            async with Wire.open(hub.url, inbox="_INBOX.links") as wire, asyncio.timeout(120):
                await create_stream(wire)
                publishers = Publishers(wire, workers=_WORKERS, rng=rng)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(publishers.run())
                    proxy.repeats = True
                    await _bad_day(proxy, rng, rounds)
                    proxy.repeats = False
                    publishers.stop()
                stored = await by_direct_get(wire, STREAM)
            assert everything_wrong(publishers.history, stored) == []
            assert unexpected_refusals(publishers.history.refused) == []
            assert len(publishers.history.acked) > _WORKERS * rounds // 3
        finally:
            await asyncio.to_thread(running.__exit__, None, None, None)
    return proxy


@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_a_link_that_is_cut_delayed_and_repeats_itself(tmp_path: Path, rounds: int) -> None:
    """Publishers that try again with their message id get each message stored once, through all of it."""
    with nats_server(tmp_path / "hub", leaf=True) as hub:
        proxy = asyncio.run(_publish_through(hub, tmp_path / "data", seed=rounds, rounds=rounds))
    assert min(proxy.done[fault] for fault in Fault) >= rounds // 3, proxy.done
