"""Branches, rewinds and undeletes asked of a real gateway, with consumers, refusals, and a kill on the way."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Gateway, silt_server
from tests.wire import Wire

_SECONDS = 60.0


@pytest.fixture(scope="module")
def silt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A hub and a gateway."""
    with silt_server(tmp_path_factory.mktemp("past")) as running:
        yield running


async def ask(wire: Wire, verb: str, body: Any = None) -> dict[str, Any]:
    """The reply to a request of the API."""
    payload = b"" if body is None else json.dumps(body).encode()
    reply = await wire.ask(f"$JS.API.{verb}", payload, seconds=_SECONDS)
    assert reply is not None, verb
    return dict(json.loads(reply.payload))


async def filled(wire: Wire, name: str, messages: int = 6, size: int = 8, **config: Any) -> None:
    """Create a stream with messages of two subjects."""
    subject = name.lower()
    await ask(wire, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{subject}.>"], **config})
    for number in range(1, messages + 1):
        data = b"%d" % number
        assert await wire.ask(f"{subject}.{'ab'[number % 2]}", data.ljust(size), seconds=_SECONDS) is not None


async def messages(wire: Wire, stream: str) -> dict[int, tuple[str, str, str]]:
    """Subject, time and payload of each message by its sequence."""
    found, seq = {}, 1
    while True:
        reply = await ask(wire, f"STREAM.MSG.GET.{stream}", {"seq": seq, "next_by_subj": ">"})
        if "error" in reply:
            return found
        one = reply["message"]
        found[one["seq"]] = (one["subject"], one["time"], one["data"])
        seq = one["seq"] + 1


async def pull(wire: Wire, stream: str, consumer: str, number: int) -> None:
    """Have so many messages delivered."""
    inbox, heard = f"pulled.{stream}.{consumer}", asyncio.Semaphore(0)
    wire.listen(inbox, lambda _: heard.release())
    body = json.dumps({"batch": number, "expires": 30_000_000_000}).encode()
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", body, reply=inbox)
    async with asyncio.timeout(_SECONDS):
        for _ in range(number):
            await heard.acquire()


def on(silt: Gateway, look: Any) -> Any:
    """What ``look`` returns, given a connection."""

    async def connected() -> Any:
        async with Wire.open(silt.hub.url) as wire:
            return await look(wire)

    return asyncio.run(connected())


def test_a_branch_stands_as_its_origin_stood(silt: Gateway) -> None:
    """Sequences, times, payloads; then both go their own ways, also over a kill of the gateway."""

    async def look(wire: Wire) -> Any:
        await filled(wire, "ORDERS", max_age=3_600_000_000_000, description="as it was")
        whole = await messages(wire, "ORDERS")
        await ask(wire, "STREAM.MSG.DELETE.ORDERS", {"seq": 2, "no_erase": True})
        await ask(wire, "STREAM.MSG.DELETE.ORDERS", {"seq": 3})
        shown = await ask(wire, "STREAM.BRANCH.ORDERS", {"name": "THEN", "silt_as_of": "5"})
        now = await ask(wire, "STREAM.BRANCH.ORDERS", {"name": "NOW", "config": {"subjects": ["now.>"]}})
        assert shown["type"] == "io.nats.jetstream.api.v1.stream_branch_response"
        return whole, shown, now, await wire.ask("THEN", b"new"), await wire.ask("orders.a", b"other")

    whole, shown, now, in_branch, in_origin = on(silt, look)
    assert shown["config"]["subjects"] == ["THEN"]
    assert (shown["config"]["max_age"], shown["config"]["description"]) == (0, "as it was")
    assert (shown["state"]["messages"], shown["state"]["last_seq"]) == (4, 5)
    assert (now["state"]["messages"], now["state"]["last_seq"], now["config"]["subjects"]) == (4, 6, ["now.>"])
    assert json.loads(in_branch.payload)["seq"] == 6
    assert json.loads(in_origin.payload)["seq"] == 7
    silt.child.kill()
    silt.start()
    then = on(silt, lambda wire: messages(wire, "THEN"))
    assert {seq: one for seq, one in then.items() if seq < 6} == {seq: whole[seq] for seq in (1, 2, 4, 5)}


def test_consumers_come_along_no_further_than_the_point(silt: Gateway) -> None:
    """Durable ones, if they are wanted; what was acknowledged up to the point is not delivered again."""

    async def look(wire: Wire) -> Any:
        await filled(wire, "WORK")
        for name, seq in (("AHEAD", 6), ("BEHIND", 2)):
            config = {"durable_name": name, "ack_policy": "all"}
            await ask(wire, f"CONSUMER.DURABLE.CREATE.WORK.{name}", {"stream_name": "WORK", "config": config})
            await pull(wire, "WORK", name, seq)
            info = await ask(wire, f"CONSUMER.INFO.WORK.{name}")
            assert info["delivered"]["stream_seq"] == seq
        await ask(wire, "STREAM.BRANCH.WORK", {"name": "WORK2", "silt_as_of": "4", "consumers": True})
        return [
            (await ask(wire, f"CONSUMER.INFO.WORK2.{name}"))["delivered"]["stream_seq"] for name in ("AHEAD", "BEHIND")
        ]

    assert on(silt, look) == [4, 2]


def test_a_rewind_names_the_consumers_that_have_seen_more(silt: Gateway) -> None:
    """It is refused unless it is forced, and can itself be rewound."""

    async def look(wire: Wire) -> Any:
        await filled(wire, "REW")
        whole = await messages(wire, "REW")
        config = {"durable_name": "SEEN", "ack_policy": "all"}
        await ask(wire, "CONSUMER.DURABLE.CREATE.REW.SEEN", {"stream_name": "REW", "config": config})
        await pull(wire, "REW", "SEEN", 5)
        refused = await ask(wire, "STREAM.REWIND.REW", {"silt_as_of": "4"})
        done = await ask(wire, "STREAM.REWIND.REW", {"silt_as_of": "4", "force": True})
        left = await messages(wire, "REW")
        back = await ask(wire, "STREAM.REWIND.REW", {"silt_as_of": "6", "force": True})
        return whole, refused["error"], done, left, back, await messages(wire, "REW")

    whole, refused, done, left, back, again = on(silt, look)
    assert refused["err_code"] == 20030
    assert "after sequence 4: SEEN" in refused["description"]
    assert {key: done[key] for key in ("removed", "restored", "rewritten", "last_seq", "consumers")} == {
        "removed": 2,
        "restored": 0,
        "rewritten": 0,
        "last_seq": 6,
        "consumers": ["SEEN"],
    }
    assert left == {seq: whole[seq] for seq in (1, 2, 3, 4)}
    assert (back["restored"], list(again)) == (2, [1, 2, 3, 4, 7, 8])
    assert [(one[0], one[2]) for one in again.values()] == [(one[0], one[2]) for one in whole.values()]


def test_lost_messages_come_back_and_erased_ones_do_not(silt: Gateway) -> None:
    """By sequences, ranges and subjects."""

    async def look(wire: Wire) -> Any:
        await filled(wire, "LOST")
        for seq in (1, 2, 3, 4):
            await ask(wire, "STREAM.MSG.DELETE.LOST", {"seq": seq, "no_erase": seq != 3})
        told = [
            await ask(wire, "STREAM.UNDELETE.LOST", {"silt_as_of": "6", "seqs": ["2-3"]}),
            await ask(wire, "STREAM.UNDELETE.LOST", {"silt_as_of": "6", "filter": "lost.b"}),
            await ask(wire, "STREAM.UNDELETE.LOST", {"silt_as_of": "6", "seqs": ["5"]}),
        ]
        return [one["restored"] for one in told], await messages(wire, "LOST")

    restored, left = on(silt, look)
    assert restored == [1, 1, 0]
    assert {seq: one[0] for seq, one in left.items()} == {5: "lost.b", 6: "lost.a", 7: "lost.a", 8: "lost.b"}


def test_the_shell_asks_for_them(silt: Gateway) -> None:
    """With the exit codes of all verbs."""

    def run(*words: str) -> tuple[int, Any]:
        command = [str(Path(sys.executable).with_name("silt")), "stream", *words, "-s", silt.hub.url, "-o", "json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    on(silt, lambda wire: filled(wire, "SHELL"))
    code, branched = run("branch", "SHELL@4", "SHELL-THEN", "--subjects", "then.>", "--subjects", "later")
    assert (code, branched["config"]["subjects"], branched["state"]["last_seq"]) == (0, ["then.>", "later"], 4)
    assert run("rewind", "SHELL", "--to", "2")[1]["removed"] == 4
    assert run("undelete", "SHELL", "--from", "6", "--seq", "5-6")[1] == {"restored": 2, "last_seq": 8}
    assert run("branch", "NONE", "X")[0] == 5
    assert run("rewind", "SHELL", "--to", "9")[0] == 1


@pytest.mark.parametrize(
    ("verb", "body", "err_code"),
    [
        ("BRANCH.NONE", {"name": "X"}, 10059),
        ("BRANCH.REFUSED", {"name": "REFUSED"}, 10058),
        ("BRANCH.REFUSED", {"name": "a.b"}, 10052),
        ("BRANCH.REFUSED", {"name": "X", "config": {"subjects": ["refused.a"]}}, 10065),
        ("BRANCH.REFUSED", {"name": "X", "config": {"name": "Y"}}, 10056),
        ("BRANCH.REFUSED", {"name": "X", "silt_as_of": "7"}, 20030),
        ("BRANCH.REFUSED", {"name": "X", "silt_as_of": "never"}, 10025),
        ("REWIND.REFUSED", {}, 10003),
        ("REWIND.REFUSED", {"force": True}, 20030),
        ("REWIND.REFUSED", {"silt_as_of": "2999-01-01T00:00:00Z"}, 20030),
        ("REWIND.KEPT", {"silt_as_of": "1"}, 20030),
        ("REWIND.SEALED", {"silt_as_of": "1"}, 10109),
        ("UNDELETE.REFUSED", {"silt_as_of": "1"}, 20030),
        ("UNDELETE.REFUSED", {"silt_as_of": "1", "seqs": ["one"]}, 20030),
        ("UNDELETE.MIRROR", {"silt_as_of": "1", "filter": ">"}, 20030),
    ],
)
def test_what_can_not_be_is_refused(silt: Gateway, verb: str, body: Any, err_code: int) -> None:
    """With JetStream's code where it has one."""

    async def look(wire: Wire) -> Any:
        await filled(wire, "REFUSED", 0)
        await ask(wire, "STREAM.CREATE.KEPT", {"name": "KEPT", "subjects": ["kept"], "deny_delete": True})
        await ask(wire, "STREAM.CREATE.SEALED", {"name": "SEALED", "subjects": ["sealed"]})
        await ask(wire, "STREAM.UPDATE.SEALED", {"name": "SEALED", "subjects": ["sealed"], "sealed": True})
        await ask(wire, "STREAM.CREATE.MIRROR", {"name": "MIRROR", "mirror": {"name": "REFUSED"}})
        return await ask(wire, f"STREAM.{verb}", body)

    assert on(silt, look)["error"]["err_code"] == err_code


def test_a_branch_that_a_kill_cuts_off_is_not_there(tmp_path: Path) -> None:
    """Nobody sees it before it is whole; its name is free at once."""
    with silt_server(tmp_path) as silt:

        async def begin(wire: Wire) -> None:
            await ask(wire, "STREAM.CREATE.BIG", {"name": "BIG", "subjects": ["big"]})
            for number in range(20_000):
                wire.publish("big", b"%d" % number)
            assert await wire.ask("big", b"the last", seconds=_SECONDS) is not None
            wire.send("$JS.API.STREAM.BRANCH.BIG", json.dumps({"name": "NEW", "silt_as_of": "20000"}).encode())
            assert (await ask(wire, "STREAM.NAMES"))["streams"] == ["BIG"]
            silt.child.kill()

        async def after(wire: Wire) -> Any:
            before = (await ask(wire, "STREAM.NAMES"))["streams"]
            return before, (await ask(wire, "STREAM.BRANCH.BIG", {"name": "NEW", "silt_as_of": "20000"}))["state"]

        on(silt, begin)
        silt.start()
        before, state = on(silt, after)
        assert before == ["BIG"]
        assert (state["messages"], state["first_seq"], state["last_seq"]) == (20_000, 1, 20_000)
