"""Consumers of past points by unmodified clients: what a branch of the point gives to an ordinary consumer, no more."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from conf.clock import SystemClock
from delta_store.reading.journal_tail import JournalTail
from delta_store.storage.open_storage import open_storage
from tests.carried import settle_with_bases, unsettled
from tests.integration.clients.test_stream_past import ask, on
from tests.servers import Gateway, silt_server
from tests.staged import open_owner
from tests.wire import Delivered, Wire

Heard = tuple[str, int, int, str, bytes]
"""Subject, sequence, time (ns), headers and payload."""
_SECONDS: Final = 30.0
_CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "SUBJECTS": {"max_msgs_per_subject": 2},
    "NUMBER": {"max_msgs": 9},
    "ROLLED": {"allow_rollup_hdrs": True, "max_msgs_per_subject": 5},
    "PLAIN": {"metadata": {"silt.purge": "keep"}},
}
"""Streams by what removes their messages."""
_FLOW: Final[dict[str, Any]] = {"flow_control": True, "idle_heartbeat": 1.0}
_ORDERED: Final[dict[str, Any]] = {"ordered_consumer": True}


@pytest.fixture
def silt(tmp_path: Path) -> Iterator[Gateway]:
    """A hub and a gateway."""
    with silt_server(tmp_path / "silt") as running:
        yield running


class Points(NamedTuple):
    """The points of one stream, as users write them, and the consumers and branches that stand at them."""

    stream: str
    texts: tuple[str, ...]


async def filled(wire: Wire, name: str, config: dict[str, Any]) -> Points:
    """Create a stream, have its messages come and go, and note points on the way."""
    low = name.lower()
    await ask(wire, f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{low}.>"], "allow_direct": True, **config})
    texts = []
    for number in range(1, 31):
        header = b"NATS/1.0\r\nNumber: %d\r\n\r\n" % number if number % 3 == 0 else b""
        if number == 20 and "allow_rollup_hdrs" in config:
            header = b"NATS/1.0\r\nNats-Rollup: sub\r\n\r\n"
        inbox = wire.send(f"{low}.{number % 4}", b"%d" % number, header=header)
        assert await wire.receive(inbox) is not None
        if number == 8:
            texts.append(str(number))
        if number == 12:
            await ask(wire, f"CUT.CREATE.AT-{name}")
            texts.append(f"cut:AT-{name}")
        if number == 17:
            texts.append(datetime.now(UTC).isoformat())
        if number == 22:
            await ask(wire, f"STREAM.MSG.DELETE.{name}", {"seq": 21, "no_erase": True})
            await ask(wire, f"STREAM.MSG.DELETE.{name}", {"seq": 22})
            await ask(wire, f"STREAM.PURGE.{name}", {"filter": f"{low}.1"})
    return Points(name, (*texts, "20", "999"))


async def branched(wire: Wire, points: Points) -> None:
    """Make a branch of each point."""
    for number, text in enumerate(points.texts):
        branch = f"{points.stream}-{number}"
        at = {} if text == "999" else {"silt_as_of": text}
        shown = await ask(wire, f"STREAM.BRANCH.{points.stream}", {"name": branch, **at})
        assert "error" not in shown, shown


def _heard(message: Any) -> Heard:
    told = message.metadata
    headers = json.dumps(sorted((message.headers or {}).items()))
    stamp = int(message.reply.split(".")[-2])
    return message.subject, told.sequence.stream, stamp, headers, message.data


async def pulled(js: JetStreamContext, stream: str, name: str, metadata: dict[str, str]) -> list[Heard]:
    """All messages by a pull consumer of its own, each acknowledged; the numbers that are left go down to 0."""
    config = ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT, metadata=metadata)
    info = await js.add_consumer(stream, config)
    sub = await js.pull_subscribe_bind(name, stream)
    found: list[Heard] = []
    left = info.num_pending or 0
    while left:
        for message in await sub.fetch(7, timeout=_SECONDS):
            assert message.metadata.num_pending == left - 1
            left = message.metadata.num_pending
            found.append(_heard(message))
            await message.ack_sync()
    after = await js.consumer_info(stream, name)
    assert (after.num_pending, after.num_ack_pending) == (0, 0)
    await js.delete_consumer(stream, name)
    return found


async def pushed(js: JetStreamContext, stream: str, metadata: dict[str, str], number: int, **kind: Any) -> list[Heard]:
    """So many messages by a push subscription."""
    sub = await js.subscribe(">", stream=stream, config=ConsumerConfig(metadata=metadata), manual_ack=True, **kind)
    found = []
    for _ in range(number):
        message = await sub.next_msg(_SECONDS)
        found.append(_heard(message))
        if "ordered_consumer" not in kind:
            await message.ack()
    with pytest.raises(TimeoutError):
        await sub.next_msg(0.05)
    await sub.unsubscribe()
    return found


Truth = dict[tuple[str, str], list[Heard]]
"""What ordinary consumers of the branches hear, by stream and point."""


async def of_branches(url: str, all_points: list[Points]) -> Truth:
    """Have ordinary consumers read the branches."""
    client = await nats.connect(url)
    js, found = client.jetstream(), Truth()
    for stream, texts in all_points:
        for place, text in enumerate(texts):
            found[stream, text] = await pulled(js, f"{stream}-{place}", "PLAIN", {})
    await client.close()
    return found


async def compare(url: str, truth: Truth, *kinds: dict[str, Any]) -> None:
    """Compare pull consumers of all points with the truth, and push consumers of these kinds."""
    client = await nats.connect(url)
    js = client.jetstream()
    for (stream, text), expected in truth.items():
        metadata, where = {"silt.as_of": text}, (stream, text)
        assert await pulled(js, stream, "PAST", metadata) == expected, where
        for kind in kinds:
            assert await pushed(js, stream, metadata, len(expected), **kind) == expected, where
    await client.close()


def settled(data: Path) -> None:
    """Settle everything, as the settle job does."""
    owner = open_owner(open_storage(str(data / "messages"), {}), SystemClock())
    settle_with_bases(owner, unsettled(JournalTail(str(data / "journal")), owner))


def test_every_client_hears_what_a_branch_of_the_point_holds(silt: Gateway) -> None:
    """Pull, push with flow control, ordered; unsettled, settled, after a kill; limits, rollups, deletes, purges."""

    async def prepared(wire: Wire) -> list[Points]:
        made = [await filled(wire, name, config) for name, config in _CONFIGS.items()]
        for points in made:
            await branched(wire, points)
        return made

    made = on(silt, prepared)
    truth = asyncio.run(of_branches(silt.hub.url, made))
    assert sum(map(len, truth.values())) > 200
    asyncio.run(compare(silt.hub.url, truth, _FLOW))
    assert isinstance(silt.data, Path)
    settled(silt.data)
    asyncio.run(compare(silt.hub.url, truth))
    silt.child.kill()
    silt.start()
    asyncio.run(compare(silt.hub.url, truth, _ORDERED))


def test_the_nats_cli_makes_reads_and_edits_them(silt: Gateway, cli: str) -> None:
    """``nats consumer add --metadata``, ``next``, ``info``, ``edit``, ``copy``, ``rm``, none of which knows of it."""

    def run(*words: str) -> str:
        command = [cli, "--server", silt.hub.url, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    run("stream", "add", "ORDERS", "--subjects=orders.>", "--max-msgs-per-subject=1", "--defaults")
    for number in range(1, 4):
        run("pub", "orders.new", f"m{number}", "--jetstream")
    add = ("consumer", "add", "ORDERS", "REPLAY", "--pull", "--defaults", "--ack=explicit", "--metadata=silt.as_of=2")
    run(*add)
    run(*add)
    heard = run("consumer", "next", "ORDERS", "REPLAY", "--ack")
    assert "m2" in heard
    assert "str seq: 2" in heard
    assert "pending: 0" in heard
    shown = json.loads(run("consumer", "info", "ORDERS", "REPLAY", "--json"))
    assert shown["config"]["metadata"]["silt.as_of"] == "2"
    assert (shown["num_pending"], shown["ack_floor"]["stream_seq"]) == (0, 2)
    run("consumer", "edit", "ORDERS", "REPLAY", "--description=edited", "--force")
    run("consumer", "copy", "ORDERS", "REPLAY", "AGAIN", "--pull")
    assert "m2" in run("consumer", "next", "ORDERS", "AGAIN", "--ack")
    assert "REPLAY" in run("consumer", "ls", "ORDERS", "--names")
    run("consumer", "rm", "ORDERS", "REPLAY", "--force")


def _created(name: str, point: Any = None, *, stream: str = "S", **config: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"stream_name": stream, "config": {"durable_name": name, **config}}
    return body if point is None else body | {"silt_as_of": point}


async def create(wire: Wire, name: str, point: Any = None, *, stream: str = "S", **config: Any) -> dict[str, Any]:
    """The reply to a request for a durable consumer."""
    body = _created(name, point, stream=stream, **({"ack_policy": "explicit"} | config))
    return await ask(wire, f"CONSUMER.DURABLE.CREATE.{stream}.{name}", body)


async def numbered(wire: Wire, number: int, **config: Any) -> None:
    """Create stream S with so many messages of three subjects."""
    await ask(wire, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True, **config})
    for one in range(1, number + 1):
        assert await wire.ask(f"s.{one % 3}", b"%d" % one) is not None


async def fetched(wire: Wire, name: str, number: int, *, stream: str = "S") -> list[tuple[bytes, str]]:
    """Payloads, with the subjects of their acks, up to a status, whose line is the last payload."""
    heard: asyncio.Queue[Delivered] = asyncio.Queue()
    inbox, found = f"fetch.{name}.{number}", list[tuple[bytes, str]]()
    sid = wire.listen(inbox, heard.put_nowait)
    body = json.dumps({"batch": number, "no_wait": True}).encode()
    wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body, reply=inbox)
    while len(found) < number:
        async with asyncio.timeout(_SECONDS):
            one = await heard.get()
        if one.status:
            found.append((one.status.encode(), ""))
            break
        found.append((one.payload, one.reply))
    wire.unlisten(sid)
    return found


def test_the_point_is_fixed_when_the_consumer_is_made(silt: Gateway) -> None:
    """An age becomes a time, a cut may go, the same request again is no change, any other point is refused."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 6)
        await ask(wire, "CUT.CREATE.C")
        await asyncio.sleep(1.1)
        assert await wire.ask("s.0", b"7") is not None
        age = await create(wire, "AGE", "1s")
        said = age["config"]["metadata"]
        assert age["num_pending"] == 6
        assert said["silt.as_of.asked"] == "1s"
        assert datetime.fromisoformat(said["silt.as_of"]) < datetime.now(UTC)
        cut = await create(wire, "CUT", metadata={"silt.as_of": "cut:C", "mine": "kept"})
        assert (cut["num_pending"], cut["config"]["metadata"]["mine"]) == (6, "kept")
        await ask(wire, "CUT.DELETE.C")
        assert (await create(wire, "NUMBER", 4))["config"]["metadata"]["silt.as_of"] == "4"
        assert (await create(wire, "LATER", "99"))["num_pending"] == 7
        assert await wire.ask("s.0", b"8") is not None
        for name, point in (("AGE", "1s"), ("CUT", "cut:C"), ("NUMBER", "4"), ("LATER", "99")):
            mine = {"metadata": {"mine": "kept"}} if name == "CUT" else {}
            assert "error" not in await create(wire, name, point, **mine)
        for name, point in (("AGE", "2s"), ("NUMBER", 5), ("NUMBER", None)):
            assert "can not be updated" in (await create(wire, name, point))["error"]["description"]

    async def again(wire: Wire) -> list[int]:
        infos = [await ask(wire, f"CONSUMER.INFO.S.{name}") for name in ("AGE", "CUT", "NUMBER", "LATER")]
        return [info["num_pending"] for info in infos]

    on(silt, look)
    assert on(silt, again) == [6, 6, 4, 7]
    silt.child.kill()
    silt.start()
    assert on(silt, again) == [6, 6, 4, 7]


