"""The HTTP process beside a gateway: publish, follow, ask SQL and share, each by its real clients."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import nats
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.servers import ROOT, Child, gateway, http_open, nats_server, wait_until

READY = re.compile(r'^({"ready": true.*})$', re.MULTILINE)
ENDLESS = "SELECT sum(a.range * b.range) FROM range(3000000) a, range(3000000) b"


@dataclass(frozen=True, slots=True)
class World:
    """A hub, its gateway and an HTTP process over their tables."""

    url: str
    nats: str
    child: Child

    def client(self, **options: Any) -> httpx.Client:
        """A client of the HTTP process."""
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def workers(self) -> set[int]:
        """The processes that answer SQL."""
        found = set()
        for task in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = task.read_text().rpartition(")")[2].split()
                if int(fields[1]) == self.child.pid and fields[0] != "Z":
                    found.add(int(task.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Streams ORDERS, with thirty messages, and SECRET, with one."""
    folder = tmp_path_factory.mktemp("services")
    with nats_server(folder / "hub", leaf=True) as hub, gateway(hub, folder / "data"):
        asyncio.run(_fill(hub.url))
        context = folder / "context.json"
        context.write_text(json.dumps({"url": hub.url}))
        command = [sys.executable, "-m", "api.rest.serve_main", "--data", str(folder / "data"), "--http-port", "0"]
        env = {"SILT_HTTP__PUBLISH_CONTEXT_FILE": str(context), "SILT_HTTP__SQL_ROWS_MAX": "300000"}
        child = Child([*command, "--http-only"], folder / "serve.log", env)
        child.start()
        try:
            url = json.loads(child.wait_log(READY, seconds=60)[1])["url"]
            wait_until(lambda: http_open(url), what="the store is open", log=child.log)
            yield World(url, hub.url, child)
        finally:
            child.stop()


async def _fill(url: str) -> None:
    client = await nats.connect(url)
    jetstream = client.jetstream(timeout=20)
    await jetstream.add_stream(name="ORDERS", subjects=["orders.*"], max_msgs_per_subject=5)
    await jetstream.add_stream(name="SECRET", subjects=["secret.*"])
    for number in range(30):
        await jetstream.publish(f"orders.{number % 6}", f"order {number}".encode())
    await jetstream.publish("secret.1", b"hidden")
    await client.close()


