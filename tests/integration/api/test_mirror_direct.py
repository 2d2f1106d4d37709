"""Who answers Direct Get for a mirror's origin of another domain: gateway and ``silt serve`` alike."""

import asyncio
from pathlib import Path

from nats.aio.client import Client

from tests.domains import WAIT, api, direct, reaches, two_domains, until, use
from tests.servers import silt_serve

ORIGIN = {"name": "ORIGIN", "external": {"api": "$JS.hub.API", "deliver": ""}}
ASKED = 12
"""Direct Gets of one kind: each responder of a queue group gets some of them."""


async def _mirrors(connection: Client) -> None:
    """A mirror that answers for its origin and one that does not, both caught up."""
    config = {"name": "ORIGIN", "subjects": ["origin"]}
    await api(connection, "hub", "STREAM.CREATE.ORIGIN", config)
    for number in range(1, 6):
        await connection.request("origin", f"m{number}".encode(), timeout=10)
    for name, answers in (("ANSWERS", True), ("SILENT", False)):
        config = {"name": name, "mirror": ORIGIN, "mirror_direct": answers, "allow_direct": True}
        await api(connection, "silt", f"STREAM.CREATE.{name}", config)
        await reaches(connection, "silt", name, 5)


async def _answering(connection: Client, name: str) -> set[str]:
    """The streams that answer for a name, empty for a request that none answers."""
    found = [await direct(connection, name) for _ in range(ASKED)]
    return {one[1]["Nats-Stream"] if one is not None else "" for one in found}


async def _answers_until(connection: Client, name: str, wanted: set[str]) -> None:
    """Wait until exactly these answer for a name: a reader follows within its interval."""
    async with asyncio.timeout(WAIT):
        while True:
            if await _answering(connection, name) == wanted:
                return
            await asyncio.sleep(0.05)


async def _promote(connection: Client) -> None:
    config = {"name": "ANSWERS", "subjects": ["answers"], "mirror_direct": True, "allow_direct": True}
    await api(connection, "silt", "STREAM.UPDATE.ANSWERS", config)
    await until(connection, "silt", "ANSWERS", lambda info: "mirror" not in info)


def test_a_mirror_answers_for_its_origin_in_each_process_until_it_is_promoted(tmp_path: Path) -> None:
    """That it has caught up is durable: also a process that has heard nothing of the origin answers."""
    with two_domains(tmp_path / "domains") as domains:
        hub = domains.hub
        use(hub, _mirrors)
        use(hub, lambda connection: _answers_until(connection, "ORIGIN", {"ANSWERS"}))
        assert hub.leaf_url is not None
        where = ["--nats", hub.url, "--leaf", hub.leaf_url, "--domain", "silt"]
        with silt_serve(tmp_path / "domains" / "data", *where):
            use(hub, lambda connection: _answers_until(connection, "ORIGIN", {"ANSWERS"}))
            domains.other.kill()
            for name, answers in (("ORIGIN", "ANSWERS"), ("ANSWERS", "ANSWERS"), ("SILENT", "SILENT")):
                found = use(hub, lambda connection, name=name: _answering(connection, name), domains=("hub",))
                assert found == {answers}
            domains.other.start()
            use(hub, _promote)
            use(hub, lambda connection: _answers_until(connection, "ORIGIN", {""}))
            use(hub, lambda connection: _answers_until(connection, "ANSWERS", {"ANSWERS"}))
            domains.other.kill()
            assert use(hub, lambda connection: _answering(connection, "ORIGIN"), domains=("hub",)) == {""}
            domains.other.start()
        assert use(hub, lambda connection: _answering(connection, "ORIGIN")) == {""}


def test_a_gateway_started_anew_answers_at_once(tmp_path: Path) -> None:
    """Before it has heard of the origin, which is away."""
    with two_domains(tmp_path / "domains") as domains:
        use(domains.hub, _mirrors)
        use(domains.hub, lambda connection: _answers_until(connection, "ORIGIN", {"ANSWERS"}))
        domains.other.kill()
        use(domains.hub, lambda connection: api(connection, "hub", "STREAM.DELETE.ORIGIN"), domains=("hub",))
        domains.other.start()
        assert use(domains.hub, lambda connection: _answering(connection, "ORIGIN")) == {"ANSWERS"}
