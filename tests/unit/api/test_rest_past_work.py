"""Branch, rewind and undelete over HTTP: what leaves for the gateway, what never does, what its answers become."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.process.nats_context import NatsContext
from api.rest import problems
from api.rest.app import create_app
from api.rest.problems import Refused, refused_request
from api.rest.publisher import Publisher
from api.rest.services import Services
from conf.clock import SystemClock
from conf.settings import HttpSettings, Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem
from tests.unit.api.test_rest_access import bearer, key_file

URL = "/v1/streams/S"
STATE = {"messages": 2, "bytes": 80, "first_seq": 1, "last_seq": 3, "num_subjects": 1}
ANSWERS = {
    "STREAM.BRANCH.S": {"config": {"name": "T"}, "state": STATE},
    "STREAM.REWIND.S": {"removed": 1, "restored": 2, "rewritten": 3, "last_seq": 9, "consumers": ["C"]},
    "STREAM.UNDELETE.S": {"restored": 2, "last_seq": 9},
}


class Recorder(Publisher):
    """A gateway that is not there: what it is asked is remembered."""

    def __init__(self, refusal: Refused | None = None) -> None:
        super().__init__(NatsContext)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self._refusal = refusal

    async def ask(self, verb: str, body: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        """Remember it; answer as the gateway would."""
        assert seconds > 60
        self.asked.append((verb, body))
        if self._refusal is not None:
            raise self._refusal
        return dict(ANSWERS[verb])


def over(
    folder: Path, publisher: Publisher | None, use: Callable[[httpx.AsyncClient], Awaitable[None]], **http: Any
) -> None:
    """Run ``use`` with a client of the API over stream S."""
    (folder / "data").mkdir()
    Tables(folder / "data").commit([History().create()])

    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(folder / "data"), threads, clock=SystemClock())
        await replica.open()
        app = create_app(replica, Settings(http=HttpSettings(**http)), Services(publisher))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            await use(client)
        threads.close()

    asyncio.run(run())


def test_each_request_becomes_one_of_the_gateways(tmp_path: Path) -> None:
    """The point as it was given, what is left out as it is by default; the answer says what there is now."""
    publisher = Recorder()

    async def use(client: httpx.AsyncClient) -> None:
        made = await client.post(f"{URL}/branch", json={"name": "T", "as_of": "15m", "config": {"subjects": ["t"]}})
        assert (made.status_code, made.headers["location"]) == (201, "/v1/streams/T")
        assert made.json() == {"stream": "T", "messages": 2, "bytes": 80, "first_seq": 1, "last_seq": 3}
        await client.post(f"{URL}/branch", json={"name": "T", "consumers": True})
        rewound = await client.post(f"{URL}/rewind", json={"as_of": 4, "force": True})
        assert rewound.json() == {
            "stream": "S", "removed": 1, "restored": 2, "rewritten": 3, "last_seq": 9, "consumers": ["C"],
        }  # fmt: skip
        back = await client.post(f"{URL}/undelete", json={"as_of": 4, "seqs": ["2"], "subject": "s.1"})
        assert (back.status_code, back.json()) == (200, {"stream": "S", "restored": 2, "last_seq": 9})
        assert publisher.asked == [
            ("STREAM.BRANCH.S", {"name": "T", "config": {"subjects": ["t"]}, "consumers": False, "silt_as_of": "15m"}),
            ("STREAM.BRANCH.S", {"name": "T", "config": {}, "consumers": True}),
            ("STREAM.REWIND.S", {"silt_as_of": 4, "force": True}),
            ("STREAM.UNDELETE.S", {"silt_as_of": 4, "seqs": ["2"], "filter": "s.1"}),
        ]

    over(tmp_path, publisher, use)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("branch", b"no json"),
        ("branch", b"[]"),
        ("branch", b"[" * 100_000),
        ("branch", b'{"as_of":1}'),
        ("branch", b'{"name":""}'),
        ("branch", b'{"name":"T","subjects":["t"]}'),
        ("branch", b'{"name":"T","consumers":"true"}'),
        ("rewind", b"{}"),
        ("rewind", b'{"as_of":true}'),
        ("undelete", b'{"as_of":1,"seqs":[2]}'),
    ],
)
def test_what_is_no_request_never_leaves(tmp_path: Path, path: str, body: bytes) -> None:
    """Unknown fields and other types are errors, as nothing of them would be heeded."""
    publisher = Recorder()

    async def use(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(f"{URL}/{path}", content=body), 400, 10003)
        check_problem(await client.post("/v1/streams/NONE/rewind", json={"as_of": 1}), 404, 10059)
        assert not publisher.asked

    over(tmp_path, publisher, use)


@pytest.mark.parametrize(
    ("code", "err_code", "status", "said"),
    [
        (400, 20030, 400, 20030),
        (500, 10052, 400, 10052),
        (400, 10058, 409, 10058),
        (400, 10065, 409, 10065),
        (404, 10059, 404, 10059),
        (410, 20101, 410, problems.PAST_HORIZON),
        (503, 10008, 503, 10008),
        (503, 10077, 507, 10077),
    ],
)
def test_the_gateways_errors_have_statuses_that_say_what_to_do(
    tmp_path: Path, code: int, err_code: int, status: int, said: int
) -> None:
    """A point beyond the horizon has the code that it has in every read."""

    async def use(client: httpx.AsyncClient) -> None:
        answer = await client.post(f"{URL}/rewind", json={"as_of": 1})
        check_problem(answer, status, said)
        assert answer.json()["detail"] == "said by the gateway"

    over(tmp_path, Recorder(refused_request(code, err_code, "said by the gateway")), use)


def test_without_a_gateway_nothing_is_done(tmp_path: Path) -> None:
    """501 where no server is known, 503 where none answers."""

    async def unknown(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(f"{URL}/rewind", json={"as_of": 1}), 501, 20010)

    over(tmp_path, None, unknown)

    async def away(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(f"{URL}/rewind", json={"as_of": 1}), 503, 20011)

    (tmp_path / "other").mkdir()
    over(tmp_path / "other", Publisher(lambda: NatsContext(url="nats://127.0.0.1:1")), away)


def test_a_key_needs_admin_for_both_streams(tmp_path: Path) -> None:
    """One that publishes makes no branches, and one that administers S makes none of another name."""
    file, keys = key_file(tmp_path, writer=["publish"], some=["admin:S*"], all=["admin"])
    publisher = Recorder()

    async def use(client: httpx.AsyncClient) -> None:
        for key, name, status in (
            ("writer", "S2", 403), ("some", "T", 403), ("some", "S2", 201), ("all", "T", 201)
        ):  # fmt: skip
            answer = await client.post(f"{URL}/branch", json={"name": name}, headers=bearer(keys[key]))
            assert answer.status_code == status, (key, name)
        assert [body["name"] for _, body in publisher.asked] == ["S2", "T"]
        assert (await client.get(URL, headers=bearer(keys["some"]))).status_code == 403

    over(tmp_path, publisher, use, api_keys_file=file)
