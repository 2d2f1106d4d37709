"""The gateway on hubs of other people: no API over the leaf, a JetStream of their own."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from delta_store.storage.store_lock import LOCK_FILE
from tests.domains import hub_with_jetstream
from tests.servers import Child, NatsServer, gateway, gateway_command, nats_server, nats_server_binary, silt_server

Script = Callable[[Client], Awaitable[None]]


def use(url: str, script: Script) -> None:
    """Run a client's steps."""

    async def main() -> None:
        connection = await nats.connect(url, allow_reconnect=False)
        try:
            await script(connection)
        finally:
            await connection.close()

    asyncio.run(main())


async def api(connection: Client, subject: str, body: Any = None) -> dict[str, Any]:
    """One request of the JetStream API."""
    payload = b"" if body is None else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads((await connection.request(subject, payload, timeout=5)).data)
    return answer


def test_a_hub_that_keeps_the_api_from_leafs(tmp_path: Path) -> None:
    """Over the client link: API, Direct Get, subjects of key-value buckets, and all of it again after a restart."""

    async def fill(connection: Client) -> None:
        await api(connection, "$JS.API.STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "allow_direct": True})
        await api(connection, "$JS.API.STREAM.CREATE.K", {"name": "K", "subjects": ["$KV.b.>"], "allow_direct": True})
        assert await api(connection, "o.1", "one") == {"stream": "O", "seq": 1}
        assert await api(connection, "$KV.b.key", "value") == {"stream": "K", "seq": 1}

    async def read(connection: Client) -> None:
        direct = await connection.request("$JS.API.DIRECT.GET.K.$KV.b.key", b"", timeout=5)
        assert direct.data == b'"value"'
        assert (await api(connection, "$JS.API.STREAM.NAMES"))["streams"] == ["K", "O"]
        await api(connection, "$JS.API.STREAM.DELETE.K")
        with pytest.raises((NoRespondersError, NatsTimeout)):
            await connection.request("$KV.b.key", b"gone", timeout=1)
        assert await api(connection, "o.2", "two") == {"stream": "O", "seq": 2}

    with silt_server(tmp_path, api_over="client") as running:
        use(running.hub.url, fill)
        running.child.stop()
        running.start()
        use(running.hub.url, read)


def test_a_domain_beside_a_jetstream_that_is_there_already(tmp_path: Path) -> None:
    """Each serves its own streams; acknowledgements of Silt carry its domain, keys are put through its API subjects."""

    async def both(connection: Client) -> None:
        async with asyncio.timeout(30):
            while True:
                try:
                    info = await api(connection, "$JS.silt.API.INFO")
                    break
                except (NoRespondersError, NatsTimeout):
                    await asyncio.sleep(0.05)
        assert info["domain"] == "silt"
        await api(connection, "$JS.hub.API.STREAM.CREATE.THEIRS", {"name": "THEIRS", "subjects": ["theirs"]})
        await api(connection, "$JS.silt.API.STREAM.CREATE.OURS", {"name": "OURS", "subjects": ["ours"]})
        await api(
            connection,
            "$JS.silt.API.STREAM.CREATE.KV_b",
            {"name": "KV_b", "subjects": ["$KV.b.>"], "allow_direct": True},
        )
        assert await api(connection, "theirs", 1) == {"stream": "THEIRS", "domain": "hub", "seq": 1}
        assert await api(connection, "ours", 1) == {"stream": "OURS", "domain": "silt", "seq": 1}
        put = await api(connection, "$JS.silt.API.$KV.b.key", "value")
        assert put == {"stream": "KV_b", "domain": "silt", "seq": 1}
        got = await connection.request("$JS.silt.API.DIRECT.GET.KV_b.$KV.b.key", b"", timeout=5)
        assert got.data == b'"value"'
        assert (await api(connection, "$JS.API.STREAM.NAMES"))["streams"] == ["THEIRS"]

    with hub_with_jetstream(tmp_path / "hub") as hub:
        data = tmp_path / "data"
        child = Child([*gateway_command(hub, data, api_over="client"), "--domain", "silt"], tmp_path / "gateway.log")
        child.start()
        try:
            use(hub.url, both)
        finally:
            child.stop()


@contextmanager
def two_hubs(folder: Path) -> Iterator[NatsServer]:
    """A cluster of two: clients and the client link at the one, the leaf link at the other."""
    folder.mkdir(parents=True)
    with nats_server(folder / "ports", leaf=True) as free, nats_server(folder / "more", leaf=True) as more:
        urls = (free.url, free.leaf_url, more.url, more.leaf_url)
        port, leaf_port, route, other = (str(url).rpartition(":")[2] for url in urls)
    configs = (
        f"listen: 127.0.0.1:{port}\ncluster {{ name: c, listen: 127.0.0.1:{route} }}\n",
        (
            f"listen: 127.0.0.1:{other}\nleafnodes {{ listen: 127.0.0.1:{leaf_port} }}\n"
            f'cluster {{ name: c, listen: "127.0.0.1:-1", routes: ["nats://127.0.0.1:{route}"] }}\n'
        ),
    )
    children = []
    for number, text in enumerate(configs):
        config = folder / f"hub{number}.conf"
        config.write_text(text)
        children.append(Child([str(nats_server_binary()), "-c", str(config)], folder / f"hub{number}.log"))
        children[-1].start()
    try:
        yield NatsServer(children[0], f"nats://127.0.0.1:{port}", f"nats://127.0.0.1:{leaf_port}")
    finally:
        for child in children:
            child.stop()


def test_links_to_two_servers_of_a_cluster(tmp_path: Path) -> None:
    """Each pull finds its listener although the subscription comes by another server than the request."""

    async def pull(connection: Client) -> None:
        await api(connection, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        consumer = {"stream_name": "S", "config": {"name": "C", "ack_policy": "none"}}
        await api(connection, "$JS.API.CONSUMER.CREATE.S.C", consumer)
        for number in range(1, 101):
            await connection.publish("s", b"%d" % number)
            inbox = await connection.subscribe(connection.new_inbox())
            await connection.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", reply=inbox.subject)
            assert (await inbox.next_msg(5)).data == b"%d" % number
            await inbox.unsubscribe()

    with two_hubs(tmp_path / "hubs") as hub, gateway(hub, tmp_path / "data", api_over="client"):
        use(hub.url, pull)


def test_a_second_gateway_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    """It says who holds the folder and leaves the first one alone."""
    with silt_server(tmp_path) as running:
        command = gateway_command(running.hub, running.data)
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 3
        assert f"in use by process {running.child.pid}" in second.stderr
        assert running.child.alive()


def test_a_gateway_that_another_one_took_over_from_ends_with_its_own_status(tmp_path: Path) -> None:
    """Status 3 and a sentence, once it notices; what it was asked meanwhile is not acknowledged."""

    async def ask(connection: Client) -> None:
        with pytest.raises((NoRespondersError, NatsTimeout)):
            await api(connection, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})

    with silt_server(tmp_path) as first, nats_server(tmp_path / "other", leaf=True) as other:
        (first.data / LOCK_FILE).unlink()
        with gateway(other, first.data):
            use(first.hub.url, ask)
            assert first.child.process is not None
            assert first.child.process.wait(timeout=30) == 3
    assert "another process owns the table by epoch 2, this one has epoch 1" in first.child.log.read_text()


def test_messages_that_left_memory_are_read_from_the_journal(tmp_path: Path) -> None:
    """With no cache at all each message still is what was published: one by one, read on, and in a batch."""

    async def script(connection: Client) -> None:
        await api(connection, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.*"], "allow_direct": True})
        for number in range(1, 301):
            assert (await api(connection, f"s.{number % 7}", number))["seq"] == number
        for seq in (250, 3, 4, 5, 6, 299):
            got = await connection.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": seq}).encode(), timeout=5)
            assert (got.data, (got.headers or {})["Nats-Subject"]) == (b"%d" % seq, f"s.{seq % 7}")
        inbox = connection.new_inbox()
        answers = await connection.subscribe(inbox)
        request = json.dumps({"seq": 1, "next_by_subj": "s.3", "batch": 1000}).encode()
        await connection.publish("$JS.API.DIRECT.GET.S", request, reply=inbox)
        expected = [number for number in range(1, 301) if number % 7 == 3]
        assert [int((await answers.next_msg(5)).data) for _ in expected] == expected
        assert ((await answers.next_msg(5)).headers or {})["Description"] == "EOB"

    environment = {"SILT_READS__CACHE_BYTES_MAX": "0"}
    with nats_server(tmp_path / "hub", leaf=True) as hub, gateway(hub, tmp_path / "data", env=environment):
        use(hub.url, script)
