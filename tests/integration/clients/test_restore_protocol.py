"""Restores that go wrong: what the sender is told, by nats-server and by Silt, and that Silt keeps nothing of them."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_store.archive import s2_frames
from delta_store.archive.entries import END, MAGIC, ArchiveEntry, encode
from delta_store.archive.s2_frames import FrameReader
from tests.integration.clients.comparable import at_once
from tests.servers import Gateway, silt_server
from tests.wire import Wire

CHUNK = 32 * 1024
TS_NS = 1_790_000_000_000_000_000
CONFIG = {"name": "S", "subjects": ["s.>"], "num_replicas": 1, "retention": "limits", "storage": "file"}


def archive(*, messages: int = 3, first: int = 1, consumers: int = 0, size: int = 5, end: bytes = encode(END)) -> bytes:
    """An archive of messages of this size, every third of which is gone."""
    last = first + messages * 3 - 1
    state = {"first_seq": first, "last_seq": last, "messages": messages, "bytes": 1, "consumer_count": consumers}
    entries = [ArchiveEntry("state.json", TS_NS, 0, b"", json.dumps(state).encode())]
    entries += [ArchiveEntry("s.x", TS_NS + seq, seq, b"", b"d" * size) for seq in range(first, last + 1, 3)]
    return s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, entries)) + end)


async def begin(wire: Wire, name: str = "S", config: Any = CONFIG, **more: Any) -> dict[str, Any]:
    """The reply to a request for a restore."""
    body = {"config": config, "state": {}, **more}
    reply = await wire.ask(f"$JS.API.STREAM.RESTORE.{name}", json.dumps(body).encode())
    assert reply is not None
    return dict(json.loads(reply.payload))


async def restore(wire: Wire, data: bytes, *, stops: bool = False) -> Any:
    """Restore an archive; return the last reply, or None where the sender ``stops`` before the end."""
    subject = (await begin(wire))["deliver_subject"]
    for start in range(0, len(data), CHUNK):
        assert (await wire.ask(subject, data[start : start + CHUNK], seconds=30)) is not None
    if stops:
        return None
    reply = await wire.ask(subject, b"", seconds=30)
    assert reply is not None
    return json.loads(reply.payload)


async def names(wire: Wire) -> list[str]:
    """The streams that there are."""
    reply = await wire.ask("$JS.API.STREAM.NAMES")
    assert reply is not None
    return json.loads(reply.payload)["streams"] or []


def both(pair: Sequence[str], look: Callable[[Wire], Any]) -> list[Any]:
    """What a look at either server gives."""

    async def alone(url: str) -> Any:
        async with Wire.open(url) as wire:
            return await look(wire)

    return at_once(lambda url: asyncio.run(alone(url)), pair)


@pytest.mark.parametrize(
    "data",
    [
        archive(end=b""),
        archive()[:-9],
        b"",
        b"nonsense, and no stream",
        s2_frames.BEGIN + s2_frames.encode(MAGIC + encode(ArchiveEntry("s.x", 1, 1, b"", b"")) + encode(END)),
        archive(consumers=1),
        archive(size=1_100_000),
    ],
    ids=["no end", "cut", "empty", "nonsense", "no state", "no consumer", "too large"],
)
def test_wrong_archives_are_refused(pair: tuple[str, str], data: bytes) -> None:
    """Both refuse with the same code; Silt keeps nothing, so that the name is free at once."""

    async def look(wire: Wire) -> Any:
        refused = await restore(wire, data)
        return refused["type"], refused["error"]["code"], refused["error"]["err_code"]

    reference, silt = both(pair, look)
    assert silt == reference == ("io.nats.jetstream.api.v1.stream_create_response", 500, 10062)

    async def again(wire: Wire) -> Any:
        before = await names(wire)
        return before, (await restore(wire, archive()))["state"]["messages"]

    assert both(pair[1:], again) == [([], 3)]


def test_a_restored_stream_is_as_nats_server_shows_it(pair: tuple[str, str]) -> None:
    """The last reply has the stream's state, whose gaps at the end are kept, and nothing that a creation adds."""

    async def look(wire: Wire) -> Any:
        shown = await restore(wire, archive(first=5))
        del shown["created"], shown["ts"], shown["config"]["metadata"]["_nats.ver"]
        shown["state"].pop("last_ts")
        return shown

    reference, silt = both(pair, look)
    assert silt == reference
    assert (silt["state"]["first_seq"], silt["state"]["last_seq"]) == (5, 13)


