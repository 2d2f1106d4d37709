"""Direct Get against nats-server's own: the same requests on the same messages give the same bytes."""

import base64
import json
import random
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from api.direct.direct_frames import NOT_FOUND, TOO_MANY_RESULTS, PageFrames, nothing, one_frame, status_frame
from api.direct.direct_plan import plan
from api.direct.direct_request import DirectRequest, parse_body, parse_subject
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect.times import format_time, parse_time
from delta_store.index.matching import last_by_subject
from delta_store.reading.read_plan import PagePlan, PastPlan, ReadPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import TooMany
from delta_store.values.records import stored_size
from delta_store.values.stream_message import StreamMessage
from tests.servers import nats_server

Reply = tuple[bytes, bytes]
"""Header block and payload."""


class Client:
    """A NATS client on a plain socket, so that replies are seen byte by byte."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("nats://").split(":")
        self.peer = socket.create_connection((host, int(port)), timeout=10)
        self.file = self.peer.makefile("rb")
        self.file.readline()
        self.peer.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB inbox 1\r\nPING\r\n')
        assert self.file.readline() == b"PONG\r\n"

    def send(self, subject: str, body: bytes = b"", header: bytes = b"") -> None:
        """Publish a request whose replies go to this client."""
        if header:
            head = b"HPUB %b inbox %d %d\r\n" % (subject.encode(), len(header), len(header) + len(body))
        else:
            head = b"PUB %b inbox %d\r\n" % (subject.encode(), len(body))
        self.peer.sendall(head + header + body + b"\r\n")

    def reply(self) -> Reply:
        """The next reply."""
        while True:
            parts = self.file.readline().split()
            if parts[0] == b"HMSG":
                whole = self.file.read(int(parts[-1]) + 2)[:-2]
                return whole[: int(parts[-2])], whole[int(parts[-2]) :]
            if parts[0] == b"MSG":
                return b"", self.file.read(int(parts[-1]) + 2)[:-2]
            assert parts[0] in (b"PING", b"PONG"), parts
            if parts[0] == b"PING":
                self.peer.sendall(b"PONG\r\n")

    def api(self, subject: str, body: Any = None) -> dict[str, Any]:
        """An API call that must succeed."""
        self.send(f"$JS.API.{subject}", b"" if body is None else json.dumps(body).encode())
        answer: dict[str, Any] = json.loads(self.reply()[1])
        assert "error" not in answer, answer
        return answer

    def direct(self, stream: str, request: "Request") -> list[Reply]:
        """All replies to a Direct Get."""
        self.send(f"$JS.API.DIRECT.GET.{stream}{request.key}", request.body, request.header)
        replies = [self.reply()]
        while request.many and not replies[-1][0].startswith(b"NATS/1.0 "):
            replies.append(self.reply())
        return replies


@dataclass(frozen=True)
class Request:
    """One request; ``key`` is the dot and subject of the subject-appended form."""

    body: bytes
    key: str = ""
    header: bytes = b""

    @property
    def many(self) -> bool:
        """Whether replies go on until a status ends them."""
        return any(word in self.body for word in (b"batch", b"multi_last")) and not self.key


@dataclass
class Mirror:
    """The same stream in both: nats-server's and ours, fed message by message."""

    client: Client
    state: StreamState
    stored: dict[int, StreamMessage] = field(default_factory=dict)

    @classmethod
    def create(cls, client: Client, name: str, **options: Any) -> "Mirror":
        """The stream in both."""
        config = {"name": name, "subjects": [f"{name}.>"], "storage": "file", "allow_direct": True, **options}
        client.api(f"STREAM.CREATE.{name}", config)
        ours = StreamConfig(
            name=name,
            storage=config["storage"],
            max_msgs_per_subject=options.get("max_msgs_per_subject", -1),
            metadata={"silt.point_in_time": "live"},
        )
        return cls(client, StreamState(ours, stream_id=1, created_ns=1))

    def publish(self, subject: str, data: bytes, header: bytes = b"") -> None:
        """Store a message in both, with nats-server's own sequence and time."""
        name, index = self.state.config.name, self.state.index
        self.client.send(f"{name}.{subject}", data, header)
        seq = json.loads(self.client.reply()[1])["seq"]
        shown = self.client.api(f"STREAM.MSG.GET.{name}", {"seq": seq})["message"]
        stored = StreamMessage(shown["subject"], seq, parse_time(shown["time"]), header or None, data)
        assert base64.b64decode(shown.get("hdrs", "")) == header
        self.stored[seq] = stored
        size = stored_size(stored.subject, stored.headers, data)
        before = last_by_subject(index, stored.subject)
        index.append(seq, index.table.intern(stored.subject), ts_ns=stored.ts_ns, size=size)
        if before and self.state.config.max_msgs_per_subject == 1:
            index.remove(before)

    def delete(self, seq: int) -> None:
        """Delete a message in both."""
        self.client.api(f"STREAM.MSG.DELETE.{self.state.config.name}", {"seq": seq})
        assert self.state.index.remove(seq)

    def purge(self, **options: Any) -> None:
        """Purge both, below a sequence or all."""
        self.client.api(f"STREAM.PURGE.{self.state.config.name}", options)
        index = self.state.index
        last = options.get("seq", index.last_seq + 1) - 1
        index.advance_first(last + 1)

    def answer(self, request: Request) -> list[Reply]:
        """What ours replies, driven in small steps as a responder would."""
        if request.key:
            parsed = parse_subject(request.key[1:], request.header, request.body)
        else:
            parsed = parse_body(request.header, request.body)
        try:
            planned = parsed if isinstance(parsed, bytes) else plan(self.state, parsed) or nothing(parsed)
        except TooMany:
            planned = TOO_MANY_RESULTS
        assert not isinstance(planned, PastPlan)
        if isinstance(planned, bytes):
            return list(unframe(status_frame(planned, b"inbox")))
        assert isinstance(parsed, DirectRequest)
        if isinstance(planned, ReadPlan):
            one = self.stored[planned.seqs[0]]
            return list(unframe(one_frame(planned.stream, one, b"inbox", no_hdr=parsed.no_hdr)))
        return list(unframe(self.page(planned, no_hdr=parsed.no_hdr)))

    def page(self, planned: PagePlan, *, no_hdr: bool) -> bytes:
        """The frames of a batch or of many subjects."""
        page, frames = PageFrames(planned, no_hdr=no_hdr), b""
        for step in planned._replace(step=3).steps():
            frames += page.frames([self.stored[seq] for seq in step.seqs], b"inbox")
            if page.full:
                break
        return frames + status_frame(page.end(), b"inbox")


