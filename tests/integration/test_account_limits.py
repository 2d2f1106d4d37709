"""Limits of the account: Silt, with settings, answers as a nats-server whose account has them."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.servers import Child, answers_api, gateway, nats_server, nats_server_binary, wait_until

Step = tuple[str, Any]
_PORT = re.compile(r"Listening for client connections on \S+:(\d+)")


@contextmanager
def limited(folder: Path, limits: dict[str, int | bool]) -> Iterator[str]:
    """Run a nats-server with one account that has these limits; yield its URL."""
    folder.mkdir()
    names = {"max_storage": "max_file", "max_memory": "max_mem", "storage_max_stream_bytes": "store_max_stream_bytes"}
    told = ", ".join(f"{names.get(name, name)}: {json.dumps(value)}" for name, value in limits.items())
    config = folder / "nats.conf"
    config.write_text(
        f"listen: 127.0.0.1:-1\njetstream {{ store_dir: {json.dumps(str(folder / 'js'))} }}\nno_auth_user: u\n"
        f"accounts {{ A {{ users: [{{user: u, password: p}}], jetstream {{ {told} }} }} }}\n"
    )
    child = Child([str(nats_server_binary()), "-c", str(config)], folder / "nats-server.log")
    child.start()
    try:
        url = f"nats://127.0.0.1:{child.wait_log(_PORT)[1]}"
        wait_until(lambda: answers_api(url), what="nats-server's JetStream answers")
        yield url
    finally:
        child.stop()


async def answers(url: str, steps: Sequence[Step]) -> list[Any]:
    """What a server says to each step, without what differs by server."""
    client = await nats.connect(url)
    try:
        return [_same(await _asked(client, *step)) for step in steps]
    finally:
        await client.close()


async def _asked(client: Any, subject: str, body: Any) -> dict[str, Any]:
    data = b"x" * body if isinstance(body, int) else json.dumps(body).encode() if body is not None else b""
    answer: dict[str, Any] = json.loads((await client.request(subject, data, timeout=10)).data)
    return answer


def _same(answer: dict[str, Any]) -> Any:
    if "limits" in answer:
        return {key: value for key, value in answer.items() if key != "api"}
    shown = answer.get("config", {})
    kept = {key: shown.get(key) for key in ("max_bytes", "max_consumers", "max_ack_pending")} if shown else {}
    return kept | {key: answer[key] for key in ("error", "stream", "seq", "purged") if key in answer}


def stream(name: str, verb: str = "CREATE", **config: Any) -> Step:
    """Create or update a stream."""
    return f"$JS.API.STREAM.{verb}.{name}", {"name": name, "subjects": [f"{name.lower()}.>"], **config}


def consumer(of: str, name: str, **config: Any) -> Step:
    """Create a consumer."""
    body = {"stream_name": of, "config": {"name": name, "ack_policy": "explicit", **config}}
    return f"$JS.API.CONSUMER.CREATE.{of}.{name}", body


INFO: Step = ("$JS.API.INFO", None)
CASES: dict[str, tuple[dict[str, int | bool], list[Step]]] = {
    "counts": (
        {
            "max_memory": 10_000,
            "max_storage": 100_000,
            "max_streams": 3,
            "max_consumers": 2,
            "max_ack_pending": 50,
            "storage_max_stream_bytes": 60_000,
            "memory_max_stream_bytes": 5_000,
        },
        [
            INFO,
            stream("A", max_bytes=70_000),
            stream("A", max_bytes=50_000),
            stream("A", max_bytes=70_000),
            stream("B", max_bytes=59_000),
            stream("B", max_bytes=10_000, max_consumers=3),
            stream("B", max_bytes=10_000, max_consumers=1),
            stream("A", max_bytes=1),
            stream("M", storage="memory", max_bytes=6_000),
            stream("M", storage="memory", max_bytes=5_000),
            stream("D"),
            stream("A", max_bytes=50_000),
            stream("A", "UPDATE", max_bytes=60_001),
            stream("B", "UPDATE", max_bytes=10_000, max_consumers=5),
            consumer("A", "c1"),
            consumer("A", "c2", max_ack_pending=51),
            consumer("A", "c2", max_ack_pending=-1),
            consumer("A", "c3"),
            consumer("B", "c1"),
            consumer("B", "c2"),
            consumer("A", "c1"),
            consumer("A", "c1", max_ack_pending=60),
            consumer("M", "none", ack_policy="none"),
            consumer("M", "push", deliver_subject="x.y", ack_policy="all"),
            INFO,
        ],
    ),
    "reserved": (
        {"max_storage": 100_000},
        [
            stream("A", max_bytes=50_000),
            stream("B", max_bytes=40_000),
            *(stream("A", "UPDATE", max_bytes=size) for size in (60_000, 50_000, 60_001, 70_000, -1)),
            stream("Z", max_bytes=60_001),
            stream("Z", max_bytes=60_000),
            stream("A", "UPDATE", max_bytes=1),
            *(stream("B", "UPDATE", max_bytes=size) for size in (40_001, 20_000)),
            stream("C"),
            INFO,
        ],
    ),
    "used": (
        {"max_storage": 1_000},
        [
            stream("A"),
            ("a.x", 967),
            ("a.x", 0),
            ("$JS.API.STREAM.PURGE.A", None),
            ("a.x", 968),
            ("a.x", 467),
            ("a.x", 467),
            ("a.x", 1),
            stream("ONE", max_msgs=1),
            ("one.x", 1),
            ("$JS.API.STREAM.PURGE.A", None),
            ("one.x", 900),
            ("one.x", 900),
            INFO,
        ],
    ),
    "required": (
        {"max_storage": 20_000, "max_memory": 0, "max_bytes_required": True},
        [
            stream("A"),
            stream("A", max_bytes=100),
            stream("A", "UPDATE"),
            stream("M", storage="memory", max_bytes=10),
            stream("M", storage="memory"),
            INFO,
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_limits_are_those_of_a_nats_server(tmp_path: Path, case: str) -> None:
    """Each step gets the same answer, with the same error where one is refused."""
    limits, steps = CASES[case]
    settings = {f"SILT_LIMITS__{name.upper()}": str(value) for name, value in limits.items()}
    with (
        limited(tmp_path / "reference", limits) as reference,
        nats_server(tmp_path / "hub", leaf=True) as hub,
        gateway(hub, tmp_path / "data", env=settings),
    ):
        wanted = asyncio.run(answers(reference, steps))
        found = asyncio.run(answers(hub.url, steps))
    for step, one, other in zip(steps, wanted, found, strict=True):
        assert other == one, step


def test_what_comes_back_from_the_past_needs_room(tmp_path: Path) -> None:
    """Undeletes, rewinds and branches are refused where the account is full, and done where it is not."""
    deleted = ("$JS.API.STREAM.MSG.DELETE.A", {"seq": 1, "no_erase": True})
    undelete = ("$JS.API.STREAM.UNDELETE.A", {"silt_as_of": "1", "filter": ">"})
    rewind = ("$JS.API.STREAM.REWIND.A", {"silt_as_of": "1"})
    branch = ("$JS.API.STREAM.BRANCH.A", {"name": "B", "silt_as_of": "1", "config": {"subjects": ["b.>"]}})
    steps = [stream("A"), stream("O"), ("a.x", 700), deleted, ("o.x", 400), undelete, rewind, branch]
    steps += [("$JS.API.STREAM.PURGE.O", None), branch, rewind, ("$JS.API.STREAM.DELETE.B", None), rewind, rewind]
    with (
        nats_server(tmp_path / "hub", leaf=True) as hub,
        gateway(hub, tmp_path / "data", env={"SILT_LIMITS__MAX_STORAGE": "1000"}),
    ):
        found = asyncio.run(answers(hub.url, steps))
    codes = [answer.get("error", {}).get("err_code", 0) for answer in found]
    assert codes == [0, 0, 0, 0, 0, 10002, 10002, 10002, 0, 0, 10002, 0, 0, 0]
