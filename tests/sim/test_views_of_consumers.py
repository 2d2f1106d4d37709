"""Consumers of past points at a gateway in virtual time: the bounds of memory, reads that fail, vacuum."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from api.gateway import view_desk
from delta_store.reading.past_streams import PastStreams
from delta_store.values.read_errors import DamagedData
from tests.sim.past_world import PastWorld

Look = Callable[[PastWorld], Awaitable[None]]
_FULL = 20106


def live(root: Path, look: Look, **options: Any) -> None:
    """Run a gateway with streams S and T of some messages."""
    world = PastWorld(root, random.Random(1), **options)

    async def lived() -> None:
        world.begin()
        for name in ("S", "T"):
            await world.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.*"]})
            for number in range(6):
                await world.publish(f"{name}.{number}", b"x")
        await look(world)

    world.run(lived())


async def create(world: PastWorld, name: str, point: str, stream: str = "S") -> dict[str, Any]:
    """The reply to a request for a consumer."""
    config = {"durable_name": name, "ack_policy": "explicit", "metadata": {"silt.as_of": point}}
    verb = f"CONSUMER.DURABLE.CREATE.{stream}.{name}"
    return await world.ask(verb, {"stream_name": stream, "config": config})


def test_states_are_bounded_in_number(tmp_path: Path) -> None:
    """Those of one place are one; a deletion makes room."""

    async def look(world: PastWorld) -> None:
        for name, point, stream in (("A", "3", "S"), ("B", "3", "S"), ("C", "3", "T"), ("D", "3", "T")):
            assert "error" not in await create(world, name, point, stream)
        assert (await create(world, "E", "4"))["error"]["err_code"] == _FULL
        await world.ask("CONSUMER.DELETE.S.A")
        assert (await create(world, "E", "4"))["error"]["err_code"] == _FULL
        await world.ask("CONSUMER.DELETE.S.B")
        assert "error" not in await create(world, "E", "4")

    with mock.patch.object(view_desk, "CONSUMER_VIEWS_MAX", 2):
        live(tmp_path, look)


def test_states_are_bounded_in_messages(tmp_path: Path) -> None:
    """Of all together; nothing is left of the one that was too large."""

    async def look(world: PastWorld) -> None:
        assert "error" not in await create(world, "A", "4")
        assert (await create(world, "B", "4", "T"))["error"]["err_code"] == _FULL
        assert (await world.ask("CONSUMER.NAMES.T"))["total"] == 0
        assert "error" not in await create(world, "B", "1", "T")

    with mock.patch.object(view_desk, "CONSUMER_VIEWS_MESSAGES_MAX", 5):
        live(tmp_path, look)


def test_a_state_that_cannot_be_read_again_is_tried_again(tmp_path: Path) -> None:
    """Requests about its consumers wait, for a minute at the most; those about others do not."""

    async def look(world: PastWorld) -> None:
        await create(world, "A", "4")
        await create(world, "B", "4", "T")
        await world.kill()
        with mock.patch.object(PastStreams, "state_at", side_effect=DamagedData("file", "test")):
            world.begin()
            with pytest.raises(AssertionError, match="is not answered"):
                await world.ask("CONSUMER.INFO.S.A")
            assert (await world.ask("CONSUMER.NAMES.S"))["total"] == 1
            assert (await world.ask("STREAM.INFO.S"))["state"]["messages"] == 6
            assert (await world.ask("CONSUMER.DELETE.T.B"))["success"]
        assert (await world.ask("CONSUMER.INFO.S.A"))["num_pending"] == 4

    live(tmp_path, look)


@pytest.mark.parametrize("restarted", [False, True])
def test_vacuum_ends_a_consumer_whose_files_it_takes(tmp_path: Path, *, restarted: bool) -> None:
    """At the next look, or when its state can't be read again: a pull is told, and so is who asks; none is skipped."""

    async def look(world: PastWorld) -> None:
        world.settle()
        await world.kill()
        world.begin()
        assert (await create(world, "A", "4"))["num_pending"] == 4
        assert (await create(world, "B", "4", "T"))["num_pending"] == 4
        inbox, said = world.hub.inbox(), list[bytes]()
        world.hub.listen(inbox, lambda one: said.append(one.header or one.payload))
        body = b'{"batch":9,"expires":600000000000}'
        world.hub.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.A", body, reply=inbox)
        await asyncio.sleep(1.0)
        assert said == [b"x"] * 4
        await world.ask("STREAM.PURGE.S", {"silt_no_erase": True})
        world.settle()
        world.tables.apply_limits()
        world.tables.owner.vacuum()
        if restarted:
            await world.kill()
            world.begin()
        else:
            await asyncio.sleep(view_desk.CONSUMER_VIEW_LOOK_SECONDS + 1.0)
            assert said[4:] == [b"NATS/1.0 409 Consumer Deleted\r\n\r\n"]
        assert (await world.ask("CONSUMER.INFO.S.A"))["error"]["err_code"] == 10014
        assert (await world.ask("CONSUMER.INFO.T.B"))["num_pending"] == 4
        assert (await create(world, "A", "4"))["error"]["err_code"] == 20101

    live(tmp_path, look, horizon_seconds=0.0)
