"""Direct Get's decisions that a comparison with nats-server can't show: the past, a growing stream, framing."""

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.direct.direct_frames import NOT_FOUND, PageFrames, nothing, one_frame, plain_frame, status_frame
from api.direct.direct_plan import plan
from api.direct.direct_request import (
    BAD_REQUEST,
    EMPTY_REQUEST,
    MALFORMED_REQUEST,
    DirectRequest,
    parse_body,
    parse_subject,
)
from delta_store.config.stream_config import StreamConfig
from delta_store.reading.read_plan import PagePlan, PastPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import TooMany
from delta_store.values.stream_message import StreamMessage

SECOND = 1_000_000_000


def stream(count: int, *, subjects: int = 3, removed: tuple[int, ...] = (), **config: Any) -> StreamState:
    """A stream of small messages, a second apart."""
    state = StreamState(StreamConfig(name="S", **config), stream_id=7, created_ns=1)
    grow(state, count, subjects=subjects)
    for seq in removed:
        state.index.remove(seq)
    return state


def grow(state: StreamState, count: int, *, subjects: int = 3) -> None:
    """More messages."""
    for seq in range(state.index.last_seq + 1, state.index.last_seq + count + 1):
        state.index.append(seq, state.index.table.intern(f"s.{seq % subjects}"), ts_ns=seq * SECOND, size=40)


def message(state: StreamState, seq: int, data: bytes = b"data") -> StreamMessage:
    """A message as the payload store would give it."""
    return StreamMessage(state.index.subject_of(seq) or "gone", seq, seq * SECOND, None, data)


def asked(**fields: Any) -> DirectRequest:
    """A request that is fine in itself."""
    return DirectRequest(**fields)


OPTIONS: dict[str, Any] = {
    "seq": 1,
    "last_by_subj": "a",
    "next_by_subj": "a",
    "batch": 2,
    "start_time": "2026-01-01T00:00:00Z",
    "multi_last": ["a"],
    "up_to_seq": 3,
    "up_to_time": "2026-01-01T00:00:00Z",
    "no_hdr": True,
    "max_bytes": 9,
}
CONFLICTS = {
    frozenset(pair)
    for pair in [
        ("seq", "last_by_subj"),
        ("seq", "start_time"),
        ("start_time", "last_by_subj"),
        ("last_by_subj", "next_by_subj"),
        ("last_by_subj", "batch"),
        ("last_by_subj", "multi_last"),
        ("next_by_subj", "multi_last"),
        ("up_to_seq", "up_to_time"),
    ]
}


@pytest.mark.parametrize(("one", "other"), list(combinations(OPTIONS, 2)))
def test_options_conflict_in_pairs(one: str, other: str) -> None:
    """A request is refused just when it holds one of the pairs that exclude each other."""
    body = {one: OPTIONS[one], other: OPTIONS[other]}
    if not body.keys() & {"seq", "last_by_subj", "next_by_subj", "start_time", "multi_last"}:
        body["seq"] = 1
    parsed = parse_body(b"", json.dumps(body).encode())
    assert (parsed == BAD_REQUEST) == any(pair <= body.keys() for pair in CONFLICTS)


@given(st.binary(max_size=40), st.text(max_size=10))
def test_no_body_breaks_the_parser(body: bytes, key: str) -> None:
    """Whatever comes is a request or a status."""
    for parsed in (parse_body(b"", body), parse_subject(key, b"", body)):
        assert isinstance(parsed, DirectRequest) or parsed.startswith(b"NATS/1.0 40")


@pytest.mark.parametrize(
    ("body", "request_"),
    [
        (b'{"LAST_BY_\xc5\xbfUBJ":"a"}', DirectRequest(last_by_subj="a")),
        (b'{"seq":7,"seq":null}', DirectRequest(seq=7)),
        (b'{"start_time":"2026-01-01T00:00:00Z","start_time":null,"seq":7}', DirectRequest(seq=7)),
        (b'{"multi_last":["a"],"multi_last":null}', EMPTY_REQUEST),
        (b'{"multi_last":[null]}', DirectRequest(multi_last=("",))),
        (b'{"seq":7} ', DirectRequest(seq=7)),
        (b'{"seq":7}x', MALFORMED_REQUEST),
        (b'{"seq":7.0}', MALFORMED_REQUEST),
    ],
)
def test_bodies_are_read_as_go_reads_them(body: bytes, request_: DirectRequest | bytes) -> None:
    """Names match in any case, null forgets lists and times but leaves numbers, and nothing may follow."""
    assert parse_body(b"", body) == request_


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"seq":' + b"9" * 5000 + b"}", b'{"last_by_subj":"\\ud800"}'])
def test_hostile_bodies_are_answered(body: bytes) -> None:
    """Deep nesting, endless digits and half characters neither raise nor hang."""
    parsed = parse_body(b"", body)
    if isinstance(parsed, DirectRequest):
        parsed.last_by_subj.encode()


