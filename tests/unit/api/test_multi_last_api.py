"""Requests for the last messages of several streams at one instant."""

import json
from typing import Any

import pytest

from api.jetstream.api_call import AskedLasts
from delta_store.reading.read_plan import FoundLasts, WantedLasts
from delta_store.values.stream_message import StreamMessage
from tests.unit.api.test_past_requests import needed

STREAMS = {"S": ["s.1", "s.2"], "A": []}


@pytest.fixture
def both(filled: Any) -> Any:
    """An API with streams S and A."""
    filled.stream("A", subjects=["a.>"])
    filled.account.reply_bytes_max = 4_000
    return filled


def message(seq: int, size: int = 3) -> StreamMessage:
    """A message."""
    return StreamMessage("s.1", seq, 1_000_000_000, b"NATS/1.0\r\nA: b\r\n\r\n" if seq % 2 else None, b"x" * size)


def asked(api: Any, body: dict[str, Any]) -> AskedLasts:
    """What is to be read for a request."""
    found = needed(api, "STREAM.MULTI_LAST", body).asked
    assert isinstance(found, AskedLasts)
    return found


def reply(api: Any, body: dict[str, Any], found: FoundLasts) -> dict[str, Any]:
    """The reply when this is found."""
    answer = needed(api, "STREAM.MULTI_LAST", body).reply(found)
    assert isinstance(answer, bytes)
    return dict(json.loads(answer))


def test_what_is_asked_for(both: Any) -> None:
    """Streams in order, all subjects where none are named, the point, and the place behind which a page begins."""
    wanted = WantedLasts((("A", (">",)), ("S", ("s.1", "s.2"))), ("", 0), 1024, 2_000)
    assert asked(both, {"streams": STREAMS}) == AskedLasts(wanted, None)
    assert asked(both, {"streams": STREAMS | {"A": None}, "after": None}) == AskedLasts(wanted, None)
    after = {"stream": "S", "seq": 7}
    assert asked(both, {"streams": STREAMS, "silt_as_of": "cut:c", "after": after}) == AskedLasts(
        wanted._replace(after=("S", 7)), "cut:c"
    )


def test_messages_name_their_streams(both: Any) -> None:
    """They are as in STREAM.MSG.GET; a page that is the last one says nothing of a next one."""
    shown = reply(both, {"streams": STREAMS}, FoundLasts([("A", message(1)), ("S", message(4))], more=False))
    assert shown == {
        "type": "io.nats.jetstream.api.v1.stream_multi_last_response",
        "messages": [
            {
                "stream": "A",
                "subject": "s.1",
                "seq": 1,
                "hdrs": "TkFUUy8xLjANCkE6IGINCg0K",
                "data": "eHh4",
                "time": "1970-01-01T00:00:01Z",
            },
            {"stream": "S", "subject": "s.1", "seq": 4, "data": "eHh4", "time": "1970-01-01T00:00:01Z"},
        ],
    }


def test_pages_need_a_point(both: Any) -> None:
    """Of a point the page says where the next one begins, also where the reply held less than was read."""
    many = FoundLasts([("S", message(seq, 300)) for seq in range(1, 30)], more=False)
    shown = reply(both, {"streams": STREAMS, "silt_as_of": "cut:c"}, many)
    assert 1 < len(shown["messages"]) < 29
    assert shown["next"] == {"stream": "S", "seq": len(shown["messages"])}
    more = reply(both, {"streams": STREAMS, "silt_as_of": "cut:c"}, FoundLasts([("A", message(1))], more=True))
    assert more["next"] == {"stream": "A", "seq": 1}
    refused = reply(both, {"streams": STREAMS}, many)["error"]
    assert (refused["err_code"], "take a cut" in refused["description"]) == (20105, True)
    large = reply(both, {"streams": STREAMS, "silt_as_of": "cut:c"}, FoundLasts([("A", message(1, 9_000))], more=False))
    assert large["error"]["err_code"] == 10054


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 10003),
        ({"streams": {}}, 20105),
        ({"streams": None}, 20105),
        ({"streams": {"S": [], "NONE": []}}, 10059),
        ({"streams": {"S": ["a..b"]}}, 20105),
        ({"streams": ["S"]}, 10025),
        ({"streams": {"S": []}, "silt_as_of": "soon"}, 10025),
    ],
)
def test_refusals(both: Any, body: dict[str, Any], code: int) -> None:
    """No stream, one that is not there, what is no subject, and other JSON."""
    assert both.error("STREAM.MULTI_LAST", body)[1] == code