def unframe(frames: bytes) -> Iterator[Reply]:
    """Leaf frames back into replies."""
    while frames:
        line, _, rest = frames.partition(b"\r\n")
        verb, subject, *sizes = line.split(b" ")
        assert subject == b"inbox"
        head = int(sizes[0]) if verb == b"HMSG" else 0
        total = int(sizes[-1])
        assert verb in (b"HMSG", b"LMSG")
        assert rest[total : total + 2] == b"\r\n"
        yield rest[:head], rest[head:total]
        frames = rest[total + 2 :]


def header(**values: str) -> bytes:
    """A raw header block."""
    return b"NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in values.items()).encode() + b"\r\n"


def events(client: Client) -> Mirror:
    """Many subjects, some headers, holes at both ends and inside."""
    mirror = Mirror.create(client, "EV")
    for number in range(1, 41):
        block = header(Mine=f"v{number}", Other="x: y") if number % 3 == 0 else b""
        mirror.publish(f"{'abcd'[number % 4]}.{number % 3}", bytes(number), block)
    mirror.publish("ünïcode", "päyload".encode())
    mirror.publish("last", b"")
    for seq in (1, 2, 10, 11, 12, 20, 42):
        mirror.delete(seq)
    return mirror


def bucket(client: Client) -> Mirror:
    """A per-subject limit of one, written in a fixed random order."""
    mirror = Mirror.create(client, "KV", max_msgs_per_subject=1)
    order = random.Random(7)
    for number in range(60):
        mirror.publish(f"k{order.randrange(9)}", f"value {number}".encode())
    return mirror


def memory(client: Client) -> Mirror:
    """The memory store, which answers some bounds in its own way."""
    mirror = Mirror.create(client, "MEM", storage="memory")
    for number in range(1, 13):
        mirror.publish(f"m.{number % 3}", f"{number}".encode())
    mirror.delete(5)
    return mirror


def empty(client: Client) -> Mirror:
    """A stream that never had a message."""
    return Mirror.create(client, "NEW")


def purged(client: Client) -> Mirror:
    """A stream whose messages are all gone."""
    mirror = Mirror.create(client, "GONE")
    for number in range(5):
        mirror.publish(f"p.{number}", b"x")
    mirror.purge()
    return mirror


def tail_only(client: Client) -> Mirror:
    """A stream that was purged in front."""
    mirror = Mirror.create(client, "TAIL")
    for number in range(12):
        mirror.publish(f"t.{number % 2}", b"y" * number)
    mirror.purge(seq=6)
    return mirror


