"""``silt cut`` and reads as of a cut, by every verb that takes a point, of a gateway that is killed in between."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from typer.testing import CliRunner

from api.cli.app import app
from tests.servers import Gateway, silt_server


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A Silt with two streams that go on behind the cut ``then``."""
    with silt_server(tmp_path_factory.mktemp("cut")) as gateway:
        asyncio.run(_publish(gateway.hub.url, ["KV_STOCK.apples", "orders.1"], create=True))
        assert silt(gateway.hub.url, "cut", "then", "-o", "json")[0] == 0
        asyncio.run(_publish(gateway.hub.url, ["KV_STOCK.apples", "orders.2"]))
        yield gateway


async def _publish(url: str, subjects: list[str], *, create: bool = False) -> None:
    client = await nats.connect(url)
    js = client.jetstream()
    if create:
        for name, taken in (("KV_STOCK", "$KV.STOCK.>"), ("ORDERS", "orders.*")):
            config = {"name": name, "subjects": [taken], "max_msgs_per_subject": 1, "allow_direct": True}
            await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode(), timeout=10)
    for subject in subjects:
        await js.publish(subject.replace("KV_STOCK", "$KV.STOCK"), subject.encode())
    await client.close()


def silt(url: str, *arguments: str) -> tuple[int, bytes, str]:
    """Status, output and error output of a command, in this process."""
    done = CliRunner().invoke(app, [*arguments, "--server", url])
    return done.exit_code, done.stdout_bytes, done.stderr


def test_cuts_are_listed_and_forgotten(running: Gateway) -> None:
    """A name is taken once, its verb may be written or not, and what is no name is refused."""
    url = running.hub.url
    assert silt(url, "cut", "take", "ls")[0] == 0
    code, _, said = silt(url, "cut", "then")
    assert (code, "there is a cut 'then' already" in said) == (1, True)
    listed = [json.loads(line)["name"] for line in silt(url, "cut", "ls", "-o", "ndjson")[1].splitlines()]
    assert listed == ["then", "ls"]
    assert silt(url, "cut", "rm", "ls")[0] == 0
    code, _, said = silt(url, "cut", "rm", "ls")
    assert (code, "silt cut ls lists" in said) == (1, True)
    assert silt(url, "cut", "a.b")[0] == silt(url, "cut", "rm", "*")[0] == 2


def test_every_verb_takes_a_cut(running: Gateway) -> None:
    """Both streams stand as they stood together, also after the gateway was killed."""
    running.child.kill()
    running.start()
    url, point = running.hub.url, ("--as-of", "cut:then")
    info = json.loads(silt(url, "stream", "info", "ORDERS", *point, "-o", "json")[1])
    assert (info["state"]["messages"], info["state"]["last_seq"]) == (1, 1)
    assert silt(url, "stream", "dump", "ORDERS", *point)[1].count(b"\n") == 1
    assert silt(url, "stream", "get", "KV_STOCK", "1", *point, "--raw")[:2] == (0, b"KV_STOCK.apples")
    assert silt(url, "kv", "get", "STOCK", "apples", *point)[:2] == (0, b"KV_STOCK.apples")
    assert json.loads(silt(url, "kv", "ls", "STOCK", *point, "-o", "ndjson")[1])["revision"] == 1
    changed = json.loads(silt(url, "stream", "diff", "ORDERS", "cut:then", "-o", "ndjson")[1])
    assert (changed["subject"], changed["change"]) == ("orders.2", "added")
    branch = json.loads(silt(url, "stream", "branch", "ORDERS@cut:then", "THEN", "-o", "json")[1])
    assert (branch["state"]["messages"], branch["state"]["last_seq"]) == (1, 1)
    undone = silt(url, "stream", "undelete", "KV_STOCK", "--from", "cut:then", "--subject", ">", "-o", "json")[1]
    assert json.loads(undone)["restored"] == 1
    rewound = json.loads(silt(url, "stream", "rewind", "ORDERS", "--to", "cut:then", "-o", "json")[1])
    assert rewound["removed"] == 1
    assert silt(url, "stream", "info", "THEN", *point)[0] == 5


def test_a_cut_that_nobody_took(running: Gateway, tmp_path: Path) -> None:
    """Says so, and where the cuts are listed."""
    url, point = running.hub.url, ("--as-of", "cut:none")
    for verb in (
        ("stream", "info", "ORDERS", *point),
        ("stream", "get", "ORDERS", "1", *point),
        ("stream", "diff", "ORDERS", "cut:none"),
        ("stream", "backup", "ORDERS", str(tmp_path / "none"), *point),
        ("stream", "rewind", "ORDERS", "--to", "cut:none"),
        ("stream", "branch", "ORDERS@cut:none", "NONE"),
    ):
        code, _, said = silt(url, *verb)
        assert (code, "there is no cut 'none': silt cut ls lists" in said) == (1, True), (verb, said)
    code, _, said = silt(url, "stream", "dump", "ORDERS", *point)
    assert (code, "No Such Cut" in said) == (1, True)
