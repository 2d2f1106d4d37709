"""Cuts over HTTP: listed from the tables, taken and forgotten by the gateway."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from api.process.nats_context import NatsContext
from api.rest.app import create_app
from api.rest.problems import refused_request
from api.rest.publisher import Publisher
from api.rest.services import Services
from conf.clock import SystemClock
from conf.settings import Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from delta_store.values.cut_record import CUTS, cut_data
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem


class Gateway(Publisher):
    """A gateway that is not there, in which there is the cut old already."""

    def __init__(self) -> None:
        super().__init__(NatsContext)
        self.asked: list[str] = []

    async def ask(self, verb: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Remember it; answer as the gateway would."""
        assert (body, seconds) == ({}, 10)
        self.asked.append(verb)
        if verb == "CUT.CREATE.old":
            raise refused_request(400, 20103, "taken")
        if verb == "CUT.DELETE.none":
            raise refused_request(404, 20102, "none")
        return {"name": verb.rpartition(".")[2], "time": "2026-01-31T12:00:00Z", "streams": 3}


def test_cuts_over_http(tmp_path: Path) -> None:
    """What the gateway is asked, and what its answers become; names that can be none are not asked for."""
    points, tables, gateway = History(CUTS), Tables(tmp_path), Gateway()
    tables.commit([points.create(subjects=()), *(points.publish(name, cut_data({})) for name in ("old", "b-2"))])

    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(tmp_path), threads, clock=SystemClock())
        await replica.open()
        for publisher in (gateway, None):
            app = create_app(replica, Settings(), Services(publisher))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                listed = (await client.get("/v1/cuts")).json()["cuts"]
                assert [one["name"] for one in listed] == ["old", "b-2"]
                if publisher is None:
                    check_problem(await client.put("/v1/cuts/new"), 501, 20010)
                    continue
                made = await client.put("/v1/cuts/new")
                assert (made.status_code, made.json()) == (201, {"name": "new", "time": "2026-01-31T12:00:00Z"})
                assert (await client.delete("/v1/cuts/new")).status_code == 204
                check_problem(await client.put("/v1/cuts/old"), 409, 20103)
                check_problem(await client.delete("/v1/cuts/none"), 404, 20102)
                check_problem(await client.put("/v1/cuts/a.b"), 400, 10003)
        threads.close()

    asyncio.run(run())
    assert gateway.asked == ["CUT.CREATE.new", "CUT.DELETE.new", "CUT.CREATE.old", "CUT.DELETE.none"]