def test_what_is_refused(silt: Gateway) -> None:
    """Nonsense, unknown cuts, points that are not kept, two points at once, and more states than memory may hold."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 5, max_msgs=1)
        await ask(wire, "STREAM.CREATE.SHORT", {"name": "SHORT", "subjects": ["t"], "metadata": {"silt.history": "0"}})
        assert await wire.ask("t", b"1") is not None
        assert await wire.ask("t", b"2") is not None
        for point in ("nonsense", "cut:no good", "0"):
            said = (await create(wire, "N", metadata={"silt.as_of": point}))["error"]
            assert (said["err_code"], "silt.as_of" in said["description"]) == (10012, True)
            assert (await create(wire, "N", point))["error"]["err_code"] == 10025
        assert (await create(wire, "N", "cut:NONE"))["error"]["err_code"] == 20102
        gone = (await create(wire, "N", 1, stream="SHORT"))["error"]
        assert (gone["err_code"], "the oldest that can be read" in gone["description"]) == (20101, True)
        both = await create(wire, "N", 1, metadata={"silt.as_of": "2"})
        assert both["error"]["err_code"] == 10012
        assert (await create(wire, "N", 1, stream="NONE"))["error"]["err_code"] == 10059
        assert (await ask(wire, "CONSUMER.NAMES.S"))["total"] == 0
        assert (await ask(wire, "CONSUMER.NAMES.SHORT"))["total"] == 0
        before = await create(wire, "BEFORE", "2020-01-01T00:00:00Z")
        assert (before["num_pending"], before["delivered"]["stream_seq"]) == (0, 0)

    on(silt, look)


def test_what_is_erased_is_not_delivered(silt: Gateway) -> None:
    """Also of a consumer that runs: it leaves the counts and what waits for acks; what is not erased stays."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 30)
        assert (await create(wire, "R", 20))["num_pending"] == 20
        first = await fetched(wire, "R", 3)
        assert [data for data, _ in first] == [b"1", b"2", b"3"]
        await ask(wire, "STREAM.MSG.DELETE.S", {"seq": 5, "no_erase": True})
        for seq in (2, 6, 25):
            await ask(wire, "STREAM.MSG.DELETE.S", {"seq": seq})
        info = await ask(wire, "CONSUMER.INFO.S.R")
        assert (info["num_pending"], info["num_ack_pending"]) == (16, 2)
        assert [data for data, _ in await fetched(wire, "R", 4)] == [b"4", b"5", b"7", b"8"]
        await ask(wire, "STREAM.PURGE.S", {"filter": "s.0", "silt_no_erase": True})
        await ask(wire, "STREAM.PURGE.S", {"filter": "s.1"})
        info = await ask(wire, "CONSUMER.INFO.S.R")
        left = [seq for seq in range(9, 21) if seq % 3 != 1]
        assert info["num_pending"] == len(left)
        heard = await fetched(wire, "R", 50)
        assert heard[:-1] == [(b"%d" % seq, heard[place][1]) for place, seq in enumerate(left)]
        assert heard[-1][0] == b"404 No Messages"

    on(silt, look)


