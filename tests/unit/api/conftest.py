"""A catalog with streams and messages, and a short way to ask the API about it."""

import json
from typing import Any

import pytest

from api.jetstream.api_call import ApiRequest, NeedMessage, StartedReply
from api.jetstream.dispatch import HeadedReply, dispatch
from api.jetstream.responses import ApiAccount, msg_get_reply
from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row
from delta_store.values.records import Kind, Row, RowColumns, checksum
from delta_store.values.stream_message import StreamMessage
from tests.engines import engine_of

NOW_NS = 1_764_000_000_000_000_000


class Api:
    """The API over a catalog in memory; payloads of messages are kept here."""

    def __init__(self, domain: str = "") -> None:
        self.catalog = Catalog(domain=domain)
        self.account = ApiAccount()
        self.rows = RowColumns()
        self.now_ns = NOW_NS
        self.listened: set[bytes] = set()
        """Subjects that somebody listens to."""
        self.consumers = engine_of(self.catalog, self.rows, listened=self.listened)
        self.begun: list[Any] = []
        """The transfers that requests began."""
        self.messages: dict[tuple[str, int], StreamMessage] = {}

    def reply(self, endpoint: str, body: Any = "", *, header: bytes = b"", prefix: str = "$JS.API.") -> bytes | None:
        """The bytes of the reply; ``body`` is text or an object."""
        payload = body if isinstance(body, str) else json.dumps(body)
        request = ApiRequest(f"{prefix}{endpoint}".encode(), b"_INBOX.x", header, payload.encode())
        reply = dispatch(
            self.catalog,
            request,
            now_ns=self.now_ns,
            rows=self.rows,
            account=self.account,
            consumers=self.consumers.registry,
        )
        if isinstance(reply, StartedReply):
            self.begun.append(reply.work)
            return reply.reply
        if isinstance(reply, HeadedReply):
            return reply.reply
        if isinstance(reply, NeedMessage):
            return msg_get_reply(self.messages.get((reply.plan.stream, reply.plan.seqs[0])), no_hdr=reply.no_hdr)
        return reply

    def ask(self, endpoint: str, body: Any = "", **options: Any) -> dict[str, Any]:
        """The reply as an object."""
        reply = self.reply(endpoint, body, **options)
        assert reply is not None
        shown: dict[str, Any] = json.loads(reply)
        return shown

    def error(self, endpoint: str, body: Any = "", **options: Any) -> tuple[int, int, str]:
        """Code, err_code and text of an error reply."""
        error = self.ask(endpoint, body, **options)["error"]
        return error["code"], error["err_code"], error["description"]

    def stream(self, name: str, **config: Any) -> None:
        """Create a stream."""
        assert "error" not in self.ask(f"STREAM.CREATE.{name}", {"name": name, **config})

    def store(self, stream: str, subject: str, data: bytes = b"", headers: bytes | None = None) -> int:
        """Store a message a millisecond after the one before."""
        state = self.catalog.streams[stream]
        self.now_ns += 1_000_000
        seq = state.index.last_seq + 1
        first = state.index.first_seq or 1
        place = (stream, state.stream_id, seq, 0, Kind.MESSAGE.value, subject, self.now_ns, None, first, 0)
        replay_row(self.catalog, Row(*place, headers, data, checksum(subject, headers, data)))
        self.messages[stream, seq] = StreamMessage(subject, seq, self.now_ns, headers, data)
        return seq


@pytest.fixture
def api() -> Api:
    """An API without streams."""
    return Api()


@pytest.fixture
def filled(api: Api) -> Api:
    """An API with stream S: nine messages on ``s.0``, ``s.1`` and ``s.2``, every other one with a header."""
    api.stream("S", subjects=["s.>"])
    for number in range(9):
        api.store("S", f"s.{number % 3}", b"d%d" % number, b"NATS/1.0\r\nH: v\r\n\r\n" if number % 2 else None)
    return api
