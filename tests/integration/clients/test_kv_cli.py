"""The ``nats`` CLI's rarer commands and options for buckets and objects print what they print against nats-server."""

import asyncio
import re
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import nats

from tests.integration.clients.comparable import at_once, comparable_text, compare, run
from tests.servers import wait_until

BUCKET = (
    "kv add A --history=3 --description=a --max-value-size=100 --max-bucket-size=1MB --compress --metadata=a:b",
    "kv add R --republish-source=> --republish-destination=copied.>",
    "kv edit A --description=b --history=5 --max-value-size=200",
    "kv edit A --history=65",
    "kv edit NOSUCH --history=2",
    "kv put A k.1 one",
    "kv put A k.1 two",
    "kv put A k.2 x",
    f"kv put A k.3 {'0' * 300}",
    "kv get A k.1",
    "kv get A k.1 --revision=1",
    "kv get A k.1 --revision=3",
    "kv update A k.1 three 2",
    "kv create A k.1 x",
    "kv create A k.4 x --ttl=5s",
    "kv revert A k.1 1 --force",
    "kv revert A k.1 99 --force",
    "kv del A k.2 --force",
    "kv del A never --force",
    "kv history A none",
    "kv ls A --verbose --display-value",
    "kv ls NOSUCH",
    "kv info A",
    "kv info NOSUCH",
    "kv compact A --force",
    "kv compact NOSUCH --force",
    "kv purge A k.1 --force",
    "kv add T --ttl=1h --marker-ttl=1h",
    "kv create T a b --ttl=20m",
    "kv info T",
    "kv edit T --ttl=2h",
    "kv add BAD.NAME",
    "kv add A --history=0",
    "kv add A --replicas=3",
    "kv ls --names",
    "kv del T --force",
    "kv del T --force",
    "kv del NOSUCH k --force",
)
COPIES = (
    "kv add M --mirror=A --history=5",
    "kv put M via mirror",
    "kv get A via --raw",
    "kv add S --source=A --source=T --history=5",
)
COPIED = (
    "kv put S own value",
    "kv get M k.1",
    "kv get M via --raw",
    "kv history M via",
    "kv ls M",
    "kv get S via --raw",
    "kv history S k.2",
    "kv ls S k.*",
    "kv del M via --force",
    "kv get A via --raw",
    "kv edit M --no-mirror",
    "kv add EXTERNAL --mirror=NOSUCH",
)
OBJECTS = (
    "object add O --description=o --metadata=k:v --ttl=1h --max-bucket-size=10MB --compress",
    "object add O --description=other",
    "object edit O --description=p --ttl=2h",
    "object edit NOSUCH --description=p",
    "object put O {file} --name=f --description=d -H a:b -H c:d --chunk-size=1024 --no-progress --force",
    "object put O {file} --name=f --description=e --no-progress --force",
    "object put NOSUCH {file} --name=f --no-progress --force",
    "object info O",
    "object info O f",
    "object info O nope",
    "object info NOSUCH",
    "object ls",
    "object ls --names",
    "object ls O",
    "object ls NOSUCH",
    "object get O f --output={out} --force --no-progress",
    "object get O nope --output={out} --force --no-progress",
    "object del O nope --force",
    "object del O f --force",
    "object info O f",
    "object seal O --force",
    "object del O f --force",
    "object edit O --description=late",
    "object info O",
    "object del O --force",
    "object del O --force",
)
WATCHES = (
    ("kv watch W", 4),
    ("kv watch W x.*", 3),
    ("kv watch W x.1 --history", 2),
    ("kv watch W --no-deletes", 3),
    ("kv watch W --updates", 1),
    ("kv watch W --revision=3", 4),
    ("object watch WO", 2),
)
_ALWAYS = (
    (re.compile(r"\d+h\d+m[\d.]+s"), "<left>"),
    (re.compile(r" in [\d.]+(ns|µs|ms|s)$", re.MULTILINE), " in <duration>"),
    # Go writes an object's time without its last zeros, so stores differ by a few bytes.
    (re.compile(r"(Sealed: \w+\n +Size: ).*"), r"\1<size>"),
    (re.compile(r"│ [\d.]+ (B|KiB) │ <age>"), "│ <size> │ <age>"),
)
_COPYING = (
    (re.compile(r"Last Seen: \S+"), "Last Seen: <age>"),
    (re.compile(r"(Values Stored|Bucket Size): .*"), r"\1: <some>"),
    # nats-server tells of sources in the order of a Go map.
    (re.compile(r"Source Bucket: \w+"), "Source Bucket: <bucket>"),
)


