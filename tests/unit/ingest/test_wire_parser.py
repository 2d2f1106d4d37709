"""The parser in both dialects: every frame form, any cut of the stream, and nothing but a clear error for the rest."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.protocol import client_protocol
from ingest.protocol.client_protocol import CLIENT
from ingest.protocol.leaf_protocol import (
    LEAF,
    encode_message,
    encode_subscribe,
    encode_unsubscribe,
    subject_of,
    with_queues,
)
from ingest.protocol.wire_protocol import (
    Dialect,
    Err,
    Event,
    Info,
    Interest,
    Ping,
    Pong,
    ProtocolError,
    WireMessage,
    WireParser,
)

HEADER = b"NATS/1.0\r\nNats-Msg-Id: 1\r\n\r\n"

tokens = st.binary(min_size=1, max_size=12).filter(lambda token: token.split() == [token] and b"\x00" not in token)
payloads = st.binary(max_size=60) | st.sampled_from([b"\r\n", b"LMSG a 1\r\nx\r\n", b"PING\r\n"])
headers = st.just(b"") | st.just(HEADER) | st.binary(min_size=1, max_size=30)
messages = st.builds(WireMessage, tokens, st.just(b"") | tokens, headers, payloads)
queues = st.lists(tokens, max_size=3).map(tuple)
control_frames = st.sampled_from(
    [
        (Ping(), b"PING\r\n"),
        (Pong(), b"PONG\r\n"),
        (Info(b'{"a":1} '), b'INFO {"a":1} \r\n'),
        (Err("Authorization Violation"), b"-ERR 'Authorization Violation'\r\n"),
    ]
)
interest_frames = st.sampled_from(
    [
        (Interest(b"a.>", b"", 1), b"LS+ a.>\r\n"),
        (Interest(b"a.*", b"q", 3), b"LS+ a.* q 3\r\n"),
        (Interest(b"a.>", b"", 0), b"LS- a.>\r\n"),
        (Interest(b"a.*", b"q", 0), b"LS- a.* q\r\n"),
    ]
)


def frame_of(message: WireMessage, names: tuple[bytes, ...] = ()) -> bytes:
    """A leaf's frame of a message, by the encoder under test."""
    return encode_message(message.subject, message.payload, header=message.header, reply=message.reply, queues=names)


def client_frame(message: WireMessage, sid: int = 7) -> bytes:
    """The frame in which a server gives a client this message."""
    reply = message.reply and message.reply + b" "
    total = len(message.header) + len(message.payload)
    if message.header:
        line = b"HMSG %b %d %b%d %d\r\n" % (message.subject, sid, reply, len(message.header), total)
    else:
        line = b"MSG %b %d %b%d\r\n" % (message.subject, sid, reply, total)
    return b"%b%b%b\r\n" % (line, message.header, message.payload)


leaf_streams = st.lists(
    st.builds(lambda message, names: (message, frame_of(message, names)), messages, queues)
    | control_frames
    | interest_frames,
    max_size=12,
)
client_streams = st.lists(
    st.builds(lambda message, sid: (message, client_frame(message, sid)), messages, st.integers(1, 10**9))
    | control_frames,
    max_size=12,
)
streams = st.tuples(st.just(LEAF), leaf_streams) | st.tuples(st.just(CLIENT), client_streams)
DIALECTS = pytest.mark.parametrize(
    ("dialect", "framed"), [(LEAF, frame_of), (CLIENT, client_frame)], ids=["leaf", "client"]
)


def flat(events: list[Event]) -> list[object]:
    """Events with each run of messages laid open."""
    return [single for event in events for single in (event if isinstance(event, list) else [event])]


