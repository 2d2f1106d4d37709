"""A branch whose files the settle job takes over waits for the settle job, and for nothing else."""

import random
from pathlib import Path

from tests.sim.past_world import PastWorld

_POLL_SECONDS = 9.0
_SETTLES_SECONDS = 0.4
"""The longest pause of the world's settle job."""


def test_a_branch_is_shown_when_it_is_settled(tmp_path: Path) -> None:
    """The gateway does not wait for its next look at what is settled."""
    world = PastWorld(tmp_path, random.Random(7), poll_seconds=_POLL_SECONDS)

    async def live() -> None:
        world.begin()
        assert "error" not in await world.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        for number in range(30):
            await world.publish(f"s.{number % 3}", b"%d" % number)
        world.settle()
        async with world.settling():
            began = world.clock.monotonic()
            reply = await world.ask("STREAM.BRANCH.S", {"name": "T"})
            assert reply["state"]["messages"] == 30
            assert world.clock.monotonic() - began < _SETTLES_SECONDS + 1
        assert world.tables.based == 3

    world.run(live())