def test_it_is_a_consumer_in_all_else(silt: Gateway) -> None:
    """Redelivery, ``max_deliver``, policies, headers alone, pauses; after a kill it goes on where its acks are."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 12)
        await ask(wire, "STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True, "max_msgs": 1})
        await create(wire, "R", 9, ack_wait=300_000_000, max_deliver=2, filter_subject="s.1")
        one, two = await fetched(wire, "R", 2)
        assert (one[0], two[0]) == (b"1", b"4")
        assert await wire.ask(one[1], b"") is not None
        await asyncio.sleep(0.7)
        again = await fetched(wire, "R", 5)
        assert [data for data, _ in again] == [b"4", b"7", b"404 No Messages"]
        assert again[0][1].split(".")[4] == "2"
        await asyncio.sleep(0.7)
        assert [data for data, _ in await fetched(wire, "R", 5)] == [b"7", b"404 No Messages"]
        for policy, number in {"last": 1, "new": 0, "last_per_subject": 3}.items():
            extra = {"filter_subject": "s.>"} if policy == "last_per_subject" else {}
            shown = await create(wire, f"P-{policy}", 9, deliver_policy=policy, **extra)
            assert shown["num_pending"] == number, policy
        shown = await create(wire, "SEQ", 9, deliver_policy="by_start_sequence", opt_start_seq=7, headers_only=True)
        assert shown["num_pending"] == 3
        assert (await fetched(wire, "SEQ", 1))[0][0] == b""
        await create(wire, "GOES-ON", 9)
        for data, ack in await fetched(wire, "GOES-ON", 4):
            assert data.isdigit()
            assert await wire.ask(ack, b"") is not None
        paused = await ask(wire, "CONSUMER.PAUSE.S.SEQ", {"pause_until": "2099-01-01T00:00:00Z"})
        assert paused["paused"]
        assert (await ask(wire, "CONSUMER.LIST.S"))["consumers"][0]["name"] == "GOES-ON"

    async def after(wire: Wire) -> None:
        infos = {one["name"]: one for one in (await ask(wire, "CONSUMER.LIST.S"))["consumers"]}
        assert infos["GOES-ON"]["num_pending"] == 5
        assert infos["GOES-ON"]["ack_floor"]["stream_seq"] == 4
        rest = {"GOES-ON": [b"5", b"6", b"7", b"8", b"9"], "P-last_per_subject": [b"7", b"8", b"9"]}
        for name, expected in rest.items():
            assert [data for data, _ in await fetched(wire, name, 9)] == [*expected, b"404 No Messages"]
        assert (await ask(wire, "CONSUMER.DELETE.S.GOES-ON"))["success"]

    on(silt, look)
    silt.child.kill()
    silt.start()
    on(silt, after)


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_it_retains_and_removes_nothing(silt: Gateway, retention: str) -> None:
    """A queue's messages leave by its own consumers alone, whose rules do not hold for those of its past."""

    async def look(wire: Wire) -> None:
        config = {"name": "Q", "subjects": ["q.>"], "retention": retention}
        await ask(wire, "STREAM.CREATE.Q", config)
        await create(wire, "WORK", stream="Q")
        for number in range(1, 7):
            assert await wire.ask("q.a", b"%d" % number) is not None
        for _, ack in await fetched(wire, "WORK", 4, stream="Q"):
            assert await wire.ask(ack, b"") is not None
        left = (await ask(wire, "STREAM.INFO.Q"))["state"]["messages"]
        assert left == 2
        assert "error" not in await create(wire, "PAST", 6, stream="Q", ack_policy="none", deliver_policy="last")
        assert (await create(wire, "PAST2", 6, stream="Q"))["num_pending"] == 6
        heard = await fetched(wire, "PAST2", 6, stream="Q")
        assert [data for data, _ in heard] == [b"%d" % number for number in range(1, 7)]
        for _, ack in heard:
            assert await wire.ask(ack, b"") is not None
        assert (await ask(wire, "STREAM.INFO.Q"))["state"]["messages"] == left
        for _, ack in await fetched(wire, "WORK", 2, stream="Q"):
            assert await wire.ask(ack, b"") is not None
        assert (await ask(wire, "STREAM.INFO.Q"))["state"]["messages"] == 0

    on(silt, look)


