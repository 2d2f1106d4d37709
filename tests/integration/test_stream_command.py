"""``silt stream`` and ``silt object`` on what unmodified clients stored: now, and as it was."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.servers import silt_server

NO_PAST = {"silt.history": "0"}
SILT = str(Path(sys.executable).with_name("silt"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Silt with a stream that keeps one message of a subject, and an object that was replaced."""
    with silt_server(tmp_path_factory.mktemp("stream")) as silt:
        asyncio.run(_fill(silt.hub.url))
        yield silt.hub.url


async def _ask(client: Client, endpoint: str, body: Any) -> dict[str, Any]:
    reply = await client.request(f"$JS.API.{endpoint}", json.dumps(body).encode(), timeout=10)
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


async def _fill(url: str) -> None:
    client = await nats.connect(url)
    js = client.jetstream()
    config = {"name": "ORDERS", "subjects": ["orders.*"], "max_msgs_per_subject": 1, "allow_direct": True}
    await _ask(client, "STREAM.CREATE.ORDERS", config)
    for number in range(6):
        await js.publish(f"orders.{number % 2}", b"%d" % number)
    await _ask(client, "STREAM.UPDATE.ORDERS", config | {"description": "later"})
    await js.publish("orders.2", b"\xff")
    await _ask(client, "STREAM.PURGE.ORDERS", {"filter": "orders.0", "silt_no_erase": True})
    await _ask(client, "STREAM.PURGE.ORDERS", {"filter": "orders.1"})
    await _ask(client, "STREAM.CREATE.BRIEF", config | {"name": "BRIEF", "subjects": ["b"], "metadata": NO_PAST})
    for _ in range(2):
        await js.publish("b", b"")
    bucket = {
        "name": "OBJ_FILES",
        "subjects": ["$O.FILES.C.>", "$O.FILES.M.>"],
        "discard": "new",
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "metadata": {"silt.purge": "keep"},
    }
    await _ask(client, "STREAM.CREATE.OBJ_FILES", bucket)
    files = await js.object_store("FILES")
    await files.put("a/b.txt", b"first" * 50_000)
    await files.put("a/b.txt", b"second")
    await client.close()


def silt(url: str, *arguments: str) -> tuple[int, bytes, str]:
    """Status, output and error output of a command."""
    done = subprocess.run([SILT, *arguments, "--server", url], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def test_streams_then(url: str) -> None:
    """State and configuration of then; a stream from before its creation is not found."""
    then = json.loads(silt(url, "stream", "info", "ORDERS", "--as-of", "6", "-o", "json", "--subjects", ">")[1])
    assert "description" not in then["config"]
    assert then["state"]["subjects"] == {"orders.0": 1}
    now = json.loads(silt(url, "stream", "info", "ORDERS", "-o", "json")[1])
    assert (now["config"]["description"], now["state"]["messages"]) == ("later", 1)
    assert silt(url, "stream", "info", "ORDERS", "--as-of", "1d")[0] == 5
    assert silt(url, "stream", "ls", "--as-of", "1d", "-o", "ndjson")[:2] == (0, b"")
    listed = silt(url, "stream", "ls", "--as-of", "6", "-o", "ndjson")[1].decode().splitlines()
    assert {json.loads(line)["name"] for line in listed} == {"ORDERS", "BRIEF", "OBJ_FILES"}
    assert silt(url, "stream", "info", "ORDERS", "--as-of", "soon")[0] == 2


def test_messages_then(url: str) -> None:
    """What a limit or a purge that keeps the past removed is there; what a purge erased is not, at no point."""
    dumped = silt(url, "stream", "dump", "ORDERS", "--as-of", "7")[1].decode().splitlines()
    assert [json.loads(line)["seq"] for line in dumped] == [5, 7]
    dumped = silt(url, "stream", "dump", "ORDERS", "--as-of", "3", "--subject", "orders.0")[1].decode().splitlines()
    assert [json.loads(line)["data"] for line in dumped] == ["2"]
    assert silt(url, "stream", "dump", "ORDERS", "-o", "csv")[1].count(b"\n") == 2
    assert silt(url, "stream", "get", "ORDERS", "5", "--as-of", "7", "--raw")[:2] == (0, b"4")
    assert silt(url, "stream", "get", "ORDERS", "5")[0] == 5
    assert silt(url, "stream", "get", "ORDERS", "6", "--as-of", "7")[0] == 5
    last = silt(url, "stream", "get", "ORDERS", "--last-for", "orders.0", "--as-of", "2", "-o", "json")[1]
    assert json.loads(last)["seq"] == 1
    assert silt(url, "stream", "get", "ORDERS")[0] == 2
    assert silt(url, "stream", "get", "NONE", "1")[0] == 5


def test_changes_and_versions(url: str) -> None:
    """What changed between two points, and what versions settled."""
    changed = silt(url, "stream", "diff", "ORDERS", "3", "7", "-o", "ndjson")[1].decode().splitlines()
    assert [tuple(json.loads(line).values()) for line in changed] == [
        ("orders.0", "changed", 3, 5),
        ("orders.1", "removed", 2, 0),
        ("orders.2", "added", 0, 7),
    ]
    now = silt(url, "stream", "diff", "ORDERS", "7", "--subject", "orders.0", "-o", "ndjson")[1]
    assert json.loads(now)["change"] == "removed"
    assert silt(url, "stream", "versions", "ORDERS", "-o", "json")[:2] == (0, b"[]\n")
    assert silt(url, "stream", "diff", "NONE", "1")[0] == 5


def test_a_stream_says_how_long_its_past_is_kept(url: str) -> None:
    """The command shows it; a point beyond it is an error that names the oldest, however it is asked for."""
    code, out, _ = silt(url, "stream", "history", "BRIEF", "-o", "json")
    told = json.loads(out)
    assert (code, told["own"], told["history"], told["oldest_seq"]) == (0, True, 0, 2)
    code, out, _ = silt(url, "stream", "history", "ORDERS")
    assert (code, b"168h0m0s" in out) == (0, True)
    oldest = "the oldest that can be read is sequence 2, or the time 20"
    for verb in ("info", "get", "dump"):
        code, _, said = silt(url, "stream", verb, "BRIEF", *(["1"] if verb == "get" else []), "--as-of", "1")
        assert (code != 0, oldest in said) == (True, True), said
    code, _, said = silt(url, "stream", "rewind", "BRIEF", "--to", "1")
    assert (code != 0, oldest in said) == (True, True), said


def test_objects_then(url: str) -> None:
    """An object's content before it was replaced, and the list."""
    assert silt(url, "object", "get", "FILES", "a/b.txt")[:2] == (0, b"second")
    sequences = json.loads(silt(url, "stream", "info", "OBJ_FILES", "-o", "json")[1])["state"]
    before = str(sequences["last_seq"] - sequences["messages"])
    assert silt(url, "object", "get", "FILES", "a/b.txt", "--as-of", before)[:2] == (0, b"first" * 50_000)
    assert silt(url, "object", "get", "FILES", "none")[0] == 5
    then = silt(url, "object", "ls", "FILES", "--as-of", before, "-o", "ndjson")[1]
    assert json.loads(then)["size"] == 250_000
    now = silt(url, "object", "ls", "FILES", "-o", "ndjson")[1]
    assert json.loads(now)["size"] == 6