STREAMS: list[Callable[[Client], Mirror]] = [events, bucket, memory, empty, purged, tail_only]


def requests(mirror: Mirror) -> list[Request]:
    """Every form, conflict and bound; sequences and times are the stream's own."""
    name, index = mirror.state.config.name, mirror.state.index
    last, first = index.last_seq, index.first_seq
    times = [mirror.stored[seq].ts_ns for seq in sorted(mirror.stored)] or [1_700_000_000_000_000_000]
    middle = times[len(times) // 2]
    bodies: list[Any] = [
        *({"seq": seq} for seq in (0, 1, 3, 4, 10, 20, last, last + 1, first, 2**63, 2**64 - 1)),
        *({"seq": seq, "batch": 5} for seq in (1, 9, last - 1, last, last + 1)),
        {"seq": 1, "batch": 1}, {"seq": 1, "batch": 1000}, {"seq": 1, "batch": -1}, {"batch": 10}, {"batch": -1},
        {"last_by_subj": f"{name}.a.1"}, {"last_by_subj": f"{name}.*.2"}, {"last_by_subj": ">"},
        {"last_by_subj": f"{name}.>"}, {"last_by_subj": "nothing"}, {"last_by_subj": f"{name}.k3"},
        {"last_by_subj": f"{name}.ünïcode"}, {"last_by_subj": "a..b"}, {"last_by_subj": f"{name}.a.1", "batch": -1},
        {"next_by_subj": f"{name}.b.>"}, {"next_by_subj": f"{name}.b.>", "seq": 8}, {"next_by_subj": ">", "seq": 10},
        {"next_by_subj": "none"}, {"next_by_subj": f"{name}.c.0", "seq": last}, {"next_by_subj": ">"},
        {"next_by_subj": f"{name}.>", "batch": 7}, {"next_by_subj": f"{name}.*.1", "batch": 3, "seq": 5},
        {"next_by_subj": f"{name}.k1", "batch": 3}, {"next_by_subj": "none", "batch": 3},
        {"next_by_subj": f"{name}.*.*", "batch": 100, "max_bytes": 120}, {"next_by_subj": "", "seq": 3, "batch": 2},
        {"seq": 1, "batch": 100, "max_bytes": 1}, {"seq": 1, "batch": 100, "max_bytes": -1},
        {"seq": 1, "batch": 4, "no_hdr": True}, {"seq": 3, "no_hdr": True}, {"last_by_subj": ">", "no_hdr": True},
        {"seq": 1, "batch": 3, "max_bytes": 40, "no_hdr": True}, {"seq": 3, "max_bytes": 1},
        *({"start_time": format_time(ts)} for ts in (times[0], times[-1], middle, middle + 1, times[-1] + 1, 1)),
        *({"start_time": format_time(ts), "batch": 3} for ts in (times[0], middle, middle + 1, times[-1] + 1, 1)),
        {"start_time": format_time(middle), "next_by_subj": f"{name}.*.2", "batch": 4},
        {"start_time": format_time(middle), "next_by_subj": ">"},
        {"start_time": "2020-01-01T00:00:00+02:00", "batch": 2}, {"start_time": "yesterday"},
        {"multi_last": [">"]}, {"multi_last": [f"{name}.a.*", f"{name}.*.1"]}, {"multi_last": ["none"]},
        {"multi_last": [f"{name}.a.1", f"{name}.a.1", f"{name}.b.2"]}, {"multi_last": []}, {"multi_last": [""]},
        {"multi_last": [">"], "batch": 2}, {"multi_last": [">"], "batch": -3}, {"multi_last": [">"], "max_bytes": 60},
        {"multi_last": [">"], "seq": 20}, {"multi_last": [">"], "seq": last + 9}, {"multi_last": [">"], "no_hdr": True},
        {"multi_last": [">"], "seq": 15, "batch": 2, "up_to_seq": 30},
        *({"multi_last": [">"], "up_to_seq": seq} for seq in (1, 2, 5, 11, 19, last, last + 1, first, first - 1)),
        {"multi_last": [f"{name}.k1", f"{name}.k2"], "up_to_seq": 30},
        {"multi_last": [">"], "start_time": "2020-01-01T00:00:00Z"},
        *({"multi_last": [">"], "up_to_time": format_time(ts)} for ts in (times[0], times[0] + 1, middle, middle + 1)),
        *({"multi_last": [f"{name}.>"], "up_to_time": format_time(ts)} for ts in (times[-1], times[-1] + 1, 1)),
        {"seq": 1, "last_by_subj": "a"}, {"seq": 1, "start_time": format_time(middle)}, {"up_to_seq": 3},
        {"start_time": format_time(middle), "last_by_subj": "a"}, {"last_by_subj": "a", "next_by_subj": "b"},
        {"last_by_subj": "a", "batch": 2}, {"last_by_subj": "a", "multi_last": ["b"]}, {"no_hdr": True},
        {"next_by_subj": "a", "multi_last": ["b"]}, {"multi_last": ["a"], "up_to_seq": 1, "up_to_time": format_time(1)},
        {"seq": 3, "up_to_seq": 1}, {"seq": 3, "unknown": {"a": [1]}}, {"SEQ": 3}, {"Seq": 3, "seq": 4},
        None, [], "text", 5, {}, {"seq": -1}, {"seq": 1.0}, {"seq": "3"}, {"seq": 2**64}, {"batch": 1.5, "seq": 1},
        {"multi_last": ">"}, {"multi_last": [1]}, {"no_hdr": 1, "seq": 3}, {"seq": None, "next_by_subj": ">"},
    ]  # fmt: skip
    made = [Request(json.dumps(body).encode()) for body in bodies]
    made += [
        Request(body)
        for body in (b"", b" ", b"{", b'{"seq":3} x', b'{"seq":03}', b'{"seq":3,}', b"\xff", b'{"seq":NaN}')
    ]
    made += [
        Request(b"", key) for key in (f".{name}.a.1", f".{name}.k3", f".{name}.none", f".{name}.last", f".{name}.p.1")
    ]
    key = f".{name}.a.1"
    made += [
        Request(json.dumps(body).encode(), key)
        for body in (
            {"seq": 1},
            {},
            {"no_hdr": True},
            {"max_bytes": 5},
            {"batch": 1},
            {"batch": -1},
            {"last_by_subj": "a"},
        )
    ]
    made += [Request(b"{", key), Request(b"[]", key), Request(b"null", key)]
    made += [
        Request(b'{"seq":3}', "", header(**{"Nats-Required-Api-Level": level})) for level in ("0", "1", "99", "x", "")
    ]
    return made


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a nats-server with JetStream."""
    folder: Path = tmp_path_factory.mktemp("oracle")
    with nats_server(folder, jetstream=True) as server:
        connected = Client(server.url)
        yield connected
        connected.file.close()
        connected.peer.close()


@pytest.mark.parametrize("make", STREAMS, ids=lambda make: make.__name__)
def test_replies_are_those_of_nats_server(client: Client, make: Callable[[Client], Mirror]) -> None:
    """Each request of each form gets the very replies that nats-server gives: status, headers, order, payload."""
    mirror = make(client)
    asked = requests(mirror)
    assert len(asked) >= 80
    wrong = []
    for request in asked:
        theirs, ours = client.direct(mirror.state.config.name, request), mirror.answer(request)
        if theirs != ours:
            wrong.append((request, theirs, ours))
    assert not wrong


def test_more_than_1024_subjects_are_too_many(client: Client) -> None:
    """The limit of 1024 counts resolved subjects, before ``batch`` and ``seq`` cut them down, here as there."""
    mirror = Mirror.create(client, "MANY")
    for number in range(1030):
        mirror.publish(f"s.{number % 1026}", b"v")
    bodies = [
        {"multi_last": ["MANY.>"]},
        {"multi_last": ["MANY.>"], "batch": 1},
        {"multi_last": ["MANY.>"], "seq": 1029},
        {"multi_last": ["MANY.>"], "up_to_seq": 1024, "batch": 2},
        {"multi_last": ["MANY.>"], "up_to_seq": 1025, "batch": 2},
        {"multi_last": [f"MANY.s.{number}" for number in range(1024)], "batch": 3},
    ]
    for body in bodies:
        request = Request(json.dumps(body).encode())
        assert mirror.answer(request) == client.direct("MANY", request), body


def test_a_missing_first_message_is_not_an_empty_batch() -> None:
    """Breaking the rule would show: a batch that finds nothing says not found, it never ends with EOB."""
    state = StreamState(StreamConfig(name="S"), stream_id=1, created_ns=1)
    parsed = parse_body(b"", b'{"seq":1,"batch":2}')
    assert not isinstance(parsed, bytes)
    planned = plan(state, parsed)
    assert isinstance(planned, PagePlan)
    assert list(planned.steps()) == []
    assert PageFrames(planned).end() == NOT_FOUND
