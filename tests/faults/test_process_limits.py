"""Too few descriptors, too little memory, a disk that takes its time: refused or late, never wrong."""

import asyncio
import json
import random
import resource
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.kill_gateway import create_stream
from tests.faults.publishers import PREFIX, STREAM, Publishers, unexpected_refusals
from tests.faults.readings import by_direct_get
from tests.faults.reckoning import everything_wrong
from tests.servers import Child, Gateway, gateway, gateway_command, nats_server
from tests.wire import Reply, Wire

API = "$JS.API"
_SLOW_FSYNC_US = 50_000
_MEMORY_BYTES = 48 << 20
_MESSAGES = 150
_REFUSED_MAX = 10
_LARGE = 400_000


def _limit(running: Gateway, kind: int, soft: int | None) -> None:
    """Set a soft limit of the gateway, or with None take it away."""
    _, hard = resource.prlimit(running.child.pid, kind)
    resource.prlimit(running.child.pid, kind, (hard if soft is None else soft, hard))


def _descriptors(running: Gateway) -> int:
    return sum(1 for _ in Path(f"/proc/{running.child.pid}/fd").iterdir())


def _memory_bytes(running: Gateway) -> int:
    return int(Path(f"/proc/{running.child.pid}/statm").read_text().split()[0]) * resource.getpagesize()


def _code(reply: Reply | None) -> int:
    """The error code of an answer, 0 for none; there must be an answer."""
    assert reply is not None, "no answer"
    return int(json.loads(reply.payload).get("error", {}).get("err_code", 0))


async def _without_descriptors(running: Gateway) -> None:
    async with Wire.open(running.hub.url) as wire:
        await create_stream(wire)
        other = json.dumps({"name": "OTHER", "subjects": ["other"], "allow_direct": True}).encode()
        assert not _code(await wire.ask(f"{API}.STREAM.CREATE.OTHER", other))
        assert not _code(await wire.ask("other", b"durable"))
        _limit(running, resource.RLIMIT_NOFILE, _descriptors(running) - 2)
        held = wire.send(f"{PREFIX}.1", b"decided, and not committed")
        asked = wire.send(f"{API}.STREAM.INFO.{STREAM}")
        assert await wire.receive(held, seconds=0.5) is None
        assert await wire.receive(asked, seconds=0.2) is None, "what is not durable was shown"
        info = await wire.ask(f"{API}.STREAM.INFO.OTHER", seconds=2)
        assert info is not None
        assert json.loads(info.payload)["state"]["messages"] == 1
        direct = await wire.ask(f"{API}.DIRECT.GET.OTHER", b'{"seq":1}', seconds=2)
        assert direct is not None
        assert direct.payload == b"durable"
        for subject, body in (("other", b"x"), (f"{PREFIX}.2", b"x"), (f"{API}.STREAM.DELETE.OTHER", b"")):
            assert _code(await wire.ask(subject, body, seconds=2)) == 10047, subject
        _limit(running, resource.RLIMIT_NOFILE, None)
        acknowledged = await wire.receive(held, seconds=10)
        assert acknowledged is not None
        assert json.loads(acknowledged.payload)["seq"] == 1
        shown = await wire.receive(asked, seconds=10)
        assert shown is not None
        assert json.loads(shown.payload)["state"]["messages"] == 1
        assert not _code(await wire.ask("other", b"again"))


def test_no_descriptor_left(tmp_path: Path) -> None:
    """What has been decided waits unseen, other streams are read, changes are refused, and all goes on by itself."""
    with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, tmp_path / "data") as running:
        asyncio.run(_without_descriptors(running))


