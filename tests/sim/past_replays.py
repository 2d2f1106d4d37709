"""Consumers of past points in the histories of :mod:`tests.sim.past_machine`, each with what it has yet to deliver."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ingest.protocol.wire_protocol import WireMessage
from tests.sim.past_model import Held, Model, Stood
from tests.sim.past_world import PastWorld

_RUNNING_MAX = 4
_HORIZON = "horizon"


@dataclass
class Replay:
    """One consumer."""

    name: str
    model: Model
    left: list[int]
    """What it would deliver, were nothing erased."""

    @property
    def expected(self) -> list[int]:
        """What it has to deliver."""
        return [seq for seq in self.left if seq not in self.model.erased]


class Replays:
    """Those that run, through all that happens meanwhile."""

    def __init__(self, world: PastWorld, dice: random.Random, counts: Counter[str], *, short: bool) -> None:
        """``short``: whether vacuum leaves nothing of the past, so that any may end."""
        self._world = world
        self._dice = dice
        self._counts = counts
        self._short = short
        self._running: list[Replay] = []
        self._born = 0

    async def begin(self, model: Model, point: str, then: Stood) -> None:
        """Create one with any deliver policy and filter."""
        if not point or len(self._running) == _RUNNING_MAX:
            return
        self._born += 1
        name = f"R{self._born}"
        seqs, config = self._chosen(model, then)
        config |= {"durable_name": name, "ack_policy": "explicit"}
        body: dict[str, Any] = {"stream_name": model.name, "config": config}
        if self._dice.random() < 0.5:
            config["metadata"] = {"silt.as_of": point}
        else:
            body["silt_as_of"] = int(point) if point.isdecimal() else point
        told = await self._world.ask(f"CONSUMER.DURABLE.CREATE.{model.name}.{name}", body)
        if "error" in told:
            assert self._short, (body, told)
            assert _HORIZON in told["error"]["description"], (body, told)
            return
        assert told["num_pending"] == len(seqs), (body, told, seqs)
        assert told["config"]["metadata"]["silt.as_of"] == point
        self._running.append(Replay(name, model, seqs))
        self._counts["replays"] += 1

    async def go_on(self, models: dict[str, Model]) -> None:
        """Have some deliver more, and compare; those that are done are deleted."""
        for one in list(self._running):
            where, there = (one.model.name, one.name), models.get(one.model.name) is one.model
            rests = there and self._dice.random() < 0.5
            if not rests and not (there and await self._goes_on(one, where)):
                self._running.remove(one)

    async def _goes_on(self, one: Replay, where: tuple[str, str]) -> bool:
        told = await self._world.ask(f"CONSUMER.INFO.{one.model.name}.{one.name}")
        if "error" in told:
            return self._may_be_over(one, told)
        assert told["num_pending"] == len(one.expected), (where, told, one.expected)
        assert told["num_ack_pending"] == 0, (where, told)
        number = self._dice.choice((1, 1, 2))
        messages, status = await self._pulled(one, number)
        if status[:3] not in (b"", b"404"):
            return self._may_be_over(one, status)
        held = one.model.held(Stood(0, tuple(one.expected[:number]), one.model.limits))
        assert [heard for heard, _ in messages] == held, (where, status)
        for place, (_, reply) in enumerate(messages):
            assert int(reply.rpartition(b".")[2]) == len(one.expected) - place - 1, (where, reply)
            assert await self._world.hub.ask(reply, b"", seconds=30.0) is not None, where
        one.left = one.expected[number:]
        self._counts["replayed"] += len(messages)
        if one.left:
            return True
        assert await self._pulled(one, 1) == ([], b"404 No Messages"), where
        assert (await self._world.ask(f"CONSUMER.DELETE.{one.model.name}.{one.name}"))["success"]
        self._counts["replays to the end"] += 1
        return False

    def _may_be_over(self, one: Replay, said: object) -> bool:
        """Note that the horizon has passed a consumer's point, if it may have."""
        assert self._short, (one.model.name, one.name, said)
        self._counts["replays past the horizon"] += 1
        return False

    def _chosen(self, model: Model, then: Stood) -> tuple[list[int], dict[str, Any]]:
        """What a consumer delivers, and the configuration that says so."""
        seqs, config = model.of(then), dict[str, Any]()
        if seqs and self._dice.random() < 0.2:
            subject = model.ever[self._dice.choice(seqs)][0]
            config["filter_subject"] = subject
            seqs = [seq for seq in seqs if model.ever[seq][0] == subject]
        policy = self._dice.choice((*["all"] * 5, "last", "new", "by_start_sequence", "last_per_subject"))
        match policy:
            case "by_start_sequence":
                first = config["opt_start_seq"] = self._dice.randrange(1, max(2, then.last))
                seqs = [seq for seq in seqs if seq >= first]
            case "last":  # without a filter it begins with the last sequence, be its message there or not
                last = max(seq for seq in model.after if seq <= then.last)  # a branch has gaps that nothing was in
                seqs = [seq for seq in seqs[-1:] if "filter_subject" in config or seq == last]
            case "new":
                seqs = []
            case "last_per_subject":
                config.setdefault("filter_subject", ">")
                seqs = sorted({model.ever[seq][0]: seq for seq in seqs}.values())
        return seqs, config | {"deliver_policy": policy}

    async def _pulled(self, one: Replay, number: int) -> tuple[list[tuple[Held, bytes]], bytes]:
        """Messages with the subjects of their acks, and the status that ended the pull."""
        hub, inbox = self._world.hub, self._world.hub.inbox()
        found: list[tuple[Held, bytes]] = []
        status: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        def take(message: WireMessage) -> None:
            if message.header.startswith(b"NATS/1.0 "):
                status.set_result(message.header[len(b"NATS/1.0 ") :].partition(b"\r")[0])
                hub.unlisten(inbox)
                return
            ack, _, subject = message.reply.partition(b"@")
            found.append(((int(ack.split(b".")[5]), subject.decode(), message.payload), ack))
            if len(found) == number:
                status.set_result(b"")
                hub.unlisten(inbox)

        hub.listen(inbox, take)
        body = b'{"batch":%d,"no_wait":true}' % number
        hub.publish(f"$JS.API.CONSUMER.MSG.NEXT.{one.model.name}.{one.name}".encode(), body, reply=inbox)
        async with asyncio.timeout(30.0):
            return found, await status
