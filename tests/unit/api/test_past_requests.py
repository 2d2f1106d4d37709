"""Requests of the JetStream API for a past point: what they need, and the reply by the stream as it stood."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from api.direct.direct_request import BAD_REQUEST, MALFORMED_REQUEST, DirectRequest, parse_body, parse_subject
from api.jetstream.api_call import ApiRequest, AskedHistory, AskedPast, AskedVersions, NeedMessage, NeedPast
from api.jetstream.dispatch import dispatch
from conf.limits import VERSIONS_PAGE
from delta_store.config.api_errors import past_horizon
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.stream_state import StreamState
from delta_store.values.oldest_point import OldestPoint
from delta_store.values.settling import Settling
from delta_store.values.stream_history import StreamHistory


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
    assert wanted.asked == AskedPast("S", (text,))
    reply = wanted.reply([then(filled, 3)])
    assert isinstance(reply, bytes)
    state = json.loads(reply)["state"]
    assert (state["messages"], state["last_seq"], state["consumer_count"]) == (3, 3, 0)
    assert sum(state["subjects"].values()) == 3


def test_a_message_of_the_past(filled: Any) -> None:
    """The message is looked up in the state of then."""
    wanted = needed(filled, "STREAM.MSG.GET.S", {"last_by_subj": "s.*", "silt_as_of": 3})
    found = wanted.reply([then(filled, 3)])
    assert isinstance(found, NeedMessage)
    assert found.plan.seqs == (3,)
    missing = wanted.reply([then(filled, 0)])
    assert isinstance(missing, bytes)
    assert json.loads(missing)["error"]["err_code"] == 10037


def test_errors_of_the_past(filled: Any) -> None:
    """No such stream then, a point beyond the horizon, and what is no point."""
    wanted = needed(filled, "STREAM.INFO.S", {"silt_as_of": 1})
    gone = wanted.reply([None])
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


def test_the_difference_of_two_points(filled: Any) -> None:
    """By subject, page by page; a stream that there was not yet had nothing."""
    wanted = needed(filled, "STREAM.DIFF.S", {"from": 2, "to": "3"})
    assert wanted.asked == AskedPast("S", ("2", "3"))
    reply = wanted.reply([then(filled, 2), then(filled, 3)])
    assert isinstance(reply, bytes)
    shown = json.loads(reply)
    assert shown["total"] == len(shown["changes"]) == 1
    assert (shown["changes"][0]["change"], shown["changes"][0]["seq_after"]) == ("added", 3)
    wanted = needed(filled, "STREAM.DIFF.S", {"from": "1d", "offset": 1, "filter": "s.*"})
    assert wanted.asked == AskedPast("S", ("1d", None))
    reply = wanted.reply([None, then(filled, 3)])
    assert isinstance(reply, bytes)
    shown = json.loads(reply)
    assert (shown["offset"], shown["total"], len(shown["changes"])) == (1, 3, 2)
    assert filled.error("STREAM.DIFF.S", {})[1] == 10003
    assert filled.error("STREAM.DIFF.S", {"from": 1, "filter": "a..b"})[1] == 10003
    assert filled.error("STREAM.DIFF.NONE", {"from": 1})[1] == 10059


def test_the_history_of_a_stream(filled: Any) -> None:
    """For how long it is kept, by itself or by the setting, the oldest point, and what is there for the past alone."""
    wanted = needed(filled, "STREAM.HISTORY.S", {})
    assert wanted.asked == AskedHistory("S")
    filled.account.horizon_seconds = 2.0
    for own_ns, history in ((5, 5), (None, 2 * 10**9)):
        reply = wanted.reply(StreamHistory(own_ns, OldestPoint(2, 10**9), 3, 4))
        assert isinstance(reply, bytes)
        assert json.loads(reply) == {
            "type": "io.nats.jetstream.api.v1.stream_history_response",
            "history": history,
            "own": own_ns is not None,
            "oldest_seq": 2,
            "oldest_time": "1970-01-01T00:00:01Z",
            "held_files": 3,
            "held_bytes": 4,
        }
    assert filled.error("STREAM.HISTORY.NONE", {})[1] == 10059


def test_the_versions_of_a_stream(filled: Any) -> None:
    """What each version settled, or the one of a point."""
    wanted = needed(filled, "STREAM.VERSIONS.S", {"before": 9})
    assert wanted.asked == AskedVersions("S", None, 9, VERSIONS_PAGE)
    reply = wanted.reply([Settling(4, datetime(2026, 1, 31, tzinfo=UTC), 1, 3, 1_000_000_000, 2_000_000_000)])
    assert isinstance(reply, bytes)
    assert json.loads(reply)["versions"] == [
        {
            "version": 4,
            "committed": "2026-01-31T00:00:00.000Z",
            "first_seq": 1,
            "last_seq": 3,
            "first_ts": "1970-01-01T00:00:01Z",
            "last_ts": "1970-01-01T00:00:02Z",
        }
    ]
    asked = needed(filled, "STREAM.VERSIONS.S", {"silt_as_of": 2}).asked
    assert asked == AskedVersions("S", "2", None, VERSIONS_PAGE)
