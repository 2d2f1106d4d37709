"""``silt import`` and ``silt cutover``: from nats-server's JetStream, as a client of either sees it."""

import asyncio
import base64
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from typer.testing import CliRunner

from api.cli.verbs import command_line
from api.moving import origin
from tests.integration.clients.test_nats_cli_backup import seen
from tests.moving_load import Ledger, Movers, connected, make_buckets
from tests.servers import answers_api, nats_server, silt_server, wait_until
from tests.tools import nats_server_of
from tests.waits import until
from tests.wire import Wire

STREAMS = ("KV_HISTORY", "KV_PLAIN", "OBJ_FILES", "ORDERS")


def silt(*arguments: str) -> tuple[int, str]:
    """Status and output of a command, in this process."""
    ran = CliRunner().invoke(command_line(arguments[0]), arguments)
    return ran.exit_code, ran.output


def imported(pair: tuple[str, str], *arguments: str) -> list[dict[str, Any]]:
    """What an import that succeeds prints."""
    status, text = silt("import", "--from", pair[0], "--server", pair[1], "--output", "ndjson", *arguments)
    assert status == 0, text
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def use(url: str, script: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run a client's steps."""

    async def main() -> Any:
        connection = await nats.connect(url)
        try:
            return await script(connection)
        finally:
            await connection.close()

    return asyncio.run(main())


async def fill(connection: Client) -> None:
    """A stream with gaps and consumers in different places, and three kinds of buckets."""
    js = connection.jetstream()
    orders = {"name": "ORDERS", "subjects": ["orders.>"], "allow_direct": True, "max_msgs_per_subject": 30}
    await connection.request("$JS.API.STREAM.CREATE.ORDERS", json.dumps(orders).encode())
    for number in range(200):
        headers = {"Nats-Msg-Id": str(number), "Key": f" {number}"} if number % 3 else None
        await js.publish(f"orders.{number % 7}", b"%d" % number * (number % 5), headers=headers)
    for seq in (8, 9, 150, 200):
        await js.delete_msg("ORDERS", seq)
    for name, ack in (("work", "explicit"), ("all", "all"), ("none", "none")):
        config = {"durable_name": name, "ack_policy": ack, "ack_wait": 300_000_000_000, "metadata": {"of": name}}
        body = json.dumps({"stream_name": "ORDERS", "config": config}).encode()
        await connection.request(f"$JS.API.CONSUMER.CREATE.ORDERS.{name}", body)
        reader = await js.pull_subscribe_bind(name, "ORDERS")
        for place, message in enumerate(await reader.fetch(20)):
            if ack == "explicit" and place not in (5, 11, 19):
                await message.ack_sync()
    plain, history, files = await make_buckets(js, puts=40, keys=(9, 3))
    await plain.delete("k1")
    await history.purge("k2")
    await files.put("large", bytes(range(256)) * 1500)
    await files.put("small", b"x")
    await files.put("gone", b"y" * 1000)
    await files.delete("gone")


async def read_buckets(connection: Client) -> None:
    """All that the buckets have, read as clients do; writes go on where they were."""
    js = connection.jetstream()
    plain, history = await js.key_value("PLAIN"), await js.key_value("HISTORY")
    assert (await plain.get("k0")).value == b"v36"
    assert sorted(await plain.keys()) == [f"k{number}" for number in (0, 2, 3, 4, 5, 6, 7, 8)]
    assert [entry.value for entry in await history.history("k0")] == [b"v27", b"v30", b"v33", b"v36", b"v39"]
    assert [entry.operation for entry in await history.history("k2")] == ["PURGE"]
    assert await plain.put("k0", b"new") == 42
    files = await js.object_store("FILES")
    assert (await files.get("large")).data == bytes(range(256)) * 1500
    assert [one.name for one in await files.list() if not one.deleted] == ["large", "small"]
    work = await js.pull_subscribe_bind("work", "ORDERS")
    assert [message.data for message in await work.fetch(1)] == [b"22" * 2]


def test_streams_and_buckets_come_whole(pair: tuple[str, str]) -> None:
    """Messages, times, headers, gaps, configuration and consumers are the origin's; the same command finds it so."""
    use(pair[0], fill)
    found = imported(pair, "--all")
    assert [(one["stream"], one["outcome"], one["behind"]) for one in found] == [(n, "imported", 0) for n in STREAMS]
    for name in STREAMS:
        assert asyncio.run(seen(pair[1], name)) == asyncio.run(seen(pair[0], name))
    assert {one["outcome"] for one in imported(pair, *STREAMS)} == {"there"}
    use(pair[1], read_buckets)


def same_messages(pair: tuple[str, str]) -> None:
    """Each stream has the same messages, gaps and bounds at both."""
    for name in STREAMS:
        here, there = (asyncio.run(seen(url, name)) for url in pair)
        assert here["messages"] == there["messages"]
        bounds = ("messages", "first_seq", "last_seq", "num_subjects", "deleted")
        assert {key: here["state"].get(key) for key in bounds} == {key: there["state"].get(key) for key in bounds}
        assert [one["name"] for one in here["consumers"]] == [one["name"] for one in there["consumers"]]


def test_servers_without_such_backups_are_read_by_message(
    pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that waits for acks goes on behind its ack floor, others where they were."""
    use(pair[0], fill)
    monkeypatch.setattr(origin, "ARCHIVE_LEVEL", 99)
    assert {one["outcome"] for one in imported(pair, *STREAMS)} == {"imported"}
    same_messages(pair)
    here, there = (asyncio.run(seen(url, "ORDERS"))["places"] for url in pair)
    assert here["none"]["delivered"] == there["none"]["delivered"]
    assert here["work"]["ack_floor"] == there["work"]["ack_floor"] == there["work"]["delivered"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.10.26", "2.12.8", "2.14.6"])
def test_older_servers_are_read(version: str, tmp_path: Path) -> None:
    """Each by what it has."""
    binary = nats_server_of(version)
    with nats_server(tmp_path / "old", jetstream=True, binary=binary) as old, silt_server(tmp_path / "silt") as silt:
        wait_until(lambda: answers_api(old.url), what="the older JetStream answers")
        pair = old.url, silt.hub.url
        use(pair[0], fill)
        assert {one["outcome"] for one in imported(pair, "--all")} == {"imported"}
        same_messages(pair)


async def _two_orders(url: str, second: bytes) -> None:
    async with Wire.open(url) as wire:
        await wire.ask("$JS.API.STREAM.CREATE.ORDERS", b'{"name":"ORDERS","subjects":["orders.>"]}')
        await wire.ask("orders.1", b"one")
        await wire.ask("orders.2", second)


async def _others(url: str) -> None:
    async with Wire.open(url) as wire:
        await wire.ask("$JS.API.STREAM.CREATE.OTHER", b'{"name":"OTHER"}')
        await wire.ask("$JS.API.STREAM.CREATE.QUEUE", b'{"name":"QUEUE","retention":"workqueue"}')


def test_what_can_not_be_done_is_said(pair: tuple[str, str]) -> None:
    """Each failure has its exit code and says what to do."""
    asyncio.run(_two_orders(pair[0], b"two"))
    asyncio.run(_two_orders(pair[1], b"other"))
    asyncio.run(_others(pair[0]))
    for status, words, arguments in (
        (2, "--all", ("--from", pair[0])),
        (2, "--from", ("ORDERS",)),
        (2, "--from-context", ("--from", "nats://a:b@127.0.0.1:1", "ORDERS")),
        (4, "127.0.0.1:1", ("--from", "nats://127.0.0.1:1", "ORDERS")),
        (1, "--domain", ("--from", pair[0], "--domain", "none", "ORDERS")),
        (1, "there is no stream 'NONE'", ("--from", pair[0], "NONE")),
        (1, "2 different (the first is 1)", ("--from", pair[0], "ORDERS")),
        (1, "give --follow", ("--from", pair[0], "OTHER", "--as-mirror")),
        (1, "work queue", ("--from", pair[0], "QUEUE", "--follow")),
        (1, "stands for itself", ("--from", pair[0], "ORDERS", "--follow")),
    ):
        ended, text = silt("import", *arguments, "--server", pair[1])
        assert (ended, words in text) == (status, True), text
    ended, text = silt("cutover", "ORDERS", "--from", pair[0], "--server", pair[1])
    assert (ended, "is no mirror" in text) == (1, True), text


def test_a_consumer_is_put_where_a_backup_has_it(pair: tuple[str, str]) -> None:
    """``CONSUMER.RESTORE`` makes a consumer, or moves one; what is no consumer is refused, and changes nothing."""

    async def script() -> None:
        async with Wire.open(pair[1]) as wire:

            async def put(body: object) -> dict[str, Any]:
                reply = await wire.ask("$JS.API.CONSUMER.RESTORE.S.c", json.dumps(body).encode())
                assert reply is not None
                told: dict[str, Any] = json.loads(reply.payload)
                return told

            await wire.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
            for number in range(1, 9):
                await wire.ask("s.x", b"%d" % number)
            for delivered in (5, 3):
                place = {"consumer_seq": delivered, "stream_seq": delivered}
                floor = {"consumer_seq": delivered - 1, "stream_seq": delivered - 1}
                pending = {str(delivered): {"Sequence": delivered, "Timestamp": 1}}
                state = {"delivered": place, "ack_floor": floor, "pending": pending}
                told = await put({"config": {"durable_name": "c", "ack_policy": "explicit"}, "state": state})
                assert (told["num_ack_pending"], told["num_pending"]) == (1, 8 - delivered), told
            for wrong in ({"config": {}}, {"config": {}, "state": {"ack_floor": {"consumer_seq": 9}}}):
                assert (await put(wrong))["error"]["err_code"] == 10062
            reply = await wire.ask("$JS.API.CONSUMER.INFO.S.c", b"")
            assert reply is not None
            assert json.loads(reply.payload)["delivered"]["stream_seq"] == 3

    asyncio.run(script())


async def _cut_over(pair: tuple[str, str]) -> tuple[Ledger, dict[str, Any]]:
    """Follow a stream through a relay, and cut it over while a publisher and a worker are busy."""
    connections = await connected(pair)
    movers = Movers(connections)
    js = connections[0].jetstream()
    await js.add_stream(name="BUSY", subjects=["busy.>"])
    await js.add_consumer("BUSY", durable_name="w", ack_policy="explicit")
    for number in range(300):
        await js.publish("busy.before", b"before-%d" % number)
    await js.delete_msg("BUSY", 7)
    arguments = ["import", "BUSY", "--follow", "--from", pair[0], "--server", pair[1]]
    follower = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "api.cli.main",
        *arguments,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert follower.stderr is not None
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(movers.publisher("BUSY", "busy.now", pause=0.002))
            tasks.create_task(movers.worker("BUSY", "w"))
            async with asyncio.timeout(60):
                while b"up to date" not in (line := await follower.stderr.readline()):
                    assert line, "silt import ended"
            await js.purge_stream("BUSY", seq=100)
            await js.delete_msg("BUSY", 150)
            status, text = await asyncio.to_thread(
                silt, "cutover", "BUSY", "--from", pair[0], "--server", pair[1], "--output", "ndjson"
            )
            assert status == 0, text
            ledger = movers.ledgers["BUSY"]
            await until(lambda: "w" in ledger.moved, seconds=60)
            movers.stopping.set()
        async with asyncio.timeout(30):
            rest = await follower.stderr.read()
        assert b"stands for itself" in rest, rest
        assert await follower.wait() == 0
    finally:
        if follower.returncode is None:
            follower.kill()
        for connection in connections:
            await connection.close()
    return ledger, json.loads(next(line for line in text.splitlines() if line.startswith("{")))


def test_a_stream_is_cut_over_under_load(pair: tuple[str, str]) -> None:
    """No publish is lost or stored twice, no message worked off twice; the origin keeps its messages, and is still."""
    ledger, told = asyncio.run(_cut_over(pair))
    assert ledger.moved
    assert told["removed"] == 99  # all below 100 but for the one that never came, and one more
    here, there = (asyncio.run(seen(url, "BUSY")) for url in pair)
    stored = [one["data"] for one in there["messages"] if "data" in one]
    payloads = [base64.b64decode(one).decode() for one in stored]
    assert len(payloads) == len(set(payloads))
    assert {name for name in payloads if not name.startswith("before")} == set(ledger.published)
    last = here["state"]["last_seq"]
    assert here["messages"] == there["messages"][:last]
    assert set(ledger.done.values()) == {1}
    assert set(payloads) <= set(ledger.done)
    assert here["config"]["subjects"] == ["silt.cutover.BUSY"]
    assert there["config"]["subjects"] == ["busy.>"]
    assert "silt.cutover" not in there["config"]["metadata"]
