"""STREAM.MSG.GET and STREAM.MSG.DELETE: which message, and what is recorded."""

from base64 import b64decode
from typing import Any

import pytest

from api.jetstream.responses import msg_get_reply
from delta_store.dialect.times import format_time
from delta_store.streams.removal_rows import read_removal
from delta_store.values.records import Kind
from delta_store.values.stream_message import StreamMessage


@pytest.mark.parametrize(
    ("body", "seq"),
    [
        ({"seq": 5}, 5),
        ({"last_by_subj": "s.1"}, 8),
        ({"last_by_subj": "s.*"}, 9),
        ({"next_by_subj": "s.1"}, 2),
        ({"next_by_subj": "s.1", "seq": 3}, 5),
        ({"next_by_subj": ">", "seq": 4}, 4),
        ({"start_time": "1970-01-01T00:00:00Z"}, 1),
        ({"start_time": "1970-01-01T00:00:00Z", "next_by_subj": "s.2"}, 3),
    ],
)
def test_found(filled: Any, body: dict[str, Any], seq: int) -> None:
    """Each form of request finds its message."""
    assert filled.ask("STREAM.MSG.GET.S", body)["message"]["seq"] == seq


def test_found_by_time(filled: Any) -> None:
    """A start time finds the first message that is not older."""
    ts_ns = filled.messages["S", 4].ts_ns
    assert filled.ask("STREAM.MSG.GET.S", {"start_time": format_time(ts_ns)})["message"]["seq"] == 4
    assert filled.ask("STREAM.MSG.GET.S", {"start_time": format_time(ts_ns + 1)})["message"]["seq"] == 5


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("", 10003),
        ({"batch": 1, "seq": 1}, 10003),
        ({"seq": 1, "last_by_subj": "s.1"}, 10003),
        ({"multi_last": ["s.1"]}, 10003),
        ("{", 10025),
        ({"seq": 10}, 10037),
        ({"last_by_subj": "none"}, 10037),
        ({"next_by_subj": "s.1", "seq": 9}, 10037),
        ({"start_time": "2200-01-01T00:00:00Z"}, 10037),
    ],
)
def test_not_found(filled: Any, body: Any, error: int) -> None:
    """Conflicting requests are bad requests; a message that is not there is not found."""
    assert filled.error("STREAM.MSG.GET.S", body)[1] == error


def test_reply_holds_headers_and_payload(filled: Any) -> None:
    """Headers and payload are base64, left out when empty or not wanted."""
    message = filled.ask("STREAM.MSG.GET.S", {"seq": 2})["message"]
    assert b64decode(message["hdrs"]) == b"NATS/1.0\r\nH: v\r\n\r\n"
    assert b64decode(message["data"]) == b"d1"
    assert "hdrs" not in filled.ask("STREAM.MSG.GET.S", {"seq": 2, "no_hdr": True})["message"]
    assert b'"data"' not in msg_get_reply(StreamMessage("a", 1, 1, None, b""))


def test_message_that_vanished() -> None:
    """A message that is gone when its payload is fetched is not found."""
    assert b'"err_code":10037' in msg_get_reply(None)


@pytest.mark.parametrize(("body", "erase"), [({"seq": 4}, True), ({"seq": 4, "no_erase": True}, False)])
def test_delete_is_recorded(filled: Any, body: dict[str, Any], erase: bool) -> None:
    """A deletion is one event, erasing unless asked not to."""
    assert filled.ask("STREAM.MSG.DELETE.S", body)["success"] is True
    assert filled.rows.kind[-1] == Kind.REMOVE.value
    removal, _ = read_removal(filled.rows.data[-1])
    assert (removal.ranges, removal.reason, removal.erase) == ([(4, 4)], "delete", erase)


def test_nothing_to_delete(filled: Any) -> None:
    """The three ways of not being there have their own errors, as in nats-server's file store, and record nothing."""
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 4})
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 1})
    before = len(filled.rows)
    assert filled.error("STREAM.MSG.DELETE.S", {"seq": 4}) == (400, 10043, "sequence 4 not found")
    assert filled.error("STREAM.MSG.DELETE.S", {"seq": 1}) == (500, 10057, "no message found")
    assert filled.error("STREAM.MSG.DELETE.S", {"seq": 99}) == (500, 10057, "stream store EOF")
    assert len(filled.rows) == before