def refused(answer: httpx.Response) -> tuple[int, int]:
    """Status and err_code of a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["err_code"]


def test_what_is_published_is_durable_once(world: World) -> None:
    """A PubAck for each, also for a duplicate; what is expected is demanded; a tail sees each message once."""
    with world.client() as http, ThreadPoolExecutor(1) as other:
        path = "/v1/streams/ORDERS/messages"
        last = http.get("/v1/streams/ORDERS").json()["state"]["last_seq"]
        tail = other.submit(http.get, f"{path}/tail", params={"from_seq": last + 1, "seconds": 5})
        ids = {"Nats-Msg-Id": "first"}
        first = http.post(f"{path}?subject=orders.new", content=b"one", headers={**ids, "Silt-Header-Kind": "fruit"})
        assert (first.status_code, first.json()) == (201, {"stream": "ORDERS", "seq": last + 1, "duplicate": False})
        again = http.post(f"{path}?subject=orders.new", content=b"one", headers=ids)
        assert (again.status_code, again.json()["duplicate"], again.json()["seq"]) == (200, True, last + 1)
        expected = {"Nats-Expected-Last-Subject-Sequence": str(last + 1)}
        form = {"subject": "orders.new", "text": "two", "headers": expected}
        assert http.post(path, json=form).json()["seq"] == last + 2
        assert refused(http.post(path, json=form)) == (412, 10071)
        assert refused(http.post(f"{path}?subject=orders.x", content=b"x" * 2_000_000)) == (413, 20009)
        events = [event for event in tail.result().text.split("\n\n") if event.startswith("id:")]
        bodies = [json.loads(event.partition("data: ")[2]) for event in events]
        assert [(body["seq"], body["text"]) for body in bodies] == [(last + 1, "one"), (last + 2, "two")]
        assert bodies[0]["headers"] == {"Nats-Msg-Id": ["first"], "Kind": ["fruit"], "Nats-Expected-Stream": ["ORDERS"]}


def test_the_past_is_made_use_of(world: World) -> None:
    """A branch, a rewind of it and an undelete in it, each there when it is answered; refusals as the gateway says."""
    with world.client() as http:
        made = http.post("/v1/streams/ORDERS/branch", json={"name": "THEN", "as_of": 12})
        state = {"messages": 12, "first_seq": 1, "last_seq": 12}
        assert (made.status_code, made.json()) == (201, {"stream": "THEN", "bytes": made.json()["bytes"], **state})
        first = http.get(f"{made.headers['location']}/messages/1").json()
        assert first["text"] == "order 0"
        assert refused(http.post("/v1/streams/ORDERS/branch", json={"name": "THEN"})) == (409, 10058)
        rewound = http.post("/v1/streams/THEN/rewind", json={"as_of": "10"}).json()
        assert (rewound["removed"], rewound["restored"], rewound["consumers"]) == (2, 0, [])
        back = http.post("/v1/streams/THEN/undelete", json={"as_of": 12, "seqs": ["11-12"]}).json()
        assert back == {"stream": "THEN", "restored": 2, "last_seq": 14}
        assert http.get("/v1/streams/THEN/messages/14").json()["text"] == "order 11"
        assert refused(http.post("/v1/streams/THEN/rewind", json={"as_of": 99})) == (400, 20030)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_sql_answers_in_every_format(world: World, method: str) -> None:
    """By Accept and by extension, by GET and POST: the same rows."""
    query = "SELECT subject, count(*) AS n FROM ORDERS WHERE seq <= 30 GROUP BY subject ORDER BY subject"
    rows = [{"subject": f"orders.{number}", "n": 5} for number in range(6)]

    def ask(http: httpx.Client, path: str, accept: str = "*/*") -> httpx.Response:
        headers = {"Accept": accept}
        if method == "GET":
            return http.get(path, params={"query": query}, headers=headers)
        return http.post(path, json={"query": query}, headers=headers)

    with world.client() as http:
        assert ask(http, "/v1/sql").json() == rows
        lines = ask(http, "/v1/sql.ndjson").text.splitlines()
        assert [json.loads(line) for line in lines] == rows
        assert ask(http, "/v1/sql", "text/csv").text.splitlines()[:2] == ["subject,n", "orders.0,5"]
        assert pa.ipc.open_stream(ask(http, "/v1/sql.arrow").content).read_all().to_pylist() == rows
        assert pq.read_table(pa.BufferReader(ask(http, "/v1/sql.parquet").content)).to_pylist() == rows
        assert ask(http, "/v1/sql.txt").text.endswith("(6 rows)\n")
        assert refused(ask(http, "/v1/sql", "image/png")) == (406, 20000)
        assert refused(ask(http, "/v1/sql.xlsx")) == (400, 10003)


def test_wrong_sql_is_told_in_the_engines_words(world: World) -> None:
    """400 with the reason; what must not be is refused; too many rows are an error and no short answer."""
    with world.client() as http:
        wrong = http.get("/v1/sql", params={"query": "SELECT nothing FROM ORDERS"})
        assert refused(wrong) == (400, 20013)
        assert "nothing" in wrong.json()["detail"]
        for query in ("DROP TABLE ORDERS", "SELECT * FROM read_csv('/etc/passwd')", "COPY ORDERS TO '/tmp/x'"):
            answer = http.post("/v1/sql", content=query)
            assert answer.status_code == 400, answer.text
        with_parameters = {"query": "SELECT $1::INT + $2::INT AS n", "parameters": [1, 2]}
        assert http.post("/v1/sql", json=with_parameters).json() == [{"n": 3}]
        for body in (b"", b"\xff", b"SELECT 1; SELECT 2"):
            assert http.post("/v1/sql", content=body).status_code == 400
        assert refused(http.post("/v1/sql", json={"query": "SELECT 1", "limit": 5})) == (400, 10003)
        with pytest.raises(httpx.RemoteProtocolError):
            http.get("/v1/sql.arrow", params={"query": "SELECT range FROM range(600000)"})
        whole = http.get("/v1/sql.arrow", params={"query": "SELECT range FROM range(300000)"})
        assert pa.ipc.open_stream(whole.content).read_all().num_rows == 300_000


def test_the_examples_of_the_readme_run(world: World, tmp_path: Path) -> None:
    """Each curl of README.md is answered, in the order in which one reads them."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    examples = re.findall(r"^(curl .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(examples) >= 11
    with world.client() as http:
        http.post("/v1/streams/ORDERS/messages", json={"subject": "orders.new", "text": "one apple"})
    for example in examples:
        command = example.replace("http://127.0.0.1:8222", world.url).replace("curl ", "curl --fail --silent ", 1)
        ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert ran.returncode == 0, (example, ran.stdout[-500:])
    assert pq.read_table(tmp_path / "orders.parquet").num_rows >= 30


def test_reads_are_served_while_heavy_queries_run(world: World) -> None:
    """As many endless queries as may run, and more that wait: messages are read, and killed queries leave nothing."""
    with world.client() as http, ThreadPoolExecutor(4) as others:
        heavy = [others.submit(_broken_off, world) for _ in range(4)]
        wait_until(lambda: len(world.workers()) == 2, what="two queries run")
        for seq in range(1, 31):
            assert http.get(f"/v1/streams/SECRET/messages/1?_={seq}").status_code == 400
            assert http.get("/v1/streams/SECRET/messages/1").json()["text"] == "hidden"
        assert not any(query.done() for query in heavy)
        os.kill(next(iter(world.workers())), signal.SIGKILL)
        _STOP.set()
        for query in heavy:
            query.result()
        wait_until(lambda: not world.workers(), what="the queries of clients that went away have ended")
        assert http.get("/v1/sql", params={"query": "SELECT 1 AS one"}).json() == [{"one": 1}]


_STOP = threading.Event()


def _broken_off(world: World) -> None:
    """Ask what never ends, and go away when told, or when the server says that it was broken off."""

    async def ask() -> None:
        async with httpx.AsyncClient(base_url=world.url, timeout=60) as http:
            asking = asyncio.ensure_future(http.post("/v1/sql", content=ENDLESS))
            while not asking.done() and not _STOP.is_set():  # noqa: ASYNC110  # a thread sets it
                await asyncio.sleep(0.02)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(ask())


def test_a_process_that_ends_ends_its_tails_and_queries(world: World, tmp_path: Path) -> None:
    """On SIGTERM an endless tail ends by itself, whole; no process that answered SQL stays behind."""
    command = [*world.child.command[:-2], "0", "--http-only"]
    child = Child(command, tmp_path / "serve.log")
    child.start()
    url = json.loads(child.wait_log(READY, seconds=60)[1])["url"]
    wait_until(lambda: http_open(url), what="the store is open", log=child.log)
    other = World(url, world.nats, child)
    with httpx.Client(base_url=url, timeout=30) as http, http.stream("GET", "/v1/streams/ORDERS/messages/tail") as tail:
        parts = tail.iter_text()
        assert next(parts) == "retry: 1000\n\n"
        assert httpx.get(f"{url}/v1/sql", params={"query": "SELECT 1 AS one"}, timeout=30).json() == [{"one": 1}]
        (worker,) = other.workers()
        assert child.process is not None
        child.process.send_signal(signal.SIGTERM)
        assert "".join(parts) == ""
        assert child.process.wait(timeout=30) == 0
    wait_until(lambda: not Path(f"/proc/{worker}/cmdline").exists(), what="the worker has ended")
