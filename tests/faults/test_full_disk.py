"""A disk without space: what is durable is read and delivered as ever, what needs a commit is refused at once."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.servers import Gateway, gateway, nats_server

API = "$JS.API"
NO_SPACE = 10047
_AT_ONCE = 1.0
"""Seconds within which an answer counts as given at once."""
_TRIES = 100
_BODY = bytes(60_000)
_DURABLE = {"durable_name": "c", "ack_policy": "explicit", "deliver_policy": "all"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "data"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def ask(connection: Client, subject: str, body: Any = None, *, seconds: float = _AT_ONCE) -> dict[str, Any]:
    """One request whose answer is JSON; ``NatsTimeout`` when there is none in time."""
    payload = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await connection.request(subject, payload, timeout=seconds)).data)
    return answer


def code(answer: dict[str, Any]) -> int:
    """The error code of an answer, 0 for none."""
    return int(answer.get("error", {}).get("err_code", 0))


class FullDisk:
    """Streams and consumers on a disk that another process fills up."""

    def __init__(self, connection: Client, ballast: Path) -> None:
        self.connection = connection
        self.ballast = ballast
        self.acknowledged: list[int] = []

    async def prepare(self) -> None:
        """A plain stream and a work queue, each with a consumer."""
        for name, more in (("S", {}), ("W", {"retention": "workqueue"}), ("OLD", {"max_age": 6_000_000_000})):
            config = {"name": name, "subjects": [name.lower()], "allow_direct": True, **more}
            assert not code(await ask(self.connection, f"{API}.STREAM.CREATE.{name}", config, seconds=5))
        for name in "SW":
            request = {"stream_name": name, "config": _DURABLE}
            assert not code(await ask(self.connection, f"{API}.CONSUMER.CREATE.{name}.c", request, seconds=5))
        for _ in range(5):
            await ask(self.connection, "w", b"task", seconds=5)
        await ask(self.connection, "old", b"kept until there is space", seconds=5)

    async def fill(self) -> None:
        """Publish until the disk is full, which every publisher is told, and take the last bytes away."""
        self.ballast.write_bytes(bytes(8 << 20))
        refused = 0
        for _ in range(400):
            answer = await ask(self.connection, "s", _BODY)
            if code(answer):
                refused = code(answer)
                break
            self.acknowledged.append(answer["seq"])
        assert refused == NO_SPACE
        with suppress(OSError), self.ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    async def reads(self) -> None:
        """All that is durable is answered at once."""
        connection = self.connection
        for seq in self.acknowledged:
            request = json.dumps({"seq": seq}).encode()
            assert (await connection.request(f"{API}.DIRECT.GET.S", request, timeout=_AT_ONCE)).data == _BODY
        last = await connection.request(f"{API}.DIRECT.GET.S.s", b"", timeout=_AT_ONCE)
        assert (last.headers or {})["Nats-Sequence"] == str(self.acknowledged[-1])
        state = (await ask(connection, f"{API}.STREAM.INFO.S"))["state"]
        assert (state["messages"], state["last_seq"]) == (len(self.acknowledged), self.acknowledged[-1])
        assert (await ask(connection, f"{API}.STREAM.NAMES"))["streams"] == ["OLD", "S", "W"]
        assert not code(await ask(connection, f"{API}.STREAM.MSG.GET.S", {"seq": 1}))
        assert "c" in (await ask(connection, f"{API}.CONSUMER.NAMES.S"))["consumers"]
        kept = await connection.request(f"{API}.DIRECT.GET.OLD", b'{"seq":1}', timeout=_AT_ONCE)
        assert kept.data == b"kept until there is space", "what has not been recorded as expired must not vanish"

    async def changes(self) -> None:
        """Whatever needs a commit is refused at once, and changes nothing."""
        config = {"name": "T", "subjects": ["t"]}
        known = {"name": "S", "subjects": ["s"], "allow_direct": True}
        refused = {
            "s": b"one more",
            f"{API}.STREAM.CREATE.T": config,
            f"{API}.STREAM.UPDATE.S": known | {"max_msgs": 1},
            f"{API}.STREAM.PURGE.S": {},
            f"{API}.STREAM.MSG.DELETE.S": {"seq": 1},
            f"{API}.STREAM.DELETE.S": None,
            f"{API}.CONSUMER.CREATE.S.d": {"stream_name": "S", "config": {"durable_name": "d"}},
            f"{API}.CONSUMER.PAUSE.S.c": {"pause_until": "2100-01-01T00:00:00Z"},
            f"{API}.CONSUMER.RESET.S.c": {"seq": 1},
            f"{API}.CONSUMER.DELETE.S.c": None,
        }
        for subject, body in refused.items():
            assert code(await ask(self.connection, subject, body)) == NO_SPACE, subject
        assert not code(await ask(self.connection, f"{API}.STREAM.CREATE.S", known)), "the stream is there already"

    async def consume(self) -> list[Msg]:
        """Durable messages go on being delivered; returns them, not acked."""
        got = []
        for name in "SW":
            for _ in range(2):
                message = await self.pull(f"{name}.c")
                assert message.reply.startswith(f"$JS.ACK.{name}.c.1."), "a message, delivered for the first time"
                got.append(message)
        request = {"stream_name": "S", "config": {"ack_policy": "none", "mem_storage": True}}
        ordered = await ask(self.connection, f"{API}.CONSUMER.CREATE.S", request)
        assert (await self.pull(f"S.{ordered['name']}")).data == _BODY
        return got

    async def pull(self, consumer: str) -> Msg:
        """The next message of a consumer; it comes under its own subject."""
        inbox = self.connection.new_inbox()
        subscription = await self.connection.subscribe(inbox)
        await self.connection.publish(f"{API}.CONSUMER.MSG.NEXT.{consumer}", b"", reply=inbox)
        return await subscription.next_msg(_AT_ONCE)

    async def acks_wait(self, messages: list[Msg]) -> None:
        """A double ack is answered when it is on the disk, and a task stays until then."""
        answers: list[Msg] = []

        async def ack(message: Msg) -> None:
            answers.append(await self.connection.request(message.reply, b"+ACK", timeout=30))

        async with asyncio.TaskGroup() as tasks:
            for one in messages:
                tasks.create_task(ack(one))
            await asyncio.sleep(0.5)
            assert not answers
            assert (await ask(self.connection, f"{API}.STREAM.INFO.W"))["state"]["messages"] == 5
            await self.reads()
            self.ballast.unlink()
        assert len(answers) == len(messages)

    async def goes_on(self) -> None:
        """There is space again: all is served, without anybody's help."""
        for _ in range(_TRIES):
            answer = await ask(self.connection, "s", b"space again")
            if not code(answer):
                break
            await asyncio.sleep(0.1)
        assert answer["seq"] == self.acknowledged[-1] + 1
        assert (await ask(self.connection, f"{API}.STREAM.INFO.W"))["state"]["messages"] == 3
        assert (await ask(self.connection, f"{API}.CONSUMER.INFO.S.c"))["num_ack_pending"] == 0
        assert not code(await ask(self.connection, f"{API}.STREAM.CREATE.T", {"name": "T", "subjects": ["t"]}))
        for _ in range(_TRIES):
            if not (await ask(self.connection, f"{API}.STREAM.INFO.OLD"))["state"]["messages"]:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("what is too old stays")


async def _full_disk(running: Gateway, ballast: Path) -> None:
    async with await nats.connect(running.hub.url) as connection:
        disk = FullDisk(connection, ballast)
        await disk.prepare()
        await disk.fill()
        await asyncio.sleep(1.5)
        await disk.reads()
        await disk.changes()
        await disk.reads()
        running.child.kill()
        running.start()
        await disk.reads()
        await disk.changes()
        await disk.acks_wait(await disk.consume())
        await disk.goes_on()


def test_a_full_disk_refuses_changes_and_serves_the_rest(small_disk: Path, tmp_path: Path) -> None:
    """Reads and deliveries go on, changes get 10047, acks wait; also after a kill; and all goes on with space."""
    with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, small_disk) as running:
        asyncio.run(_full_disk(running, small_disk / "ballast"))