def _wait_messages(url: str, stream: str, number: int) -> None:
    """Wait until a copying stream holds so many messages."""

    async def count() -> int:
        client = await nats.connect(url)
        try:
            return int((await client.jetstream().stream_info(stream)).state.messages)
        finally:
            await client.close()

    wait_until(lambda: asyncio.run(count()) == number, what=f"{stream} holds {number}")


def _watched(cli: str, line: str, number: int, after: Sequence[str], url: str) -> list[str]:
    """The first ``number`` lines that a watch prints; the commands ``after`` run once it listens."""
    command = ["timeout", "20", cli, "--no-context", "-s", url, *line.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as watch:
        assert watch.stdout is not None
        try:
            if after:
                wait_until(lambda: _has_consumer(cli, url), what="the watch listens")
            for one in after:
                run([cli, "--no-context", "-s", url, *one.split()])
            found: list[str] = []
            while len(found) < number:
                text = watch.stdout.readline()
                assert text, f"{line} printed no more than {found}"
                if text.strip():
                    found.append(text.rstrip())
        finally:
            watch.terminate()
    return [re.sub(r"^\[[^\]]*\] ", "", comparable_text(one)) for one in found]


def _has_consumer(cli: str, url: str) -> bool:
    return run([cli, "--no-context", "-s", url, "consumer", "ls", "KV_W", "--names"])[1].strip() != ""


def test_bucket_and_copies(cli: str, pair: tuple[str, str]) -> None:
    """Configuration, edits, errors and refusals of a bucket; a bucket that mirrors another, one that gathers two."""
    compare(cli, pair, BUCKET, _ALWAYS)
    compare(cli, pair, COPIES, _ALWAYS + _COPYING)
    for url in pair:
        _wait_messages(url, "KV_M", 4)
        _wait_messages(url, "KV_S", 4)
    compare(cli, pair, COPIED, _ALWAYS + _COPYING)


def test_objects(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """Configuration, edits, errors and refusals of an object store; an object in many chunks with headers."""
    file, fetched = tmp_path / "file", tmp_path / "fetched"
    file.write_bytes(b"x" * 5000)
    compare(cli, pair, [line.format(file=file, out=fetched) for line in OBJECTS], _ALWAYS)
    assert fetched.read_bytes() == file.read_bytes()


def test_watches(cli: str, pair: tuple[str, str], tmp_path: Path) -> None:
    """Watches print the same updates in the same order, with each of their options."""
    file = tmp_path / "file"
    file.write_bytes(b"x" * 5000)
    steps = ["kv add W --history=5", "kv put W x.1 a", "kv put W x.2 b", "kv put W x.1 c", "kv put W y d"]
    steps += ["kv del W y --force", "kv put W x.3 e", "object add WO"]
    steps += [f"object put WO {file} --name={name} --no-progress --force" for name in ("one", "two")]
    for url in pair:
        for step in steps:
            status, text = run([cli, "--no-context", "-s", url, *step.split()])
            assert status == 0, text
    for line, number in WATCHES:
        after = ["kv put W new value"] if "--updates" in line else []
        expected, actual = at_once(partial(_watched, cli, line, number, after), pair)
        assert actual == expected, f"nats {line}"
