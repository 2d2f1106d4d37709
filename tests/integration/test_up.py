"""``silt up`` as a whole: one line when it is ready, ordered stops, no second one, no orphan, nothing lost."""

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StreamConfig

from tests.servers import SiltUp, answers_api, is_running, silt_up, wait_until

ROOT = Path(__file__).resolve().parents[2]
SILT = [sys.executable, "-m", "api.cli.main"]
T = TypeVar("T")


def _with_jetstream(url: str, work: Callable[[JetStreamContext], Awaitable[T]]) -> T:
    async def run() -> T:
        client = await nats.connect(url)
        try:
            return await work(client.jetstream(timeout=20))
        finally:
            await client.close()

    return asyncio.run(run())


async def _orders(jetstream: JetStreamContext) -> int:
    """Make the stream and publish three messages; the last one's sequence."""
    await jetstream.add_stream(name="ORDERS", subjects=["orders.*"], allow_direct=True)
    acks = [await jetstream.publish("orders.new", f"order {number}".encode()) for number in range(3)]
    return acks[-1].seq


async def _last(jetstream: JetStreamContext) -> tuple[int, bytes]:
    message = await jetstream.get_last_msg("ORDERS", "orders.new", direct=True)
    assert message.seq is not None
    return message.seq, message.data or b""


def _children(pid: int) -> dict[int, str]:
    """Every process below ``pid`` with its command line."""
    found: dict[int, str] = {}
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(stat[1]), []).append(int(folder.name))
    waiting = [pid]
    while waiting:
        for child in parents.get(waiting.pop(), []):
            try:
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            waiting.append(child)
    return found


def _alive(pids: dict[int, str]) -> list[str]:
    """Those of the processes that still run."""
    return [command for pid, command in pids.items() if is_running(pid)]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltUp]:
    """One ``silt up`` for the tests that leave it running, with a stream of three orders."""
    with silt_up(tmp_path_factory.mktemp("up")) as running:
        assert _with_jetstream(running.url, _orders) == 3
        yield running


def test_when_it_is_ready_nats_and_http_answer(up: SiltUp) -> None:
    """The ready line's two addresses work at once."""
    assert _with_jetstream(up.url, _last) == (3, b"order 2")
    with urllib.request.urlopen(f"{up.http_url}/openapi.json", timeout=20) as reply:
        assert json.load(reply)["info"]["title"]


