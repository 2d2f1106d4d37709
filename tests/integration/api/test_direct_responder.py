"""The responder over real tables: the same bytes whether payloads are in memory, in the journal or settled."""

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from api.responder.direct_responder import DirectResponder
from conf.clock import SystemClock
from delta_store.config.stream_config import StreamConfig
from delta_store.reading.read_threads import ReadsBusy, ReadThreads
from delta_store.stores.replica import Replica
from delta_store.streams.event_rows import stream_data
from delta_store.values.records import Kind
from ingest.protocol.wire_protocol import WireMessage
from tests.direct_answers import Collected
from tests.tables import History, Tables

BODIES: list[Any] = [
    *({"seq": seq} for seq in (1, 2, 50, 1500, 1700, 9999)),
    *({"seq": seq, "batch": count} for seq, count in ((1, 1), (1, 700), (1, 5000), (1490, 300), (1700, 9), (9999, 3))),
    {"seq": 1, "batch": 5000, "max_bytes": 3000}, {"seq": 1600, "batch": 5000, "max_bytes": 1},
    {"seq": 1, "batch": 100, "no_hdr": True}, {"next_by_subj": "s.3", "batch": 1000}, {"next_by_subj": "s.9"},
    {"multi_last": ["s.>"]}, {"multi_last": ["s.1", "s.2"], "batch": 1}, {"multi_last": ["nothing"]},
    {"multi_last": ["s.>"], "up_to_seq": 3}, {"multi_last": ["s.>"], "up_to_seq": 900, "seq": 899},
    {"multi_last": ["s.>"], "up_to_seq": 900, "max_bytes": 20}, {"last_by_subj": "s.4"}, {"batch": 3}, {},
]  # fmt: skip


def stored(folder: Path) -> Tables:
    """1,600 messages with a hole, three quarters settled; the first values of a subject were evicted long ago."""
    history, tables = History(), Tables(folder)
    history.event_no += 1
    config = StreamConfig(name="S", subjects=("s.>",), allow_direct=True)
    tables.commit([history._event(Kind.STREAM, stream_data(config, history.stream_id))])
    for _ in range(8):
        tables.commit([history.publish(f"s.{number % 7}", os.urandom(9)) for number in range(200)])
    tables.commit([history.remove([1, 2, 899], "limits", erase=False)])
    tables.settle(tables.rows[:1200])
    tables.settle(tables.rows[:1201])
    closed = History(stream="CLOSED")
    closed.event_no += 1
    closed_config = StreamConfig(name="CLOSED", subjects=("c",))
    tables.commit([closed._event(Kind.STREAM, stream_data(closed_config, closed.stream_id))])
    return tables


def over(folder: Path, use: Callable[[DirectResponder, Collected, Replica], Awaitable[None]], tail_bytes: int) -> None:
    """Run ``use`` with a responder whose cache holds so many bytes."""

    async def run() -> None:
        threads = ReadThreads(2, timeout_seconds=30)
        replica = Replica(str(folder), threads, clock=SystemClock(), tail_bytes=tail_bytes)
        await replica.open()
        sink = Collected()
        responder = DirectResponder(replica.reader, sink, concurrency=2, drain_seconds=5)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(responder.run())
            await use(responder, sink, replica)
            running.cancel()
        threads.close()

    asyncio.run(run())


def requests() -> list[WireMessage]:
    """All bodies, each with a reply subject of its own."""
    made = []
    for number, body in enumerate(BODIES):
        many = "batch" in body or "multi_last" in body
        reply = f"{'m' if many else 'o'}{number}".encode()
        made.append(WireMessage(b"$JS.API.DIRECT.GET.S", reply, b"", json.dumps(body).encode()))
    made.append(WireMessage(b"$JS.hub.API.DIRECT.GET.S.s.3", b"o-key", b"", b""))
    return made


def test_answers_do_not_depend_on_where_payloads_are(tmp_path: Path) -> None:
    """Everything in memory, nothing in memory, and a part of it: the replies are the same to the byte."""
    stored(tmp_path)
    answers: list[dict[bytes, bytes]] = []

    async def use(responder: DirectResponder, sink: Collected, replica: Replica) -> None:
        responder.respond(requests())
        await sink.complete([message.reply for message in requests()])
        answers.append(sink.frames)

    for tail_bytes in (1 << 30, 60_000, 0):
        over(tmp_path, use, tail_bytes)
    assert answers[0] == answers[1] == answers[2]
    past = answers[0][b"m%d" % BODIES.index({"multi_last": ["s.>"], "up_to_seq": 3})]
    assert past.count(b"HMSG") == 4
    assert b"Nats-Num-Pending: 0\r\nNats-Last-Sequence: 3\r\nNats-UpTo-Sequence: 3" in past


