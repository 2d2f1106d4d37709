"""A real hub's ``max_payload`` on every way out: nothing ends the leaf link, and each question gets an answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.servers import silt_server
from tests.wire import Delivered, Wire

MIB = 2**20
API = "$JS.API."


async def _ask(wire: Wire, endpoint: str, body: Any = None) -> dict[str, Any]:
    reply = await wire.ask(API + endpoint, b"" if body is None else json.dumps(body).encode(), seconds=60)
    assert reply is not None, endpoint
    shown: dict[str, Any] = json.loads(reply.payload)
    return shown


async def _many_subjects(wire: Wire) -> None:
    """30,000 subjects of forty bytes come in pages."""
    await _ask(wire, "STREAM.CREATE.MANY", {"name": "MANY", "subjects": ["many.>"], "no_ack": True})
    subjects = [f"many.{number:035}" for number in range(30_000)]
    for subject in subjects:
        wire.publish(subject)
    for _ in range(600):
        if (await _ask(wire, "STREAM.INFO.MANY"))["state"]["messages"] == len(subjects):
            break
        await asyncio.sleep(0.1)
    found: list[str] = []
    while len(found) < len(subjects):
        shown = await _ask(wire, "STREAM.INFO.MANY", {"subjects_filter": ">", "offset": len(found)})
        assert shown["total"] == len(subjects)
        found += shown["state"]["subjects"]
    assert found == subjects


async def _large_messages(wire: Wire) -> None:
    """Messages as large as the hub takes them, which more would have to go with than their payload."""
    config = {
        "name": "BIG",
        "subjects": ["big.*"],
        "allow_direct": True,
        "republish": {"src": "big.*", "dest": "r.{{wildcard(1)}}"},
    }
    assert "error" not in await _ask(wire, "STREAM.CREATE.BIG", config)
    republished: list[Delivered] = []
    wire.listen("r.>", republished.append)
    for subject, size in (("big.small", 9), ("big.whole", MIB), ("big.last", 9)):
        stored = await wire.ask(subject, b"x" * size, seconds=60)
        assert stored is not None
        assert "error" not in json.loads(stored.payload)
    assert (await _ask(wire, "STREAM.MSG.GET.BIG", {"seq": 2}))["error"]["err_code"] == 10054
    assert "error" not in await _ask(wire, "STREAM.MSG.GET.BIG", {"seq": 3})
    for request in ({"seq": 2}, {"last_by_subj": "big.whole"}, {"next_by_subj": "big.whole"}):
        direct = await wire.ask(f"{API}DIRECT.GET.BIG", json.dumps(request).encode(), seconds=60)
        assert direct is not None
        assert direct.status == "413 Message Too Large"
    inbox = wire.send(f"{API}DIRECT.GET.BIG", json.dumps({"seq": 1, "batch": 5}).encode())
    replies = [await wire.receive(inbox, seconds=60) for _ in range(2)]
    assert [(reply.status, len(reply.payload)) for reply in replies if reply] == [("", 9), ("413 Message Too Large", 0)]
    bare = await wire.ask(f"{API}DIRECT.GET.BIG", b'{"seq":2,"no_hdr":true}', seconds=60)
    assert bare is not None
    assert len(bare.payload) == MIB
    consumer = {"name": "c", "ack_policy": "none", "deliver_subject": "deliver.c"}
    delivered: list[Delivered] = []
    wire.listen("deliver.c", delivered.append)
    await _ask(wire, "CONSUMER.CREATE.BIG.c", {"stream_name": "BIG", "config": consumer})
    for _ in range(600):
        if len(delivered) == 3:
            break
        await asyncio.sleep(0.1)
    assert [len(one.payload) for one in delivered] == [9, MIB, 9]
    assert [one.subject for one in republished] == ["r.small", "r.last"]


def test_no_answer_ends_the_link(tmp_path: Path) -> None:
    """Subject counts come in pages, a message that only just fits is delivered, and what can't be sent is an error."""

    async def steps(url: str) -> None:
        async with Wire.open(url) as wire:
            await _many_subjects(wire)
            await _large_messages(wire)

    with silt_server(tmp_path) as running:
        asyncio.run(steps(running.hub.url))
        log = running.child.log.read_text()
    assert log.count("leaf link attached") == 1
    assert "Maximum Payload" not in log
    assert "message too large for the hub" in log