def parse(chunks: list[bytes], parser: WireParser) -> tuple[list[object], str]:
    """All events of the chunks, and the error that ended them, if one did."""
    seen: list[object] = []
    for chunk in chunks:
        try:
            seen += flat(parser.feed(chunk))
        except ProtocolError as error:
            return seen + flat(error.events), str(error)
    return seen, ""


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` cut at these places (each modulo its length)."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:end] for start, end in pairwise(edges)]


@given(streams, st.lists(st.integers(0, 2000), max_size=20))
def test_any_stream_cut_anywhere_parses_to_what_was_encoded(
    stream: tuple[Dialect, list[tuple[object, bytes]]], places: list[int]
) -> None:
    """What comes out does not depend on where the stream was cut."""
    dialect, frames = stream
    data = b"".join(frame for _, frame in frames)
    expected = [event for event, _ in frames]
    assert parse(cut(data, places), WireParser(dialect)) == (expected, "")
    assert parse([data[i : i + 1] for i in range(len(data))], WireParser(dialect)) == (expected, "")


@given(streams, st.binary(max_size=40), st.integers(0, 2000), st.lists(st.integers(0, 2000), max_size=8))
def test_a_damaged_stream_gives_the_same_events_and_error_however_it_is_cut(
    stream: tuple[Dialect, list[tuple[object, bytes]]], noise: bytes, at: int, places: list[int]
) -> None:
    """A fault is found at the same event, with or without an error, whole or in pieces."""
    dialect, frames = stream
    data = b"".join(frame for _, frame in frames)
    at %= len(data) + 1
    damaged = data[:at] + noise + data[at:]
    whole, whole_error = parse([damaged], WireParser(dialect))
    pieces, pieces_error = parse(cut(damaged, places), WireParser(dialect))
    assert pieces == whole
    assert bool(pieces_error) == bool(whole_error)


BITS = st.sampled_from([b"LMSG ", b"MSG ", b"a 5\r\n", b"a 7 5\r\n", b"\r\n", b"LS+ ", b"HMSG a 3 ", b"HMSG a 7 3 "])


@given(st.sampled_from([LEAF, CLIENT]), st.lists(st.binary(max_size=200) | BITS))
@settings(max_examples=600)
def test_garbage_gives_events_or_an_error_and_holds_no_more_than_one_frame(
    dialect: Dialect, chunks: list[bytes]
) -> None:
    """Random bytes never hang the parser and never make it hold more than its limits allow."""
    parser = WireParser(dialect, line_max=64, payload_max=100)
    for chunk in chunks:
        try:
            parser.feed(chunk)
        except ProtocolError:
            assert parser.held_bytes <= 64 + 100 + 2 + len(chunk)
            return
        assert parser.held_bytes <= 64 + 100 + 2


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"LMSG a 2\r\nhi\r\n", WireMessage(b"a", b"", b"", b"hi")),
        (b"LMSG a r 2\r\nhi\r\n", WireMessage(b"a", b"r", b"", b"hi")),
        (b"LMSG a 7 2\r\nhi\r\n", WireMessage(b"a", b"7", b"", b"hi")),
        (b"LMSG a + 2\r\nhi\r\n", WireMessage(b"a", b"+", b"", b"hi")),
        (b"LMSG a | q 2\r\nhi\r\n", WireMessage(b"a", b"", b"", b"hi")),
        (b"LMSG a + r q1 q2 2\r\nhi\r\n", WireMessage(b"a", b"r", b"", b"hi")),
        (b"LMSG a + 7 2\r\nhi\r\n", WireMessage(b"a", b"7", b"", b"hi")),
        (b"LMSG a 002\r\nhi\r\n", WireMessage(b"a", b"", b"", b"hi")),
        (b"LMSG a 0\r\n\r\n", WireMessage(b"a", b"", b"", b"")),
        (b"HMSG a 28 30\r\n%bhi\r\n" % HEADER, WireMessage(b"a", b"", HEADER, b"hi")),
        (b"HMSG a r 28 28\r\n%b\r\n" % HEADER, WireMessage(b"a", b"r", HEADER, b"")),
        (b"HMSG a | q 28 30\r\n%bhi\r\n" % HEADER, WireMessage(b"a", b"", HEADER, b"hi")),
        (b"HMSG a + r q1 q2 28 30\r\n%bhi\r\n" % HEADER, WireMessage(b"a", b"r", HEADER, b"hi")),
    ],
)
def test_each_form_of_a_message_line(frame: bytes, message: WireMessage) -> None:
    """Every form that nats-server's processLeafMsgArgs knows is read as it reads it."""
    assert WireParser(LEAF).feed(frame) == [[message]]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"MSG a 1 2\r\nhi\r\n", WireMessage(b"a", b"", b"", b"hi")),
        (b"MSG a 1 r 2\r\nhi\r\n", WireMessage(b"a", b"r", b"", b"hi")),
        (b"MSG a 1 7 2\r\nhi\r\n", WireMessage(b"a", b"7", b"", b"hi")),
        (b"MSG 5 18446744073709551615 7 2\r\nhi\r\n", WireMessage(b"5", b"7", b"", b"hi")),
        (b"MSG a 1 0\r\n\r\n", WireMessage(b"a", b"", b"", b"")),
        (b"HMSG a 1 28 30\r\n%bhi\r\n" % HEADER, WireMessage(b"a", b"", HEADER, b"hi")),
        (b"HMSG a 1 r 28 28\r\n%b\r\n" % HEADER, WireMessage(b"a", b"r", HEADER, b"")),
        (b"HMSG a 1 7 28 28\r\n%b\r\n" % HEADER, WireMessage(b"a", b"7", HEADER, b"")),
    ],
)
def test_each_form_of_a_message_line_to_a_client(frame: bytes, message: WireMessage) -> None:
    """Numbers may stand for a subscription, a reply or a size: their place decides."""
    assert WireParser(CLIENT).feed(frame) == [[message]]


@DIALECTS
def test_frames_of_the_other_kind_of_link_are_refused(dialect: Dialect, framed: Callable[[WireMessage], bytes]) -> None:
    """A listener that speaks to the wrong kind of peer is found out by its first message."""
    other = CLIENT if dialect is LEAF else LEAF
    with pytest.raises(ProtocolError, match=f"not a {other.name} frame"):
        WireParser(other).feed(framed(WireMessage(b"a", b"", b"", b"hi")))


@pytest.mark.parametrize(
    "data",
    [
        b"MSG a 1\r\n",
        b"MSG a 2\r\nhi\r\n",
        b"MSG a x 2\r\nhi\r\n",
        b"MSG a -1 2\r\nhi\r\n",
        b"MSG a 1 r q 2\r\nhi\r\n",
        b"MSG a 1  2\r\nhi\r\n",
        b"MSG  a 1 2\r\nhi\r\n",
        b"MSG a 1 2\r\nhixx",
        b"MSG a 1 2\nhi\r\n",
        b"MSG a 1 9999999999\r\n",
        b"HMSG a 1 30 28\r\n%b\r\n" % HEADER,
        b"HMSG a 28 28\r\n%b\r\n" % HEADER,
        b"msg a 1 2\r\nhi\r\n",
        b"LS+ a\r\n",
        b"SUB a 1\r\n",
        b"+OK \r\n",
    ],
)
def test_what_no_server_sends_a_client_is_refused(data: bytes) -> None:
    """What no server sends ends the connection, and stays refused."""
    parser = WireParser(CLIENT)
    with pytest.raises(ProtocolError):
        parser.feed(data)
    with pytest.raises(ProtocolError):
        parser.feed(b"PING\r\n")


@pytest.mark.parametrize(
    "data",
    [
        b"LMSG a\r\n",
        b"LMSG  a 2\r\nhi\r\n",
        b"LMSG a\t2\r\nhi\r\n",
        b"LMSG a -2\r\nhi\r\n",
        b"LMSG a 1_0\r\n",
        b"LMSG a 9999999999\r\n",
        b"LMSG a 2\nhi\r\n",
        b"LMSG a 2\r\nhixx",
        b"LMSG a 2\r\nhix\n",
        b"LMSG a 2\r\nhi\rx",
        b"LMSG a ? r q 2\r\nhi\r\n",
        b"HMSG a 30 28\r\n%b\r\n" % HEADER,
        b"lmsg a 2\r\nhi\r\n",
        b"MSG a 1 2\r\nhi\r\n",
        b"PING \r\n",
        b"PING\n",
        b"LS+ \r\n",
        b"LS+ a q\r\n",
        b"LS+ a q x\r\n",
        b"LS- a q 1\r\n",
        b"INFO\r\n",
        b"GET / HTTP/1.1\r\n",
        b"\r\n",
        b"\x16\x03\x01\x00\n",
    ],
)
def test_a_malformed_frame_is_refused(data: bytes) -> None:
    """What no hub sends ends the connection, and stays refused."""
    parser = WireParser(LEAF)
    with pytest.raises(ProtocolError):
        parser.feed(data)
    with pytest.raises(ProtocolError):
        parser.feed(b"PING\r\n")


def test_events_before_a_fault_are_not_lost() -> None:
    """The error carries what the same chunk held before it."""
    with pytest.raises(ProtocolError) as caught:
        WireParser(LEAF).feed(b"PING\r\nLMSG a 2\r\nhi\r\nNONSENSE\r\n")
    assert caught.value.events == [Ping(), [WireMessage(b"a", b"", b"", b"hi")]]


def test_a_run_of_messages_is_one_list() -> None:
    """Consecutive messages come together, a control line parts them."""
    frame = b"LMSG a 2\r\nhi\r\n"
    events = WireParser(LEAF).feed(frame * 3 + b"PING\r\n" + frame)
    assert [len(event) if isinstance(event, list) else event for event in events] == [3, Ping(), 1]


@pytest.mark.parametrize("pieces", [1, 7, 5000])
@DIALECTS
def test_limits_hold_at_their_exact_size(dialect: Dialect, framed: Callable[[WireMessage], bytes], pieces: int) -> None:
    """The largest line and payload pass, one byte more is refused, whole or in pieces."""

    def outcome(data: bytes, *, line_max: int, payload_max: int) -> str:
        step = max(1, len(data) // pieces)
        chunks = [data[i : i + step] for i in range(0, len(data), step)]
        return parse(chunks, WireParser(dialect, line_max=line_max, payload_max=payload_max))[1]

    data = framed(WireMessage(b"s" * 200, b"", b"", b"p" * 100))
    line = data[: data.index(b"\n") + 1]
    assert outcome(data, line_max=len(line), payload_max=100) == ""
    assert "exceeds" in outcome(data, line_max=len(line), payload_max=99)
    assert outcome(data, line_max=len(line) - 1, payload_max=100) != ""
    assert outcome(b"x" * 301, line_max=300, payload_max=100) != ""
    assert outcome(b"INFO %b\r\n" % (b"s" * 93), line_max=100, payload_max=1) == ""
    assert outcome(b"INFO %b\r\n" % (b"s" * 94), line_max=100, payload_max=1) != ""


@pytest.mark.parametrize("step", [1, 999, 30_000, 70_000, 150_000])
@pytest.mark.parametrize("header", [b"", HEADER])
@DIALECTS
def test_large_messages_in_large_chunks(
    dialect: Dialect, framed: Callable[[WireMessage], bytes], header: bytes, step: int
) -> None:
    """Chunks that end anywhere in frames of many sizes, also between their last two bytes."""
    expected = [
        WireMessage(b"big", b"r", header, bytes([size % 251]) * size) for size in (40_000, 3, 100_000, 0, 65_536)
    ]
    data = b"".join(framed(message) for message in expected)
    chunks = [data[start : start + step] for start in range(0, len(data), step)]
    assert parse(chunks, WireParser(dialect)) == (expected, "")
    for message in expected:
        frame = framed(message)
        for left in range(1, 5):
            assert parse([frame[:-left], b"", frame[-left:]], WireParser(dialect)) == ([message], "")
        assert "no CR LF" in parse([frame[:-1], b"x"], WireParser(dialect))[1]


@DIALECTS
def test_a_large_payload_in_small_chunks_is_joined_once(
    dialect: Dialect, framed: Callable[[WireMessage], bytes]
) -> None:
    """The pieces are kept, not added up: what is held grows by each chunk and nothing more."""
    payload = bytes(range(256)) * 4096
    data = framed(WireMessage(b"big", b"", b"", payload))
    parser = WireParser(dialect)
    events: list[Event] = []
    for start in range(0, len(data), 1000):
        events += parser.feed(data[start : start + 1000])
        assert parser.held_bytes == (0 if events else min(start + 1000, len(data)))
    assert events == [[WireMessage(b"big", b"", b"", payload)]]


@given(st.lists(messages, max_size=5), st.lists(tokens, min_size=1, max_size=3).map(tuple))
def test_queue_groups_named_afterwards_are_those_of_the_encoder(
    run: list[WireMessage], names: tuple[bytes, ...]
) -> None:
    """Encoded messages that are given groups are byte for byte what the encoder makes with them, whatever they hold."""
    frames = [frame_of(message) for message in run]
    assert [subject_of(frame) for frame in frames] == [message.subject for message in run]
    assert with_queues(b"".join(frames), names) == b"".join(frame_of(message, names) for message in run)


@pytest.mark.parametrize("subject", [b"a b", b"a\r\nLS+ >", b"\n"])
def test_a_subject_that_would_break_a_frame_is_not_encoded(subject: bytes) -> None:
    """No subject, reply or queue can smuggle a frame of its own."""
    with pytest.raises(ValueError, match="not a"):
        encode_message(subject, b"")
    with pytest.raises(ValueError, match="not a"):
        encode_message(b"a", b"", reply=subject)
    with pytest.raises(ValueError, match="not a"):
        encode_message(b"a", b"", queues=(subject,))
    with pytest.raises(ValueError, match="not a"):
        encode_subscribe(subject)
    with pytest.raises(ValueError, match="not a"):
        encode_unsubscribe(b"a", subject)


def test_subscriptions_are_encoded_as_the_hub_reads_them() -> None:
    """A queue subscription carries a weight, its end does not."""
    assert encode_subscribe(b"a.>") == b"LS+ a.>\r\n"
    assert encode_subscribe(b"a.>", b"q") == b"LS+ a.> q 1\r\n"
    assert encode_unsubscribe(b"a.>") == b"LS- a.>\r\n"
    assert encode_unsubscribe(b"a.>", b"q") == b"LS- a.> q\r\n"


def test_a_client_subscribes_by_a_number_and_ends_by_it() -> None:
    """The queue stands between subject and number; what would break the frame is refused."""
    assert client_protocol.encode_subscribe(b"a.>", b"", 1) == b"SUB a.> 1\r\n"
    assert client_protocol.encode_subscribe(b"a.>", b"q", 12) == b"SUB a.> q 12\r\n"
    assert client_protocol.encode_unsubscribe(12) == b"UNSUB 12\r\n"
    for subject, queue in [(b"a b", b""), (b"a\r\nPUB x", b""), (b"", b""), (b"a", b"q 1\r\n")]:
        with pytest.raises(ValueError, match="not a"):
            client_protocol.encode_subscribe(subject, queue, 1)