def test_what_nobody_serves_has_no_responders(tmp_path: Path) -> None:
    """An unknown stream and one without allow_direct answer as if nobody listened; without reply nothing is sent."""
    stored(tmp_path)

    async def use(responder: DirectResponder, sink: Collected, replica: Replica) -> None:
        expected = []
        for name in (b"NONE", b"CLOSED", b"CLOSED.c"):
            subject = b"$JS.API.DIRECT.GET." + name
            responder.respond([WireMessage(subject, name, b"", b'{"seq":1}')])
            block = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
            expected.append(b"HMSG %b %d %d\r\n%b\r\n" % (name, len(block), len(block), block))
        assert list(sink.frames.values()) == expected
        assert responder.answer(WireMessage(b"$JS.API.DIRECT.GET.S", b"", b"", b'{"seq":5}')) is None

    over(tmp_path, use, 1 << 30)


def test_damage_and_a_lost_past_are_statuses(tmp_path: Path) -> None:
    """A damaged file and a point behind the horizon are said, and other requests go on."""
    stored(tmp_path)
    victim = max((tmp_path / "messages").rglob("*.parquet"), key=lambda path: path.stat().st_size)

    async def use(responder: DirectResponder, sink: Collected, replica: Replica) -> None:
        (tmp_path / "messages/_delta_log" / f"{0:020d}.json").rename(tmp_path / "hidden")
        victim.write_bytes(victim.read_bytes()[:-100])
        bodies = [(b"mp", {"multi_last": ["s.>"], "up_to_seq": 5}), (b"md", {"seq": 3, "batch": 1000})]
        for reply, body in bodies:
            responder.respond([WireMessage(b"$JS.API.DIRECT.GET.S", reply, b"", json.dumps(body).encode())])
        await sink.complete([b"mp", b"md"])
        assert b"NATS/1.0 410 Past History Horizon\r\nSilt-Oldest-Sequence: " in sink.frames[b"mp"]
        assert b"NATS/1.0 500 damaged_data\r\n\r\n" in sink.frames[b"md"]
        responder.respond([WireMessage(b"$JS.API.DIRECT.GET.S", b"o", b"", b'{"seq":1599}')])
        await sink.complete([b"o"])
        assert b"Nats-Sequence: 1599" in sink.frames[b"o"]

    over(tmp_path, use, 0)


def test_waiting_reads_are_bounded_and_late_ones_time_out() -> None:
    """More than the allowed calls are refused at once; a call that takes too long raises, others still run."""

    async def run() -> None:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        threads = ReadThreads(1, timeout_seconds=0.2, waiting_max=1)

        def block() -> None:
            asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(30)

        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(late(threads, block)) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(ReadsBusy):
                await threads.run(block)
            assert [await one for one in waiting] == ["late", "late"]
            gate.set()
        async with asyncio.timeout(30):
            while True:
                try:
                    assert await threads.run(lambda: 5) == 5
                    break
                except (ReadsBusy, TimeoutError):
                    await asyncio.sleep(0.01)
        threads.close()

    async def late(threads: ReadThreads, read: Callable[[], None]) -> str:
        try:
            await threads.run(read)
        except TimeoutError:
            return "late"
        return "in time"

    asyncio.run(run())


def test_a_past_point_is_asked_in_every_form(tmp_path: Path) -> None:
    """At a point where nothing is missing the replies are those of now to the byte; before, what was there then."""
    stored(tmp_path)
    bodies = [body for body in BODIES if "up_to_seq" not in body and body]

    async def use(responder: DirectResponder, sink: Collected, replica: Replica) -> None:
        asked: dict[bytes, list[bytes]] = {}
        for number, body in enumerate(bodies):
            kind = "m" if "batch" in body or "multi_last" in body else "o"
            names = [f"{kind}{number}{when}".encode() for when in ("now", "was")]
            for name, more in zip(names, ({}, {"silt_as_of": 99_999}), strict=True):
                payload = json.dumps(body | more).encode()
                responder.respond([WireMessage(b"$JS.API.DIRECT.GET.S", name, b"", payload)])
            asked[names[0]] = names
        then = b'{"next_by_subj":"s.>","batch":5,"silt_as_of":900}'
        responder.respond(
            [
                WireMessage(b"$JS.API.DIRECT.GET.S", b"m-then", b"", then),
                WireMessage(b"$JS.API.DIRECT.GET.S.s.3", b"o-key", b"", b'{"silt_as_of":4}'),
                WireMessage(b"$JS.API.DIRECT.GET.S", b"o-old", b"", b'{"seq":1,"silt_as_of":"2001-01-01"}'),
            ]
        )
        await sink.complete([*(name for names in asked.values() for name in names), b"m-then", b"o-key", b"o-old"])
        for now, was in asked.values():
            assert sink.frames[was].replace(was, now) == sink.frames[now], now
        assert [int(seq) for seq in re.findall(rb"Nats-Sequence: (\d+)", sink.frames[b"m-then"])] == [1, 2, 3, 4, 5]
        assert b"Nats-Sequence: 4\r\n" in sink.frames[b"o-key"]
        assert b"404" in sink.frames[b"o-old"]

    over(tmp_path, use, 60_000)
