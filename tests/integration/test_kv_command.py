"""``silt kv`` on a bucket that an unmodified client filled: now, and as it was."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from tests.servers import silt_server

SILT = str(Path(sys.executable).with_name("silt"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Silt with a bucket that keeps two values of a key."""
    with silt_server(tmp_path_factory.mktemp("kv")) as silt:
        asyncio.run(_fill(silt.hub.url))
        yield silt.hub.url


async def _fill(url: str) -> None:
    client = await nats.connect(url)
    bucket = await client.jetstream().create_key_value(bucket="CONFIG", history=2, direct=True)
    for value in (b"1", b"2", b"3", b"4"):
        await bucket.put("color.a", value)
    await bucket.put("size", b"\xff\x00")
    await bucket.delete("color.a")
    indirect = await client.jetstream().create_key_value(bucket="INDIRECT", history=3)
    for value in (b"1", b"2"):
        await indirect.put("size", value)
    await indirect.put("gone", b"x")
    await indirect.delete("gone")
    await client.close()


async def _fill_many(url: str) -> None:
    """A bucket of more keys than one Direct Get may name: 3,000 at first, all of them gone or changed later."""
    client = await nats.connect(url)
    js = client.jetstream()
    bucket = await js.create_key_value(bucket="MANY", direct=True)
    await asyncio.gather(*(bucket.put(f"k.{number:04}", b"old") for number in range(3_000)))
    await asyncio.gather(*(bucket.delete(f"k.{number:04}") for number in range(1_000)))
    await asyncio.gather(*(bucket.put(f"k.{number:04}", b"new") for number in range(1_000, 3_000)))
    await client.close()


def kv(url: str, *arguments: str) -> tuple[int, bytes, str]:
    """Status, output and error output of ``silt kv``."""
    done = subprocess.run([SILT, "kv", *arguments, "--server", url], capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def test_values_now_and_then(url: str) -> None:
    """A value that the bucket has long forgotten is still there as of its revision; bytes come as they are."""
    assert kv(url, "get", "CONFIG", "size")[:2] == (0, b"\xff\x00")
    assert kv(url, "get", "CONFIG", "color.a", "--as-of", "1")[:2] == (0, b"1")
    assert kv(url, "get", "CONFIG", "color.a", "--as-of", "4")[:2] == (0, b"4")


def test_absent_keys(url: str) -> None:
    """A deleted key, one that never was, one from before the first value, and a bucket that is not there."""
    assert kv(url, "get", "CONFIG", "color.a")[0] == 5
    assert kv(url, "get", "CONFIG", "nothing")[0] == 5
    assert kv(url, "get", "CONFIG", "size", "--as-of", "2")[0] == 5
    assert kv(url, "get", "CONFIG", "size", "--as-of", "1d")[0] == 5
    assert kv(url, "get", "NOSUCH", "size")[0] == 5
    assert kv(url, "get", "CONFIG", "size", "--as-of", "whenever")[0] == 2


def test_more_keys_than_one_request_may_name(url: str) -> None:
    """All keys of a large bucket are listed, as they are and as they were before each of them changed or went."""
    asyncio.run(_fill_many(url))
    now = kv(url, "ls", "MANY", "--output", "ndjson")[1].decode().splitlines()
    assert [json.loads(line)["key"] for line in now] == [f"k.{number:04}" for number in range(1_000, 3_000)]
    assert {json.loads(line)["value"] for line in now} == {"new"}
    then = kv(url, "ls", "MANY", "--as-of", "3000", "--output", "ndjson")[1].decode().splitlines()
    assert [json.loads(line)["key"] for line in then] == [f"k.{number:04}" for number in range(3_000)]
    assert {json.loads(line)["value"] for line in then} == {"old"}
    between = kv(url, "ls", "MANY", "--as-of", "4500", "--output", "ndjson")[1].decode().splitlines()
    assert [json.loads(line)["value"] for line in between].count("new") == 500
    assert len(between) == 2_000


def test_bucket_without_direct_get(url: str) -> None:
    """Of a bucket as nats-py makes it by default the present can be read; of its past the command says why not."""
    assert kv(url, "get", "INDIRECT", "size")[:2] == (0, b"2")
    listed = kv(url, "ls", "INDIRECT", "--output", "csv")[1].decode().splitlines()
    assert [line.split(",")[0] for line in listed] == ["key", "size"]
    kept = kv(url, "history", "INDIRECT", "size", "--output", "csv")[1].decode().splitlines()
    assert [line.split(",")[-1] for line in kept] == ["value", "1", "2"]
    status, _, error = kv(url, "ls", "INDIRECT", "--as-of", "1")
    assert status == 1
    assert "--allow-direct" in error


def test_what_is_no_key_or_still_to_come(url: str) -> None:
    """Wildcards are no keys, and nobody knows the bucket's later revisions."""
    assert kv(url, "get", "CONFIG", "*")[0] == 2
    assert kv(url, "get", "CONFIG", "a b")[0] == 2
    assert kv(url, "history", "CONFIG", "color.>")[0] == 2
    status, output, error = kv(url, "get", "CONFIG", "size", "--as-of", "7")
    assert (status, output) == (5, b"")
    assert "the bucket is at 6" in error
    assert kv(url, "ls", "CONFIG", "--as-of", "99999999999999999999")[0] == 5


def test_lists(url: str) -> None:
    """``ls`` shows keys that have a value at the point, ``history`` what the bucket keeps of a key."""
    now = kv(url, "ls", "CONFIG", "--output", "ndjson")[1].decode().splitlines()
    then = kv(url, "ls", "CONFIG", "color.*", "--as-of", "2", "--output", "ndjson")[1].decode().splitlines()
    kept = kv(url, "history", "CONFIG", "color.a", "--output", "csv")[1].decode().splitlines()
    assert [line.split(",")[0] for line in now] == ['{"key":"size"']
    assert len(then) == 1
    assert '"key":"color.a","revision":2,"operation":"PUT"' in then[0]
    assert [line.split(",")[1:3] for line in kept] == [["revision", "operation"], ["4", "PUT"], ["6", "DEL"]]