def test_it_ends_when_the_horizon_passes_its_point(silt: Gateway) -> None:
    """A waiting pull gets the status of a deletion, an advisory tells of it, and the consumer is gone."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 3, max_msgs=1, metadata={"silt.history": "4s"})
        heard: asyncio.Queue[Delivered] = asyncio.Queue()
        told: asyncio.Queue[Delivered] = asyncio.Queue()
        wire.listen("waiting", heard.put_nowait)
        wire.listen("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.R", told.put_nowait)
        assert (await create(wire, "R", 2))["num_pending"] == 1
        assert (await create(wire, "NOW"))["num_pending"] == 1
        assert [data for data, _ in await fetched(wire, "R", 1)] == [b"2"]
        body = json.dumps({"batch": 1, "expires": 60_000_000_000}).encode()
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.R", body, reply="waiting")
        async with asyncio.timeout(_SECONDS):
            assert (await heard.get()).status == "409 Consumer Deleted"
            assert json.loads((await told.get()).payload)["action"] == "delete"
        assert (await ask(wire, "CONSUMER.NAMES.S"))["consumers"] == ["NOW"]
        assert (await create(wire, "R", 2))["error"]["err_code"] == 20101

    on(silt, look)


def test_backups_and_branches_leave_it_out(silt: Gateway) -> None:
    """What has no past takes no view of one along."""

    async def look(wire: Wire) -> None:
        await numbered(wire, 4)
        await create(wire, "PAST", 2)
        await create(wire, "NOW")
        await ask(wire, "STREAM.BRANCH.S", {"name": "B", "consumers": True})
        assert (await ask(wire, "CONSUMER.NAMES.B"))["consumers"] == ["NOW"]
        state = {"delivered": {}, "ack_floor": {}}
        config = {"durable_name": "IN", "ack_policy": "explicit", "metadata": {"silt.as_of": "2"}}
        refused = await ask(wire, "CONSUMER.RESTORE.S.IN", {"config": config, "state": state})
        assert "past point" in refused["error"]["description"]

    on(silt, look)


def test_a_consumer_that_is_gone_is_not_found(silt: Gateway) -> None:
    """Deleted with its stream, also while nobody looks."""

    async def look(url: str) -> None:
        client = await nats.connect(url)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.publish("s.1", b"1")
        await js.add_consumer("S", ConsumerConfig(durable_name="R", metadata={"silt.as_of": "1"}))
        await js.delete_stream("S")
        await js.add_stream(name="S", subjects=["s.>"])
        with pytest.raises(NotFoundError):
            await js.consumer_info("S", "R")
        await client.close()

    asyncio.run(look(silt.hub.url))