def page_of(state: StreamState, request: DirectRequest) -> PagePlan:
    """The plan of a request for several messages."""
    planned = plan(state, request)
    assert isinstance(planned, PagePlan)
    return planned


def framed(state: StreamState, planned: PagePlan, *, no_hdr: bool = False) -> tuple[PageFrames, bytes]:
    """A page after its first step, and the frames of that."""
    page = PageFrames(planned, no_hdr=no_hdr)
    return page, page.frames([message(state, seq) for seq in next(planned.steps()).seqs], b"in")


def test_pending_is_counted_anew_when_the_stream_grew() -> None:
    """The end of a batch tells of messages that came while it was sent, the batch itself holds none of them."""
    state = stream(6)
    planned = page_of(state, asked(seq=1, batch=4))._replace(step=2)
    page, steps = PageFrames(planned), planned.steps()
    first = next(steps).seqs
    page.frames([message(state, seq) for seq in first], b"r")
    grow(state, 5)
    second = next(steps).seqs
    page.frames([message(state, seq) for seq in second], b"r")
    assert (first, second, next(steps, None)) == ([1, 2], [3, 4], None)
    assert page.end() == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 7\r\nNats-Last-Sequence: 4\r\n\r\n"


def test_what_did_not_fit_is_pending_when_the_stream_grew() -> None:
    """A batch that its bytes ended counts from behind what was sent, whatever had been read already."""
    state = stream(6)
    page, _ = framed(state, page_of(state, asked(seq=1, batch=6, max_bytes=1)))
    grow(state, 5)
    assert page.end() == b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 10\r\nNats-Last-Sequence: 1\r\n\r\n"


def test_a_batch_never_takes_what_came_after_it_began() -> None:
    """A batch shows the stream as it was when it was asked for."""
    state = stream(3)
    steps = page_of(state, asked(seq=2, batch=100)).steps()
    grow(state, 3)
    assert [step.seqs for step in steps] == [[2, 3]]


def test_without_headers_pending_stays_as_it_was() -> None:
    """no_hdr sends bare payloads and leaves the count alone."""
    state = stream(4)
    page, frames = framed(state, page_of(state, asked(seq=1, batch=2)), no_hdr=True)
    assert frames == b"LMSG in 4\r\ndata\r\n" * 2
    assert b"Nats-Num-Pending: 4\r\nNats-Last-Sequence: 2" in page.end()


def test_the_message_that_reaches_max_bytes_is_the_last() -> None:
    """Bytes are subject, header and payload; the limit is looked at after each message."""
    state = stream(9)
    for limit, sent in [(1, 1), (7, 1), (8, 2), (14, 2), (15, 3), (-1, 1)]:
        for no_hdr, verb in ((False, b"HMSG"), (True, b"LMSG")):
            page, frames = framed(state, page_of(state, asked(seq=1, batch=9, max_bytes=limit)), no_hdr=no_hdr)
            assert (frames.count(verb), page.full) == (sent, True), limit


def test_a_multi_subject_page_says_where_it_ended() -> None:
    """Lower bound, batch and pending count work together, and the resolved bound is told."""
    state = stream(9)
    page, frames = framed(state, page_of(state, asked(multi_last=("s.>",), seq=8, batch=1)))
    assert b"Nats-Sequence: 8\r\n" in frames
    assert b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: 0\r\n" in frames
    end = b"Nats-Num-Pending: 1\r\nNats-Last-Sequence: 8\r\nNats-UpTo-Sequence: 9"
    assert end in page.end()


