"""How fast the past is replayed: an ordered consumer over a whole stream, with nothing of it in the server's memory.

Silt's messages are settled first, the journal is empty of them, and both servers are started afresh before they are
read, so Silt reads Parquet and nats-server its blocks.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.loads import LoadFailed, bench, create_stream, stored_messages
from tests.benchmarks.settling import _PROCESS_SECONDS_MAX, _PUBLISH
from tests.servers import ROOT, nats_server, silt_server
from tests.tools import STALLED

_ORDERED = ("js", "ordered")
FILL_MESSAGES = 1_000_000
"""Messages of one run that fills a stream: a pause for the settle job between two of them keeps the journal small."""
_STALLS_MAX = 20


def replay_rates(folder: Path, *, messages: int, repetitions: int) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Messages per second of a replay, in the shape of ``report.Runs``."""
    shutil.rmtree(folder, ignore_errors=True)
    reference, silt = folder / "nats-server", folder / "silt"
    reference.mkdir(parents=True)
    silt.mkdir(parents=True)
    with nats_server(reference, jetstream=True) as server:
        _fill(server.url, messages, folder)
    for start in range(0, messages, FILL_MESSAGES):
        _forget_logs(folder)
        with silt_server(silt) as running:
            _fill(running.hub.url, min(messages, start + FILL_MESSAGES), folder)
        settle(silt / "data")
    runs: dict[str, dict[str, list[dict[str, float]]]] = {"nats-server": {}, "silt": {}}
    for _ in range(repetitions):
        _forget_logs(folder)
        with nats_server(reference, jetstream=True) as server:
            runs["nats-server"].setdefault("replay", []).append(bench(server.url, _ORDERED, messages, folder=folder))
        with silt_server(silt) as running:
            runs["silt"].setdefault("replay", []).append(bench(running.hub.url, _ORDERED, messages, folder=folder))
    return runs


def _forget_logs(folder: Path) -> None:
    """A server's ports are read from its log: there must be none of an earlier start."""
    for path in folder.rglob("*.log"):
        path.unlink()


def _fill(url: str, upto: int, folder: Path) -> None:
    """Publish until the stream holds so many messages; anew when an fsync took longer than the client waits for."""
    try:
        held = stored_messages(url)
    except KeyError:
        create_stream(url)
        held = 0
    stalls = 0
    while held < upto:
        try:
            bench(url, _PUBLISH, upto - held, folder=folder)
        except LoadFailed as error:
            stalls += 1
            if STALLED not in str(error) or stalls > _STALLS_MAX:
                raise
        held = stored_messages(url)


def settle(data: Path) -> None:
    """Settle all that there is."""
    command = [sys.executable, "-m", "delta_store.settling.settle_main", "--data", str(data), "--once"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_PROCESS_SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise RuntimeError(json.dumps({"settle": done.returncode, "output": done.stderr[-2000:]}))
