"""The live tail: what is committed arrives, once and in order, and goes on where a client was."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.rest.app import create_app
from api.rest.services import Services
from conf.clock import SystemClock
from conf.settings import Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from delta_store.values.records import Kind
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem

HEADERS = b"NATS/1.0\r\nKind: x\r\n\r\n"
Use = Callable[["Scene"], Awaitable[None]]


class Scene:
    """A stream of three messages that grows, and clients of its tail."""

    def __init__(self, folder: Path) -> None:
        self.history, self.tables = History(), Tables(folder)
        self.tables.commit([self.history.create(), *(self.history.publish(f"s.{number}") for number in range(3))])
        self.replica = Replica(str(folder), ReadThreads(2, timeout_seconds=20), clock=SystemClock())
        self.services = Services()
        self.app = create_app(self.replica, Settings(), self.services)

    async def publish(self, *subjects: str, headers: bytes | None = None) -> None:
        """Commit messages, which the replica then follows."""
        self.tables.commit([self.history.publish(subject, headers=headers) for subject in subjects])
        await self.replica.refresh()

    def client(self) -> httpx.AsyncClient:
        """A client of the API."""
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost")

    async def tail(self, query: str = "", **headers: str) -> tuple[list[int], str]:
        """The sequences of all events until the tail ends, and its text."""
        async with self.client() as client:
            answer = await client.get(f"/v1/streams/S/messages/tail{query}", headers=headers)
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
        events = [
            dict(line.split(": ", 1) for line in event.splitlines()) for event in answer.text.split("\n\n") if event
        ]
        messages = [event for event in events if "id" in event]
        seqs = [json.loads(event["data"])["seq"] for event in messages]
        assert [event["id"] for event in messages] == [f"{seq}-{self.history.stream_id}" for seq in seqs]
        return seqs, answer.text


def over(folder: Path, use: Use) -> None:
    """Run ``use`` with the scene; the tail reads and waits as in a process."""

    async def run() -> None:
        scene = Scene(folder)
        await scene.replica.open()
        async with asyncio.timeout(30):
            await use(scene)
        scene.replica.threads.close()

    asyncio.run(run())


async def soon(condition: Callable[[], Any]) -> None:
    """Wait until it holds; the test's own timeout is the bound."""
    while not condition():  # noqa: ASYNC110  # nothing tells of it
        await asyncio.sleep(0.005)


def test_a_tail_goes_on_from_any_place(tmp_path: Path) -> None:
    """From a sequence, behind the last event that a client has, filtered; without a start only what is new."""

    async def use(scene: Scene) -> None:
        await scene.publish("s.1", headers=HEADERS)
        assert (await scene.tail("?from_seq=1&seconds=0.05"))[0] == [1, 2, 3, 4]
        assert (await scene.tail("?from_seq=2&subject=s.1&seconds=0.05"))[0] == [2, 4]
        assert (await scene.tail("?from_seq=1&header=Kind:x&seconds=0.05"))[0] == [4]
        assert (await scene.tail("?from_seq=1&seconds=0.05", **{"Last-Event-ID": "2"}))[0] == [3, 4]
        assert (await scene.tail("?seconds=0.05"))[0] == []
        here = scene.history.stream_id
        for place, left in ((f"2-{here}", [3, 4]), (f"4-{here}", []), (f"2-{here - 1}", [1, 2, 3, 4])):
            assert (await scene.tail("?seconds=0.05", **{"Last-Event-ID": place}))[0] == left
        async with scene.client() as client:
            for wrong in ("?from_seq=1&from_time=2026-01-01T00:00:00Z", "?subject=a..b", "?seconds=0", "?header=:"):
                check_problem(await client.get(f"/v1/streams/S/messages/tail{wrong}"), 400, 10003)
            for wrong in ("x", "2-", "2-x", "-2", "1" * 20, str(2**63)):
                place = {"Last-Event-ID": wrong}
                check_problem(await client.get("/v1/streams/S/messages/tail", headers=place), 400, 10003)
            check_problem(await client.get("/v1/streams/S/messages/tail", headers={"Accept": "text/csv"}), 406, 20000)
            check_problem(await client.get("/v1/streams/NONE/messages/tail"), 404, 10059)

    over(tmp_path, use)


def test_what_is_committed_arrives_until_the_process_ends(tmp_path: Path) -> None:
    """Each message once, in order, to each client; the end of the process ends all tails by themselves."""

    async def use(scene: Scene) -> None:
        async with asyncio.TaskGroup() as tasks:
            tails = [tasks.create_task(scene.tail("?from_seq=2")) for _ in range(3)]
            for number in range(20):
                await scene.publish(f"s.{number % 4}", f"s.{number % 3}")
                await asyncio.sleep(0)
            await soon(lambda: len(scene.replica._applied._waiters) == len(tails))
            scene.services.stopping.set()
        for tail in tails:
            assert tail.result()[0] == list(range(2, 44))

    over(tmp_path, use)


def test_silence_is_broken_and_deletion_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then while nothing comes, and an event when the stream is deleted, also if it is made anew."""
    monkeypatch.setattr("api.rest.tail.TAIL_HEARTBEAT_SECONDS", 0.01)

    async def use(scene: Scene) -> None:
        async with asyncio.TaskGroup() as tasks:
            tail = tasks.create_task(scene.tail())
            await soon(lambda: scene.replica._applied._waiters)
            await asyncio.sleep(0.1)
            scene.history.event_no += 1
            deleted = scene.history._event(Kind.STREAM_DELETE, b"")
            scene.tables.commit([deleted])
            await scene.replica.refresh()
        seqs, text = tail.result()
        assert seqs == []
        assert ": nothing new" in text
        assert text.endswith("event: deleted\ndata: {}\n\n")

    over(tmp_path, use)


def test_tails_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than a process serves is told to come again, and a place is free when a tail is over."""
    monkeypatch.setattr("api.rest.tail.HTTP_TAILS_MAX", 1)

    async def use(scene: Scene) -> None:
        async with scene.client() as client, asyncio.TaskGroup() as tasks:
            first = tasks.create_task(scene.tail())
            await soon(lambda: scene.replica._applied._waiters)
            check_problem(await client.get("/v1/streams/S/messages/tail"), 503, 20004)
            first.cancel()
            await asyncio.wait([first])
            assert (await scene.tail("?from_seq=3&seconds=0.05"))[0] == [3]

    over(tmp_path, use)