@pytest.mark.parametrize(
    ("removed", "fields", "past"),
    [
        ((), {"up_to_seq": 5}, None),
        ((3,), {"up_to_seq": 5}, (5, None)),
        ((3,), {"up_to_seq": 9}, (9, None)),
        ((3,), {}, None),
        ((1,), {"up_to_seq": 9}, (9, None)),
        ((8,), {"up_to_seq": 5}, None),
        ((), {"up_to_time_ns": 5 * SECOND}, None),
        ((4,), {"up_to_time_ns": 5 * SECOND}, (None, 5 * SECOND)),
        ((8,), {"up_to_time_ns": 5 * SECOND}, None),
        ((3,), {"up_to_time_ns": 6 * SECOND}, (None, 6 * SECOND)),
        ((9,), {"up_to_time_ns": 20 * SECOND}, (None, 20 * SECOND)),
    ],
)
def test_only_what_the_index_can_not_know_goes_to_the_past(
    removed: tuple[int, ...], fields: dict[str, Any], past: tuple[int | None, int | None] | None
) -> None:
    """History is read when a message that could matter was removed, and at no other time."""
    planned = plan(stream(9, removed=removed), asked(multi_last=("s.>",), **fields))
    assert (isinstance(planned, PastPlan) and (planned.up_to_seq, planned.up_to_ts_ns)) == (past or False)


def test_the_live_mode_never_reads_the_past() -> None:
    """With the stream's own key the answer is made from what is left, as nats-server does."""
    state = stream(9, removed=(1, 2, 3, 5), metadata={"silt.point_in_time": "live"})
    assert [step.seqs for step in page_of(state, asked(multi_last=("s.>",), up_to_seq=5)).steps()] == [[4]]
    early = asked(multi_last=("s.>",), up_to_time_ns=2 * SECOND)
    assert (plan(state, early), nothing(early)) == (None, b"NATS/1.0 404 No Results\r\n\r\n")


def test_replies_are_leaf_frames() -> None:
    """One message, a bare payload and a status, byte for byte."""
    frame = one_frame("S", StreamMessage("a", 3, 5, b"NATS/1.0\r\nX: y\r\n\r\n", b"d"), b"in")
    block = b"NATS/1.0\r\nX: y\r\nNats-Stream: S\r\nNats-Subject: a\r\nNats-Sequence: 3\r\n"
    block += b"Nats-Time-Stamp: 1970-01-01T00:00:00.000000005Z\r\n\r\n"
    assert frame == b"HMSG in %d %d\r\n" % (len(block), len(block) + 1) + block + b"d\r\n"
    assert plain_frame(b"abc", b"in") == b"LMSG in 3\r\nabc\r\n"
    assert status_frame(NOT_FOUND, b"in").startswith(b"HMSG in 34 34\r\nNATS/1.0 404")


def test_more_subjects_only_where_asked_for() -> None:
    """Above 1,024 subjects there is an answer, of now and of the past, within our own limit, if the request says so."""
    state = stream(1_100, subjects=1_100)
    many = asked(multi_last=("s.>",), up_to_seq=1_090)
    for point, count in ((0, 1_100), (1_090, 1_090)):
        found = page_of(state, many._replace(max_subjects=2_000, up_to_seq=point))
        assert isinstance(found.seqs, list)
        assert len(found.seqs) == count
    for request in (many, many._replace(max_subjects=1_089), asked(multi_last=("s.>",))):
        with pytest.raises(TooMany):
            plan(state, request)
    state.index.remove(5)
    for allowed, limit in ((2_000, 2_000), (10**9, 100_000), (0, 1_024)):
        past = plan(state, many._replace(max_subjects=allowed))
        assert isinstance(past, PastPlan)
        assert past.limit == limit
    body = b'{"multi_last":["s.>"],"up_to_seq":1090,"silt_max_subjects":2000}'
    assert parse_body(b"", body) == many._replace(max_subjects=2_000)


def test_a_missing_first_message_is_not_an_empty_batch() -> None:
    """Breaking the rule would show: a batch that finds nothing says not found, it never ends with EOB."""
    planned = plan(stream(0), asked(seq=1, batch=2))
    assert isinstance(planned, PagePlan)
    assert list(planned.steps()) == []
    assert PageFrames(planned).end() == NOT_FOUND