def test_the_doctor_looks_for_the_server_that_runs_here(up: SiltUp) -> None:
    """Beside ``silt up`` nobody need know which ports it took."""
    ran = subprocess.run(
        [*SILT, "doctor", "--data", str(up.data), "--output", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {check["check"]: check for check in json.loads(ran.stdout)}
    assert [found[name]["result"] for name in ("nats", "leaf listener")] == ["ok", "ok"], found
    assert up.url.removeprefix("nats://") in found["nats"]["found"]


def test_credentials_are_their_owners_alone(up: SiltUp) -> None:
    """None stands in an argument of a process or in a log, and nobody else may look into the folder."""
    secrets = [login["password"] for login in json.loads((up.data / "nats" / "credentials.json").read_text()).values()]
    assert len(secrets) == 2
    below = _children(up.child.pid)
    assert len(below) > 3
    shown = [*below.values(), *(file.read_text(errors="replace") for file in up.data.glob("**/*.log"))]
    assert not [text for text in shown for secret in secrets if secret in text]
    (gateway,) = [pid for pid, command in below.items() if "gateway_main" in command]
    assert secrets[0] in Path(f"/proc/{gateway}/environ").read_text()
    private = {"": 0o700, "nats": 0o700, "nats/credentials.json": 0o600, "nats/nats-server.conf": 0o600}
    assert {name: (up.data / name).stat().st_mode & 0o777 for name in private} == private


def test_a_second_one_on_the_folder_is_refused(up: SiltUp) -> None:
    """Exit code 3 and a sentence that names the folder and the process."""
    ran = subprocess.run(
        [*SILT, "up", "--data", str(up.data), "--port", "0", "--http-port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 3
    assert ran.stderr.strip() == f"silt up: another silt up runs on {up.data} (process {up.child.pid})"


def test_the_gateway_runs_no_jvm(up: SiltUp) -> None:
    """Java is below the settle job and nowhere else."""
    below = {command: _children(pid) for pid, command in _children(up.child.pid).items()}
    java = [
        command for command, inner in below.items() if any("java" in line.split()[0] for line in inner.values() if line)
    ]
    assert all("settle_main" in command or "spark" in command.lower() for command in java)
    assert any("gateway_main" in command for command in below)


@pytest.mark.parametrize("verb", ["ls", "report"])
def test_streams_are_listed_in_every_format(verb: str, up: SiltUp) -> None:
    """JSON carries what the table carries; a report says beside it how settling is."""
    ran = subprocess.run(
        [*SILT, "stream", verb, "--server", up.url, "--output", "json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (row,) = json.loads(ran.stdout)
    assert "ORDERS" in row.values()
    assert row["messages"] == 3
    assert ran.stderr.startswith("settling: ") == (verb == "report"), ran.stderr


def test_a_streams_info_is_the_apis_own(up: SiltUp) -> None:
    """``--output json`` passes the API's reply on; the address may come from NATS_URL or a context."""
    command = [*SILT, "stream", "info", "ORDERS", "--output", "json"]
    environment = {**os.environ, "NATS_URL": up.url}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    said: dict[str, Any] = json.loads(ran.stdout)
    assert said["config"]["subjects"] == ["orders.*"]
    assert said["state"]["last_seq"] == 3


@pytest.mark.parametrize(
    ("arguments", "code"), [(["info", "NONE"], 5), (["ls", "--server", "nats://127.0.0.1:1"], 4), (["info"], 2)]
)
def test_exit_codes_tell_what_went_wrong(arguments: list[str], code: int, up: SiltUp) -> None:
    """No such stream, nobody there, wrong usage."""
    environment = {**os.environ, "NATS_URL": up.url}
    ran = subprocess.run(
        [*SILT, "stream", *arguments], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == code


def _settled_up_to(up: SiltUp, stream: str) -> int:
    """The last sequence that Spark has settled."""
    with urllib.request.urlopen(f"{up.http_url}/v1/streams/{stream}/versions", timeout=5) as answer:
        return max((one["last_seq"] for one in json.load(answer)["versions"]), default=0)


def test_a_replay_goes_on_over_settling_limits_and_a_kill(up: SiltUp) -> None:
    """A consumer of a past point delivers what was there, by an unmodified client, each message once."""
    config = StreamConfig(name="REPLAYED", subjects=["replayed.*"])

    async def begun(jetstream: JetStreamContext) -> list[bytes]:
        await jetstream.add_stream(config)
        for number in range(1, 41):
            await jetstream.publish(f"replayed.{number % 3}", b"%d" % number)
        await jetstream.add_consumer("REPLAYED", ConsumerConfig(durable_name="R", metadata={"silt.as_of": "30"}))
        return await part(jetstream, 10)

    async def part(jetstream: JetStreamContext, number: int) -> list[bytes]:
        messages = await (await jetstream.pull_subscribe_bind("R", "REPLAYED")).fetch(number, timeout=20)
        for message in messages:
            await message.ack_sync(timeout=20)
        return [message.data for message in messages]

    async def limited(jetstream: JetStreamContext) -> list[bytes]:
        await jetstream.update_stream(dataclasses.replace(config, max_msgs=2))
        for number in range(41, 46):
            await jetstream.publish("replayed.0", b"%d" % number)
        return await part(jetstream, 10)

    async def ended(jetstream: JetStreamContext) -> int | None:
        return (await jetstream.consumer_info("REPLAYED", "R")).num_pending

    found = _with_jetstream(up.url, begun)
    wait_until(lambda: _settled_up_to(up, "REPLAYED") >= 40, what="the messages are settled", seconds=120)
    found += _with_jetstream(up.url, limited)
    wait_until(lambda: _settled_up_to(up, "REPLAYED") >= 45, what="the limit is settled", seconds=120)
    _kill_a_part(up, "gateway_main")
    wait_until(lambda: answers_api(up.url), what="the gateway is back", seconds=60)
    found += _with_jetstream(up.url, lambda jetstream: part(jetstream, 10))
    assert found == [b"%d" % number for number in range(1, 31)]
    assert _with_jetstream(up.url, ended) == 0


def _kill_a_part(up: SiltUp, name: str) -> None:
    """Kill a process, and wait for the one that takes its place."""
    (pid,) = [pid for pid, command in _children(up.child.pid).items() if name in command]
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: any(name in command for other, command in _children(up.child.pid).items() if other != pid),
        what=f"another {name} runs",
        seconds=60,
    )


@pytest.mark.parametrize("name", ["gateway_main", "serve_main", "nats-server"])
def test_a_part_that_is_killed_comes_back(name: str, up: SiltUp) -> None:
    """At the same addresses, with everything that was acknowledged."""
    _kill_a_part(up, name)
    address = f"{up.http_url}/openapi.json"

    def answers() -> bool:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return _with_jetstream(up.url, _last) == (3, b"order 2")
        except (OSError, TimeoutError, nats.errors.Error):
            return False

    wait_until(answers, what=f"it answers after {name} was killed", seconds=60)


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_stops_everything_in_order(how: signal.Signals, tmp_path: Path) -> None:
    """Status 0, every child gone, and the log, whose lines have the same fields in each process, tells the order."""
    with silt_up(tmp_path) as running:
        _with_jetstream(running.url, _orders)
        below = _children(running.child.pid)
        assert below
        os.kill(running.child.pid, how)
        assert running.child.process is not None
        assert running.child.process.wait(timeout=90) == 0
        assert _alive(below) == []
    notes = [json.loads(line) for line in (running.data / "logs" / "silt.log").read_text().splitlines()]
    stopped = [note["child"] for note in notes if note["event"] == "child stopped"]
    assert stopped == ["serve", "gateway", "settle", "hub"]
    told = (running.data / "logs" / "gateway.log").read_text().splitlines()
    notes += [json.loads(line) for line in told if '"event"' in line]
    assert {note["process"] for note in notes} == {"up", "gateway"}
    assert all(list(note)[:4] == ["at", "level", "process", "event"] for note in notes)


def test_a_killed_one_leaves_no_orphan_and_nothing_in_the_way(tmp_path: Path) -> None:
    """After kill -9 all children end; the next one starts at once and has every acknowledged message."""
    with silt_up(tmp_path) as running:
        _with_jetstream(running.url, _orders)
        below = _children(running.child.pid)
        running.child.kill()
        wait_until(lambda: _alive(below) == [], what="no orphans", seconds=60)
    (tmp_path / "silt-up.log").unlink()  # the first one's ready line stands in it
    with silt_up(tmp_path) as again:
        assert _with_jetstream(again.url, _last) == (3, b"order 2")
