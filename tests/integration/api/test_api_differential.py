"""One session with every endpoint of streams and messages: Silt's replies are nats-server's, byte for byte.

Apart from what differs by nature (when it happened, who leads) and one deliberate difference: an empty page of stream
names is ``[]``. Messages get the times that nats-server gave them. Only dispatch and catalog are under test; the
payloads of STREAM.MSG.GET come out of a dict here.
"""

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout

from api.jetstream.api_call import ApiRequest, NeedMessage
from api.jetstream.dispatch import dispatch
from api.jetstream.responses import ApiAccount, msg_get_reply
from delta_store.dialect.times import parse_time
from delta_store.streams.catalog import Catalog
from delta_store.values.records import Kind, Row, RowColumns, checksum
from delta_store.values.stream_message import StreamMessage
from tests.engines import engine_of
from tests.integration.api.api_steps import EMPTY_NAMES_AS_NULL, SESSION, UNANSWERED, Ask, Publish
from tests.servers import nats_server

_BY_NATURE = re.compile(rb'"(created|ts|leader)":"[^"]*"')


class Turn(NamedTuple):
    """What nats-server made of one step: a reply, or a stored message and its stream."""

    step: Ask | Publish
    reply: bytes = b""
    stream: str = ""
    message: StreamMessage | None = None


async def ask(client: Client, step: Ask) -> bytes:
    """One request."""
    headers = {"Nats-Required-Api-Level": step.level} if step.level is not None else None
    reply = await client.request(f"$JS.API.{step.endpoint}", step.body.encode(), timeout=5, headers=headers)
    return reply.data


async def publish(client: Client, step: Publish) -> Turn:
    """Publish and read back what was stored (a successful STREAM.MSG.GET is not counted by the API)."""
    ack = json.loads((await client.request(step.subject, step.data, timeout=5, headers=step.headers)).data)
    body = json.dumps({"seq": ack["seq"]})
    shown = json.loads(await ask(client, Ask(f"STREAM.MSG.GET.{ack['stream']}", body)))["message"]
    headers = b64decode(shown["hdrs"]) if "hdrs" in shown else None
    data = b64decode(shown.get("data", ""))
    message = StreamMessage(step.subject, ack["seq"], parse_time(shown["time"]), headers, data)
    return Turn(step, stream=ack["stream"], message=message)


async def play(url: str) -> list[Turn]:
    """The whole session on nats-server."""
    client = await nats.connect(url)
    try:
        return [
            await publish(client, step) if isinstance(step, Publish) else Turn(step, await ask(client, step))
            for step in SESSION
        ]
    finally:
        await client.close()


async def answered(url: str) -> list[str]:
    """Those of UNANSWERED that nats-server answers after all."""
    client = await nats.connect(url)

    async def is_answered(endpoint: str) -> bool:
        try:
            await client.request(f"$JS.API.{endpoint}", b"", timeout=0.5)
        except (NatsTimeout, NoRespondersError):
            return False
        return True

    try:
        found = await asyncio.gather(*(is_answered(endpoint) for endpoint in UNANSWERED))
    finally:
        await client.close()
    return [endpoint for endpoint, is_one in zip(UNANSWERED, found, strict=True) if is_one]


class Silt:
    """Silt's side of the session."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.account = ApiAccount()
        self.rows = RowColumns()
        self.consumers = engine_of(self.catalog, self.rows)
        self.messages: dict[tuple[str, int], StreamMessage] = {}
        self.now_ns = 10**18

    def store(self, stream: str, message: StreamMessage) -> None:
        """Store a message just as nats-server did."""
        state = self.catalog.streams[stream]
        subject, seq, ts_ns, headers, data = message
        first = state.index.first_seq or 1
        crc = checksum(subject, headers, data)
        kind = Kind.MESSAGE.value
        row = Row(stream, state.stream_id, seq, 0, kind, subject, ts_ns, None, first, 0, headers, data, crc)
        self.catalog.apply(row)
        self.messages[stream, seq] = message

    def answer(self, step: Ask) -> bytes | None:
        """The reply to a request."""
        self.now_ns += 1
        level = f"NATS/1.0\r\nNats-Required-Api-Level: {step.level}\r\n\r\n".encode() if step.level is not None else b""
        request = ApiRequest(f"$JS.API.{step.endpoint}".encode(), b"_INBOX.x", level, step.body.encode())
        reply = dispatch(
            self.catalog,
            request,
            now_ns=self.now_ns,
            rows=self.rows,
            account=self.account,
            consumers=self.consumers.registry,
        )
        if isinstance(reply, NeedMessage):
            return msg_get_reply(self.messages.get((reply.plan.stream, reply.plan.seqs[0])), no_hdr=reply.no_hdr)
        return reply


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A fresh nats-server with JetStream, for this module."""
    folder: Path = tmp_path_factory.mktemp("nats")
    with nats_server(folder, jetstream=True) as server:
        yield server.url


def test_session(url: str) -> None:
    """Every reply of the session has nats-server's bytes."""
    silt = Silt()
    wrong = []
    for turn in asyncio.run(play(url)):
        if turn.message is not None:
            silt.store(turn.stream, turn.message)
            continue
        assert isinstance(turn.step, Ask)
        ours, theirs = silt.answer(turn.step) or b"", turn.reply.replace(EMPTY_NAMES_AS_NULL, b'"streams":[]')
        if _BY_NATURE.sub(b"", ours) != _BY_NATURE.sub(b"", theirs):
            wrong.append(f"{turn.step}\n  nats-server {theirs.decode()}\n  silt        {ours.decode()}")
    assert not wrong, "\n".join(wrong)


def test_unanswered(url: str) -> None:
    """What nats-server leaves unanswered Silt leaves unanswered."""
    assert asyncio.run(answered(url)) == []
    silt = Silt()
    assert [endpoint for endpoint in UNANSWERED if silt.answer(Ask(endpoint)) is not None] == []
