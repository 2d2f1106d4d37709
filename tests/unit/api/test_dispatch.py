"""Which subject leads to which endpoint, what is not answered, and how requests are counted."""

import json
from typing import Any

import pytest

from api.jetstream.api_call import ApiRequest, NeedMessage, level_refused
from api.jetstream.dispatch import ENDPOINTS, dispatch, refusal
from api.jetstream.responses import TYPE_PREFIX
from delta_store.reading.read_plan import ReadPlan


@pytest.mark.parametrize("pattern", [one for one in ENDPOINTS if not one.startswith("CONSUMER.RESET.")])
def test_every_endpoint_is_found(api: Any, pattern: str) -> None:
    """A subject made from an endpoint's pattern is answered with its type."""
    subject = pattern.replace("*", "X").replace(">", "C.a.b")
    assert api.ask(subject)["type"] == TYPE_PREFIX + ENDPOINTS[pattern].kind


@pytest.mark.parametrize(
    "subject",
    [
        b"$JS.API",
        b"$JS.API.",
        b"$JS.API.STREAM.INFO",
        b"$JS.API.STREAM.INFO.",
        b"$JS.API.STREAM.INFO.a.b",
        b"$JS.API.STREAM.INFO.\xff",
        b"$JS.API.CONSUMER.CREATE",
        b"$JS.API.CONSUMER.MSG.NEXT.S.c",
        b"$JS.API.DIRECT.GET.S",
        b"$JS.other.API.INFO",
        b"$JS..API.INFO",
        b"orders.new",
        b"",
    ],
)
def test_not_answered(api: Any, subject: bytes) -> None:
    """A subject that no endpoint has gets no answer and is not counted."""
    request = ApiRequest(subject, b"_INBOX.x", b"", b"")
    assert dispatch(api.catalog, request, now_ns=1, rows=api.rows, account=api.account) is None
    assert (api.account.api_total, api.account.api_errors) == (0, 0)


@pytest.mark.parametrize("pattern", list(ENDPOINTS))
def test_every_endpoint_is_refused_while_nothing_can_be_read(pattern: str) -> None:
    """With 10008, the reason behind it and the endpoint's own type, under a domain and without; nothing else is."""
    subject = pattern.replace("*", "X").replace(">", "C.a.b")
    for prefix in ("$JS.API.", "$JS.d1.API."):
        said = json.loads(refusal(f"{prefix}{subject}".encode(), "d1", "not yet") or b"")
        told = {"code": 503, "err_code": 10008, "description": "JetStream system temporarily unavailable: not yet"}
        beside = ENDPOINTS[pattern].beside_error
        assert said == {"type": TYPE_PREFIX + ENDPOINTS[pattern].kind, "error": told, **beside}
    assert refusal(f"$JS.d2.API.{subject}".encode(), "d1", "not yet") is None


def test_domain(api: Any) -> None:
    """A catalog with a domain answers under it and without it, and says so in its replies."""
    served = type(api)(domain="d1")
    served.stream("S")
    for prefix in ("$JS.API.", "$JS.d1.API."):
        assert served.ask("INFO", prefix=prefix)["domain"] == "d1"
        assert served.ask("STREAM.INFO.S", prefix=prefix)["domain"] == "d1"
        assert served.ask("STREAM.LIST", prefix=prefix)["streams"][0]["domain"] == "d1"
    assert served.reply("INFO", prefix="$JS.d2.API.") is None
    assert "domain" not in api.ask("INFO")


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        (b"0", False),
        (b"5", False),
        (b"-1", False),
        (b"+5", False),
        (b"6", True),
        (b"x", True),
        (b"5 ", True),
        (b"", False),
    ],
)
def test_required_level(value: bytes, refused: bool) -> None:
    """A level above ours, or one that is no number, is refused."""
    assert level_refused(b"NATS/1.0\r\nNats-Required-Api-Level: " + value + b"\r\n\r\n") is refused


def test_level_of_an_update_changes_nothing(filled: Any) -> None:
    """A request with too high a level is refused before anything is done."""
    header = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    before = len(filled.rows)
    assert filled.error("STREAM.DELETE.S", header=header)[1] == 10185
    assert "S" in filled.catalog.streams
    assert len(filled.rows) == before


def test_counters(filled: Any) -> None:
    """A delivered message is not counted, and a message that could not be deleted is not counted as an error."""
    filled.account.api_total = 0
    filled.ask("STREAM.INFO.S")
    filled.ask("STREAM.INFO.NONE")
    filled.ask("STREAM.MSG.GET.S", {"seq": 1})
    filled.ask("STREAM.MSG.GET.S", {"seq": 99})
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 99})
    assert (filled.account.api_total, filled.account.api_errors) == (4, 2)
    assert filled.ask("INFO")["api"] == {"level": 5, "total": 4, "errors": 2}


def test_message_is_left_to_the_caller(filled: Any) -> None:
    """STREAM.MSG.GET gives the message's place, because its payload may not be in memory."""
    request = ApiRequest(b"$JS.API.STREAM.MSG.GET.S", b"_INBOX.x", b"", b'{"seq":2,"no_hdr":true}')
    reply = dispatch(filled.catalog, request, now_ns=filled.now_ns, rows=filled.rows, account=filled.account)
    assert reply == NeedMessage(ReadPlan("S", filled.catalog.streams["S"].stream_id, (2,)), no_hdr=True)
