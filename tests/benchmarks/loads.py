"""The loads, each driven by the ``nats`` CLI's own bench, and the contenders that carry them.

A contender is started afresh for each repetition, with an empty store. Every load is run twice: a short run that
warms up and tells the rate, then one sized by that rate to last about as long as asked.
"""

import csv
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers import nats_server, silt_server, silt_up
from tests.tools import nats_cli

STREAM = "benchstream"
SUBJECT = "bench.x"
SIZE = 128
_LOAD_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of load; ``arguments`` follow ``nats bench``."""

    name: str
    arguments: tuple[str, ...]
    warm_up: int
    """Messages of the warm-up run."""
    reads: bool = False
    """Reads what was published before: no more messages than the stream holds."""
    least: int = 0
    """Messages that the measured run has at least, however slow the warm-up was."""


LOADS = (
    Load("pub sync", ("js", "pub", "sync"), 300),
    Load("pub async 500", ("js", "pub", "async", "--batch=500"), 20_000),
    Load("pub async 5000", ("js", "pub", "async", "--batch=5000"), 50_000),
    Load("get sync", ("js", "get", "sync"), 500, reads=True),
    Load("get batch", ("js", "get", "batch"), 20_000, reads=True),
    Load("ordered", ("js", "ordered"), 50_000, reads=True),
    Load("consume", ("js", "consume", "--acks=explicit"), 20_000, reads=True),
    Load("fetch", ("js", "fetch", "--acks=explicit"), 20_000, reads=True),
    Load("kv put", ("kv", "put"), 300),
    Load("kv get", ("kv", "get"), 300, reads=True),
    Load("object put", ("object", "put"), 8 << 20, least=256 << 20),
    Load("object get", ("object", "get"), 8 << 20, least=256 << 20),
)
"""Read loads go over what the publishing loads before them have stored; an object's "messages" are its bytes."""
BENCH_CONSUMER = "nats-bench"
_BUCKET = "benchbucket"
_OBJECTS = "benchobjects"


@contextmanager
def _jetstream(folder: Path, *, sync_always: bool) -> Iterator[str]:
    with nats_server(folder, jetstream=True, sync_always=sync_always) as server:
        yield server.url


@contextmanager
def _silt(folder: Path) -> Iterator[str]:
    with silt_server(folder) as running:
        yield running.hub.url


@contextmanager
def _silt_up(folder: Path) -> Iterator[str]:
    with silt_up(folder) as running:
        yield running.url


CONTENDERS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "nats-server": lambda folder: _jetstream(folder, sync_always=False),
    "nats-server, sync always": lambda folder: _jetstream(folder, sync_always=True),
    "silt": _silt,
    "silt up": _silt_up,
}
"""Each gives the URL to connect to. ``silt`` is hub and gateway; ``silt up`` settles with Spark at the same time."""


class LoadFailed(RuntimeError):
    """The nats CLI did not finish; the text is what it printed."""


def create_stream(url: str, *, subjects: str = "bench.>") -> None:
    """Create the stream that all loads use, the same way on every contender."""
    config = {
        "name": STREAM,
        "subjects": [subjects],
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "num_replicas": 1,
        "max_bytes": 16 << 30,
        "allow_direct": True,
    }
    answer = _ask(url, f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(config).encode())
    assert b'"error"' not in answer, answer


def run_load(url: str, load: Load, *, seconds: float, folder: Path) -> dict[str, float]:
    """Run one load; gives messages per second and latencies in µs as the CLI reports them.

    Reading loads go over the messages that are there, as often as it takes to fill ``seconds``.
    """
    run = transfer if load.arguments[0] == "object" else bench
    warm_up = min(load.warm_up, stored_messages(url)) if load.reads and load.arguments[0] == "js" else load.warm_up
    warm = run(url, load.arguments, warm_up, folder=folder)
    wanted = max(load.warm_up, load.least, int(warm["rate"] * seconds) if not load.least else 0)
    if load.reads:
        wanted = min(
            wanted, stored_messages(url) if load.arguments[0] == "js" else stored_messages(url, f"KV_{_BUCKET}")
        )
    return run(url, load.arguments, wanted, folder=folder)


def bench(url: str, arguments: tuple[str, ...], messages: int, *, folder: Path) -> dict[str, float]:
    """One run of ``nats bench …``."""
    table = folder / "bench.csv"
    table.unlink(missing_ok=True)
    group, verb, *rest = arguments
    if verb in ("consume", "fetch"):
        _ask(url, f"$JS.API.CONSUMER.DELETE.{STREAM}.{BENCH_CONSUMER}", b"")
    command = [str(nats_cli()), "--no-context", "-s", url, "--timeout=30s", "bench", group, verb, *rest]
    command += [f"--msgs={messages}", f"--size={SIZE}", "--no-progress", f"--csv={table}"]
    command += [f"--stream={STREAM}"] if group == "js" else [f"--bucket={_BUCKET}"]
    command += [SUBJECT] if verb == "pub" else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LOAD_SECONDS_MAX, check=False)
    if done.returncode != 0 or not table.exists():
        raise LoadFailed(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")
    row = next(csv.DictReader(table.read_text().splitlines()))
    seconds = float(row["DurationSecs"])
    entry = {"messages": messages, "seconds": seconds, "rate": messages / seconds}
    for name, column in (("p50_us", "P50LatencyMicroSecs"), ("p99_us", "P99LatencyMicroSecs")):
        if row.get(column):
            entry[name] = float(row[column])
    return entry


def transfer(url: str, arguments: tuple[str, ...], size: int, *, folder: Path) -> dict[str, float]:
    """Put a file of random bytes into an object store, or get it back: bytes a second, the CLI's start included."""
    verb, file = arguments[1], folder / f"object-{size}"
    cli = [str(nats_cli()), "--no-context", "-s", url, "--timeout=60s", "object"]
    if verb == "put":
        if not file.exists():
            file.write_bytes(os.urandom(1 << 20) * (size >> 20))
        _object(
            [*cli, "add", _OBJECTS],
        )
        command = [*cli, "put", _OBJECTS, str(file), "--name", file.name, "--no-progress", "--force"]
    else:
        command = [*cli, "get", _OBJECTS, file.name, "--output", str(folder / "fetched"), "--no-progress", "--force"]
    started = time.monotonic()
    _object(command)
    took = time.monotonic() - started
    return {"messages": size, "seconds": took, "rate": size / took}


def _object(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LOAD_SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise LoadFailed(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")


def stored_messages(url: str, stream: str = STREAM) -> int:
    """How many messages the stream holds."""
    return int(json.loads(_ask(url, f"$JS.API.STREAM.INFO.{stream}", b""))["state"]["messages"])


def _ask(url: str, subject: str, body: bytes) -> bytes:
    """One request over a plain socket; gives the reply's payload."""
    host, port = url.removeprefix("nats://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as peer, peer.makefile("rwb") as stream:
        stream.write(b'CONNECT {"verbose":false,"headers":true}\r\nSUB _INBOX.bench 1\r\n')
        stream.write(f"PUB {subject} _INBOX.bench {len(body)}\r\n".encode() + body + b"\r\n")
        stream.flush()
        while not (line := stream.readline()).startswith(b"MSG "):
            assert line, "the connection was closed"
        return stream.read(int(line.split()[-1]))
