"""Publishing over HTTP: what leaves for NATS, what never does, and what the server's answers become."""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.process.nats_context import NatsContext
from api.rest.app import create_app
from api.rest.problems import Refused, refused_publish
from api.rest.publisher import Publisher, checked_subject, headers_of_request, message_headers
from api.rest.services import Services
from conf.clock import SystemClock
from conf.settings import Settings
from delta_store.reading.read_threads import ReadThreads
from delta_store.stores.replica import Replica
from tests.tables import History, Tables
from tests.unit.api.test_rest import check_problem

URL = "/v1/streams/S/messages"
Sent = tuple[str, bytes, Mapping[str, str]]


class Recorder(Publisher):
    """A publisher without a connection, which remembers what it is given."""

    def __init__(self, answer: Mapping[str, Any] | Refused | None = None) -> None:
        super().__init__(NatsContext)
        self.sent: list[Sent] = []
        self.answer = answer if answer is not None else {"stream": "S", "seq": 7}

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """Remember it; answer as the server would."""
        self.sent.append((subject, payload, headers))
        if isinstance(self.answer, Refused):
            raise self.answer
        return dict(self.answer)


def over(folder: Path, publisher: Publisher | None, use: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run ``use`` with a client of the API over stream S, which takes ``s.>``."""
    history, tables = History(), Tables(folder)
    tables.commit([history.create()])

    async def run() -> None:
        threads = ReadThreads(1, timeout_seconds=20)
        replica = Replica(str(folder), threads, clock=SystemClock())
        await replica.open()
        transport = httpx.ASGITransport(create_app(replica, Settings(), Services(publisher)))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await use(client)
        threads.close()

    asyncio.run(run())


def test_a_message_leaves_as_it_was_given(tmp_path: Path) -> None:
    """A payload of any type with headers, or a form in JSON; each demands its stream."""
    publisher = Recorder()

    async def use(client: httpx.AsyncClient) -> None:
        headers = {"nats-msg-id": "a b", "Silt-Header-Kind": "x", "NATS-TTL": "1h", "X-Other": "y"}
        for payload, kind in ((b"\xff\x00", "application/octet-stream"), (b'{"n":1}', "application/json")):
            answer = await client.post(f"{URL}?subject=s.1", content=payload, headers={**headers, "Content-Type": kind})
            assert (answer.status_code, answer.json()) == (201, {"stream": "S", "seq": 7, "duplicate": False})
            assert answer.headers["location"] == f"{URL}/7"
            expected = {"Nats-Msg-Id": "a b", "Kind": "x", "Nats-TTL": "1h", "Nats-Expected-Stream": "S"}
            assert publisher.sent.pop() == ("s.1", payload, expected)
        form = {"subject": "s.2", "text": "grün", "headers": {"kInd": "é"}}
        await client.post(URL, json=form)
        assert publisher.sent.pop() == ("s.2", "grün".encode(), {"kInd": "é", "Nats-Expected-Stream": "S"})
        await client.post(URL, json={"subject": "s.2", "data": b64encode(b"\xff").decode()})
        assert publisher.sent.pop()[1] == b"\xff"
        await client.post(URL, json={"subject": "s.2"})
        assert publisher.sent.pop()[1] == b""
        publisher.answer = {"stream": "S", "seq": 7, "duplicate": True}
        assert (await client.post(URL, json=form)).status_code == 200

    over(tmp_path, publisher, use)


@pytest.mark.parametrize(
    ("query", "body", "headers"),
    [
        ("?subject=other.1", b"", {}),
        ("?subject=s.*", b"", {}),
        ("?subject=s..1", b"", {}),
        ("?subject=$JS.API.STREAM.DELETE.S", b"", {}),
        ("", b"no json", {}),
        ("", b"[]", {}),
        ("", b'{"subject":"s.1","data":"?"}', {}),
        ("", b'{"subject":"s.1","data":"","text":""}', {}),
        ("", b'{"subject":"s.1","payload":"x"}', {}),
        ("", b'{"subject":"s.1","headers":{"A":"x\\r\\nNats-Rollup: all"}}', {}),
        ("", b'{"subject":"s.1","headers":{"A: x":"y"}}', {}),
        ("?subject=s.1", b"", {"Nats-Batch-Id": "1"}),
        ("?subject=s.1&topic=s.1", b"", {}),
    ],
)
def test_what_is_no_message_of_the_stream_never_leaves(
    tmp_path: Path, query: str, body: bytes, headers: dict[str, str]
) -> None:
    """A subject of another stream or of a service, a form with mistakes, headers that would smuggle others."""
    publisher = Recorder()

    async def use(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(URL + query, content=body, headers=headers), 400, 10003)
        assert not publisher.sent

    over(tmp_path, publisher, use)


def test_a_stream_that_takes_everything_does_not_take_services() -> None:
    """No key for a stream asks the JetStream API, whatever the stream's subjects are."""
    for subject in ("$JS.API.STREAM.DELETE.S", "$SYS.REQ.SERVER.PING", "_INBOX.x"):
        with pytest.raises(Refused):
            checked_subject(subject, (">",))
    assert checked_subject("$KV.B.k", ("$KV.B.>",)) == "$KV.B.k"
    with pytest.raises(Refused):
        checked_subject("s.1", ())


def test_another_stream_can_not_be_demanded() -> None:
    """The header that a client may give is checked here, too."""
    assert message_headers({"Nats-Expected-Stream": "S"}, "S") == {"Nats-Expected-Stream": "S"}
    with pytest.raises(Refused) as refused:
        message_headers({"Nats-Expected-Stream": "T"}, "S")
    assert (refused.value.status, refused.value.err_code) == (412, 10060)


def test_names_of_headers_get_their_capitals_back() -> None:
    """HTTP does not keep them, NATS asks for them."""
    given = ["nats-expected-last-subject-sequence", "nats-ttl", "nats-schedule-ttl", "silt-header-trace-id", "accept"]
    assert list(headers_of_request(dict.fromkeys(given, "1"))) == [
        "Nats-Expected-Last-Subject-Sequence",
        "Nats-TTL",
        "Nats-Schedule-TTL",
        "Trace-Id",
    ]


@pytest.mark.parametrize(
    ("code", "err_code", "status"),
    [
        (400, 10071, 412),
        (400, 10164, 412),
        (400, 10070, 412),
        (400, 10060, 412),
        (500, 10047, 507),
        (503, 10077, 507),
        (400, 10054, 413),
        (429, 10167, 429),
        (503, 10008, 503),
        (400, 10003, 400),
        (408, 1, 500),
    ],
)
def test_the_servers_errors_have_statuses_that_say_what_to_do(
    tmp_path: Path, code: int, err_code: int, status: int
) -> None:
    """The err_code stays; the status is HTTP's own word for it."""
    publisher = Recorder(refused_publish({"code": code, "err_code": err_code, "description": "said by the server"}))

    async def use(client: httpx.AsyncClient) -> None:
        answer = await client.post(URL, json={"subject": "s.1"})
        check_problem(answer, status, err_code)
        assert answer.json()["detail"] == "said by the server"

    over(tmp_path, publisher, use)


def test_without_nats_nothing_is_published(tmp_path: Path) -> None:
    """501 where no server is known, 503 where none answers, 413 for what no server would take."""

    async def unknown(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(URL, json={"subject": "s.1"}), 501, 20010)
        check_problem(await client.post("/v1/streams/NONE/messages", json={"subject": "s.1"}), 501, 20010)

    over(tmp_path, None, unknown)

    async def away(client: httpx.AsyncClient) -> None:
        check_problem(await client.post(URL, json={"subject": "s.1"}), 503, 20011)
        check_problem(await client.post("/v1/streams/NONE/messages", json={"subject": "s.1"}), 404, 10059)

    other = tmp_path / "other"
    other.mkdir()
    over(other, Publisher(lambda: NatsContext(url="nats://127.0.0.1:1")), away)
