"""Requests of the JetStream API for a past point: what they need, and the reply by the stream as it stood."""

import json
from typing import Any

import pytest

from api.direct.direct_request import BAD_REQUEST, MALFORMED_REQUEST, DirectRequest, parse_body, parse_subject
from api.jetstream.api_call import ApiRequest, NeedMessage, NeedPast
from api.jetstream.dispatch import dispatch
from delta_store.config.api_errors import past_horizon
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.stream_state import StreamState


def needed(api: Any, endpoint: str, body: Any) -> NeedPast:
    """What a request needs to be read."""
    request = ApiRequest(f"$JS.API.{endpoint}".encode(), b"_INBOX.x", b"", json.dumps(body).encode())
    found = dispatch(api.catalog, request, now_ns=api.now_ns, rows=api.rows, account=api.account)
    assert isinstance(found, NeedPast)
    return found


def then(api: Any, last_seq: int) -> StreamState:
    """The stream with its first messages alone."""
    now = api.catalog.streams["S"]
    state = StreamState(now.config, stream_id=now.stream_id, created_ns=now.created_ns)
    for seq in range(1, last_seq + 1):
        subject = now.index.subject_of(seq)
        state.index.append(seq, state.index.table.intern(subject), ts_ns=now.index.live.ts_of(seq), size=9)
    return state


@pytest.mark.parametrize(("point", "text"), [(3, "3"), ("3", "3"), ("15m", "15m"), ("2026-01-31", "2026-01-31")])
def test_info_needs_the_past(filled: Any, point: Any, text: str) -> None:
    """A number or a text names the point; the reply is that of the state of then."""
    wanted = needed(filled, "STREAM.INFO.S", {"silt_as_of": point, "subjects_filter": "s.>"})
    assert (wanted.stream, wanted.point) == ("S", text)
    reply = wanted.reply(then(filled, 3))
    assert isinstance(reply, bytes)
    state = json.loads(reply)["state"]
    assert (state["messages"], state["last_seq"], state["consumer_count"]) == (3, 3, 0)
    assert sum(state["subjects"].values()) == 3


def test_a_message_of_the_past(filled: Any) -> None:
    """The message is looked up in the state of then."""
    wanted = needed(filled, "STREAM.MSG.GET.S", {"last_by_subj": "s.*", "silt_as_of": 3})
    found = wanted.reply(then(filled, 3))
    assert isinstance(found, NeedMessage)
    assert found.plan.seqs == (3,)
    missing = wanted.reply(then(filled, 0))
    assert isinstance(missing, bytes)
    assert json.loads(missing)["error"]["err_code"] == 10037


def test_errors_of_the_past(filled: Any) -> None:
    """No such stream then, a point beyond the horizon, and what is no point."""
    wanted = needed(filled, "STREAM.INFO.S", {"silt_as_of": 1})
    gone = wanted.reply(None)
    assert isinstance(gone, bytes)
    assert json.loads(gone)["error"]["err_code"] == 10059
    assert json.loads(wanted.refused(past_horizon("too old")))["error"] == {
        "code": 410,
        "err_code": 20101,
        "description": "too old",
    }
    assert filled.error("STREAM.INFO.S", {"silt_as_of": "soon"})[1] == 10025
    assert filled.error("STREAM.INFO.S", {"silt_as_of": []})[1] == 10025
    assert filled.error("STREAM.INFO.NONE", {"silt_as_of": 1})[1] == 10059
    assert filled.ask("STREAM.INFO.S", {"silt_as_of": None})["state"]["last_seq"] == 9


@pytest.mark.parametrize(("body", "erase"), [({}, True), ({"silt_no_erase": True}, False)])
def test_a_purge_may_keep_the_past(filled: Any, body: dict[str, Any], erase: bool) -> None:
    """Purges erase unless the request says otherwise."""
    filled.ask("STREAM.PURGE.S", body)
    assert read_removal(filled.rows.data[-1])[0].erase is erase


def test_a_stream_may_keep_the_past_of_all_its_purges(filled: Any) -> None:
    """Clients purge the chunks of an object that is replaced: its bucket may say that they stay in the past."""
    filled.stream("OBJ", subjects=["o.>"], metadata={"silt.purge": "keep"})
    filled.store("OBJ", "o.1")
    filled.ask("STREAM.PURGE.OBJ")
    assert read_removal(filled.rows.data[-1])[0].erase is False


def test_direct_requests() -> None:
    """Every form takes a point, but not beside the points that nats-server knows."""
    assert parse_body(b"", b'{"seq":1,"silt_as_of":4}') == DirectRequest(seq=1, as_of="4")
    assert parse_body(b"", b'{"seq":1,"silt_as_of":"soon"}') == MALFORMED_REQUEST
    assert parse_body(b"", b'{"multi_last":["a"],"up_to_seq":2,"silt_as_of":4}') == BAD_REQUEST
    assert parse_subject("a", b"", b'{"silt_as_of":"15m"}') == DirectRequest(last_by_subj="a", as_of="15m")
