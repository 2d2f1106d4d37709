"""Mirrors and sources between Silt and a nats-server of another domain, both ways, while either side is killed."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from tests.domains import Domains, api, two_domains, until, use
from tests.tools import nats_server_of

PUBLISHERS = 50
PAGE = 500
WAIT = 300.0
ORIGINS = {"hub": "silt", "silt": "hub"}
"""The domain of a stream, and that of its copies."""


@dataclass(slots=True)
class Count:
    """How many messages are acknowledged."""

    acknowledged: int = 0


class Stored(NamedTuple):
    """One message of a stream, as Direct Get has it."""

    seq: int
    subject: str
    time: str
    payload: bytes
    source: str
    """What its header tells of its origin, without that stream's identity."""


@pytest.mark.parametrize(
    ("count", "kills"),
    [(1_000, 1), pytest.param(100_000, 3, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
    ids=["few", "many"],
)
def test_copies_both_ways_while_either_side_is_killed(tmp_path: Path, count: int, kills: int) -> None:
    """Sequence for sequence the mirrors are their origins, and the sources have each message once, in order."""
    with two_domains(tmp_path / "domains") as domains:
        use(domains.hub, lambda connection: _flow(connection, domains, count, kills))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.10.26", "2.11.11", "2.12.8", "2.14.6"])
def test_copies_from_and_to_an_older_server(tmp_path: Path, version: str) -> None:
    """The same with a nats-server of another version, which may know neither sourcing consumers nor identities."""
    with two_domains(tmp_path / "domains", binary=nats_server_of(version)) as domains:
        use(domains.hub, lambda connection: _flow(connection, domains, 1_000, 2))


async def _flow(connection: Client, domains: Domains, count: int, kills: int) -> None:
    for domain, there in ORIGINS.items():
        config = {"subjects": [f"{domain}.>"], "allow_direct": True}
        await api(connection, domain, f"STREAM.CREATE.O_{domain}", {"name": f"O_{domain}", **config})
        origin = {"name": f"O_{domain}", "external": {"api": f"$JS.{domain}.API", "deliver": ""}}
        for name, copied in ((f"M_{domain}", {"mirror": origin}), (f"S_{domain}", {"sources": [origin]})):
            await api(connection, there, f"STREAM.CREATE.{name}", {"name": name, "allow_direct": True, **copied})
    numbers = {domain: iter(range(count)) for domain in ORIGINS}
    done = Count()
    async with asyncio.TaskGroup() as tasks:
        for domain in ORIGINS:
            for _ in range(PUBLISHERS):
                tasks.create_task(_publish(connection, domain, numbers[domain], done))
        tasks.create_task(
            _kill(domains, done, [2 * count * (kill + 1) // (2 * kills + 1) for kill in range(2 * kills)])
        )
    for domain, there in ORIGINS.items():
        origin = await _all(connection, domain, f"O_{domain}", count)
        assert {one.payload for one in origin} == {b"%d" % number for number in range(count)}
        assert await _all(connection, there, f"M_{domain}", count) == origin
        source = await _all(connection, there, f"S_{domain}", count)
        assert [(one.subject, one.payload) for one in source] == [(one.subject, one.payload) for one in origin]
        assert [one.source.split(" ")[1] for one in source] == [str(one.seq) for one in origin]


async def _publish(connection: Client, domain: str, numbers: Iterator[int], count: Count) -> None:
    """Publish one number after the other, each until it is acknowledged; duplicates are found by their id."""
    for number in numbers:
        while True:
            with suppress(NatsError, TimeoutError):
                reply = await connection.request(
                    f"{domain}.{number % 7}", b"%d" % number, timeout=3, headers={"Nats-Msg-Id": f"{domain} {number}"}
                )
                if "error" not in json.loads(reply.data):
                    break
            await asyncio.sleep(0.05)
        count.acknowledged += 1


async def _kill(domains: Domains, count: Count, at: list[int]) -> None:
    """Kill each side in turn when so many messages are acknowledged, and start it again."""
    for number, place in enumerate(at):
        while count.acknowledged < place:  # noqa: ASYNC110  # what is awaited is other processes' doing
            await asyncio.sleep(0.005)
        child = (domains.hub.child, domains.other)[number % 2]
        await asyncio.to_thread(child.kill)
        child.start()


async def _all(connection: Client, domain: str, name: str, count: int) -> list[Stored]:
    """All messages of a stream, once it has so many."""
    await until(connection, domain, name, lambda info: info["state"]["messages"] >= count, seconds=WAIT)
    found: list[Stored] = []
    while len(found) < count:
        found += await _page(connection, domain, name, found[-1].seq + 1 if found else 1)
    return found


async def _page(connection: Client, domain: str, name: str, seq: int) -> list[Stored]:
    """The next messages from a sequence on."""
    inbox = connection.new_inbox()
    listening = await connection.subscribe(inbox)
    await connection.publish(
        f"$JS.{domain}.API.DIRECT.GET.{name}", json.dumps({"seq": seq, "batch": PAGE}).encode(), inbox
    )
    found = []
    async for message in listening.messages:
        header = message.headers or {}
        if not message.data:
            break
        source = header.get("Nats-Stream-Source", "")
        found.append(
            Stored(
                int(header["Nats-Sequence"]),
                header["Nats-Subject"],
                header["Nats-Time-Stamp"],
                message.data,
                source.rpartition(" ")[0],
            )
        )
        if "Nats-Num-Pending" not in header:  # a server before 2.11 knows no batches
            break
    await listening.unsubscribe()
    assert found
    return found