async def _without_memory(running: Gateway) -> int:
    acknowledged: dict[int, bytes] = {}
    refused = 0
    async with Wire.open(running.hub.url) as wire:
        await create_stream(wire)
        _limit(running, resource.RLIMIT_AS, _memory_bytes(running) + _MEMORY_BYTES)
        for number in range(_MESSAGES):
            payload = b"%d " % number + bytes(_LARGE)
            reply = await wire.ask(f"{PREFIX}.1", payload, seconds=1)
            if reply is None or reply.status:
                refused += 1
                if refused > _REFUSED_MAX or not running.child.alive():
                    break
                continue
            answer = json.loads(reply.payload)
            if "error" not in answer:
                acknowledged[answer["seq"]] = payload
        running.child.kill()
        await asyncio.to_thread(running.start)
        for seq, payload in acknowledged.items():
            direct = await wire.ask(f"{API}.DIRECT.GET.{STREAM}", json.dumps({"seq": seq}).encode(), seconds=10)
            assert direct is not None
            assert direct.payload == payload, f"message {seq} is not what was acknowledged"
        assert not _code(await wire.ask(f"{PREFIX}.1", b"goes on", seconds=10))
    return len(acknowledged)


@pytest.mark.slow
def test_no_memory_left(tmp_path: Path) -> None:
    """A gateway that can't get memory answers nothing wrong, and what it acknowledged is there after a restart."""
    with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, tmp_path / "data") as running:
        assert asyncio.run(_without_memory(running)) > 0


_BREAKS = """
import sys
from api.gateway import gateway, gateway_main

whole = gateway.Gateway.receive


def receive(self, run):
    whole(self, run)
    if any(b"too much" in message.payload for message in run):
        raise MemoryError


gateway.Gateway.receive = receive
sys.exit(gateway_main.main())
"""


async def _amid_a_decision(running: Gateway) -> None:
    async with Wire.open(running.hub.url) as wire:
        await create_stream(wire)
        assert not _code(await wire.ask(f"{PREFIX}.1", b"fits"))
        asked = wire.send(f"{PREFIX}.1", b"too much")
        assert running.child.process is not None
        assert await asyncio.to_thread(running.child.process.wait, 10) == 1
        assert await wire.receive(asked, seconds=0.2) is None
        await asyncio.to_thread(running.start)
        reply = await wire.ask(f"{PREFIX}.1", b"fits again")
        assert reply is not None
        assert json.loads(reply.payload)["seq"] == 2


def test_memory_that_ends_amid_a_decision_ends_the_gateway(tmp_path: Path) -> None:
    """What memory shows may differ from the rows then: it ends at once, answers nothing, and starts from the tables."""
    with nats_server(tmp_path / "hub", leaf=True) as hub:
        data = tmp_path / "data"
        command = [sys.executable, "-c", _BREAKS, *gateway_command(hub, data)[3:]]
        running = Gateway(hub, data, Child(command, tmp_path / "gateway.log"))
        running.start()
        try:
            asyncio.run(_amid_a_decision(running))
        finally:
            running.child.stop()


async def _on_a_slow_disk(hub_url: str) -> tuple[Publishers, list[str]]:
    async with Wire.open(hub_url) as wire, asyncio.timeout(200):
        await create_stream(wire)
        publishers = Publishers(wire, workers=64, rng=random.Random(14))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publishers.run())
            await asyncio.sleep(8)
            publishers.stop()
        return publishers, everything_wrong(publishers.history, await by_direct_get(wire, STREAM))


@pytest.mark.slow
def test_a_disk_that_takes_its_time(tmp_path: Path) -> None:
    """Every fsync takes 50 ms more: groups grow, everybody is answered, and nothing is lost."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    slowed = f"--inject=fsync:delay_enter={_SLOW_FSYNC_US}"
    prefix = ("strace", "--follow-forks", "--quiet=all", "--trace=fsync", slowed, "--output=/dev/null", "--daemonize")
    with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, tmp_path / "data", prefix=prefix):
        publishers, wrong = asyncio.run(_on_a_slow_disk(hub.url))
    assert wrong == []
    assert unexpected_refusals(publishers.history.refused) == []
    assert len(publishers.history.acked) > 500, "a group took in no more than a lone publisher's message"