def test_a_name_that_is_taken_is_refused(pair: tuple[str, str]) -> None:
    """Before any chunk, with nats-server's codes: the name of a stream, another name, and a name that is no name."""

    async def look(wire: Wire) -> Any:
        await wire.ask("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
        asked = [("S", CONFIG), ("T", CONFIG), ("a.b", CONFIG | {"name": "a.b"}), ("U", {"max_age": -1})]
        return [(await begin(wire, name, config)).get("error") for name, config in asked if name != "a.b"]

    reference, silt = both(pair, look)
    assert silt == reference


def test_a_sender_that_falls_silent_leaves_nothing(pair: tuple[str, str]) -> None:
    """After five seconds the restore is given up, and the name is free."""

    async def look(wire: Wire) -> Any:
        await restore(wire, archive(messages=9000, size=40, end=b""), stops=True)
        taken = (await begin(wire))["error"]["err_code"]
        await asyncio.sleep(6)
        return taken, await names(wire), (await restore(wire, archive()))["state"]["messages"]

    assert both(pair[1:], look) == [(10130, [], 3)]


def test_a_killed_gateway_restores_whole_streams_or_none(tmp_path: Path) -> None:
    """What was not whole is gone after the next start; what was acknowledged is there after a kill."""
    whole = archive(messages=20_000, size=200)

    async def cut(wire: Wire) -> Any:
        return await restore(wire, whole[: len(whole) // 2], stops=True)

    async def complete(wire: Wire) -> Any:
        before = await names(wire)
        return before, (await restore(wire, whole))["state"]

    async def after(wire: Wire) -> Any:
        reply = await wire.ask("$JS.API.STREAM.INFO.S")
        assert reply is not None
        return json.loads(reply.payload)["state"]

    def again(silt: Gateway) -> None:
        silt.child.kill()
        silt.start()

    with silt_server(tmp_path) as silt:
        both([silt.hub.url], cut)
        again(silt)
        ((before, state),) = both([silt.hub.url], complete)
        assert (before, state["messages"], state["last_seq"]) == ([], 20_000, 60_000)
        again(silt)
        assert both([silt.hub.url], after) == [state]


async def _send(wire: Wire, subject: str, data: bytes) -> None:
    for start in range(0, len(data), CHUNK):
        assert (await wire.ask(subject, data[start : start + CHUNK], seconds=30)) is not None


def test_a_restore_with_a_word_is_gone_on_with(tmp_path: Path) -> None:
    """What was durable when its sender, or the gateway, was gone is there when it asks again; the rest completes it."""
    most, word = 40_000, {"silt_resume": "the origin's"}
    whole = archive(messages=most, size=40)

    async def broken(url: str) -> None:
        async with Wire.open(url) as wire:
            begun = await begin(wire, **word)
            assert begun["silt_resumed"] == 0
            content = b"".join(FrameReader().feed(whole))
            await _send(
                wire, begun["deliver_subject"], s2_frames.BEGIN + s2_frames.encode(content[: len(content) // 2])
            )
            await wire.ask(begun["deliver_subject"], b"", seconds=30)
            assert not await names(wire)

    async def gone_on_with(url: str) -> dict[str, Any]:
        async with Wire.open(url) as wire:
            assert not await names(wire)
            begun = await begin(wire, **word)
            resumed = begun["silt_resumed"]
            assert 16_000 <= resumed // 3 < most
            state = {"first_seq": 1, "last_seq": most * 3, "messages": most, "consumer_count": 0}
            entries = [ArchiveEntry("state.json", TS_NS, 0, b"", json.dumps(state).encode())]
            entries += [
                ArchiveEntry("s.x", TS_NS + seq, seq, b"", b"d" * 40) for seq in range(1, most * 3, 3) if seq > resumed
            ]
            content = MAGIC + b"".join(map(encode, entries)) + encode(END)
            await _send(wire, begun["deliver_subject"], s2_frames.BEGIN + s2_frames.PADDING + s2_frames.encode(content))
            reply = await wire.ask(begun["deliver_subject"], b"", seconds=30)
            assert reply is not None
            return dict(json.loads(reply.payload))

    with silt_server(tmp_path) as silt:
        asyncio.run(broken(silt.hub.url))
        silt.child.kill()
        silt.start()
        made = asyncio.run(gone_on_with(silt.hub.url))
        assert (made["state"]["messages"], made["state"]["last_seq"]) == (most, most * 3)
        silt.child.kill()
        silt.start()

        async def at_last(url: str) -> Any:
            async with Wire.open(url) as wire:
                reply = await wire.ask("$JS.API.STREAM.INFO.S")
                assert reply is not None
                return json.loads(reply.payload)["state"]["messages"]

        assert asyncio.run(at_last(silt.hub.url)) == most
