"""Replies that would be too large for the hub: pages get shorter, and what has no pages is an error."""

import json
from typing import Any

import pytest

from api.jetstream.responses import msg_get_reply

MOST = 4096


def _pages(api: Any, endpoint: str, request: dict[str, Any], field: str) -> list[Any]:
    """All entries, by following ``offset`` as clients do: some by the entries they got, some by ``limit``."""
    entries: list[Any] = []
    while True:
        reply = api.reply(endpoint, {**request, "offset": len(entries)})
        assert len(reply) <= MOST
        shown = json.loads(reply)
        assert "error" not in shown
        page = (shown["state"] if field == "subjects" else shown).get(field) or []
        assert page
        entries += page.items() if isinstance(page, dict) else page
        if len(entries) >= shown["total"]:
            return entries
        assert shown["limit"] == len(page)


@pytest.fixture
def crowded(api: Any) -> Any:
    """Sixty streams; one of them has 400 subjects, 300 deleted messages and forty consumers."""
    for number in range(60):
        api.stream(f"STREAM{number:04}", subjects=[f"s{number:04}.>"])
    for number in range(400):
        api.store("STREAM0000", f"s0000.some.subject.{number:04}")
    for number in range(300):
        seq = api.store("STREAM0000", "s0000.gone")
        if number:
            api.ask("STREAM.MSG.DELETE.STREAM0000", {"seq": seq})
    for number in range(40):
        name = f"c{number:04}"
        config = {"name": name, "ack_policy": "explicit", "durable_name": name}
        assert "error" not in api.ask(
            f"CONSUMER.CREATE.STREAM0000.{name}", {"stream_name": "STREAM0000", "config": config}
        )
    api.account.reply_bytes_max = MOST
    return api


def test_pages_are_as_short_as_the_hub_needs_them(crowded: Any) -> None:
    """Subjects, names and infos come whole over several pages, each small enough, in order and none twice."""
    subjects = _pages(crowded, "STREAM.INFO.STREAM0000", {"subjects_filter": ">"}, "subjects")
    assert subjects == [("s0000.gone", 1), *((f"s0000.some.subject.{number:04}", 1) for number in range(400))]
    streams = [f"STREAM{number:04}" for number in range(60)]
    assert _pages(crowded, "STREAM.NAMES", {}, "streams") == streams
    assert [one["config"]["name"] for one in _pages(crowded, "STREAM.LIST", {}, "streams")] == streams
    consumers = [f"c{number:04}" for number in range(40)]
    assert _pages(crowded, "CONSUMER.NAMES.STREAM0000", {}, "consumers") == consumers
    assert [one["name"] for one in _pages(crowded, "CONSUMER.LIST.STREAM0000", {}, "consumers")] == consumers


def test_deleted_sequences_are_as_many_as_fit(crowded: Any) -> None:
    """Deleted sequences have no pages: the first ones are shown, the count tells how many there are."""
    most = crowded.account.reply_bytes_max = 1800
    for extra in ({}, {"subjects_filter": ">"}):
        reply = crowded.reply("STREAM.INFO.STREAM0000", {"deleted_details": True, **extra})
        assert len(reply) <= most
        state = json.loads(reply)["state"]
        assert state["num_deleted"] == 299
        assert 10 < len(state["deleted"]) < 299
        assert state["deleted"] == list(range(402, 402 + len(state["deleted"])))


def test_a_message_that_does_not_fit(filled: Any) -> None:
    """STREAM.MSG.GET says that a message is too large to be shown."""
    message = filled.messages["S", 1]
    large = message._replace(data=b"x" * MOST)
    assert json.loads(msg_get_reply(large, most=MOST))["error"]["err_code"] == 10054
    assert "error" not in json.loads(msg_get_reply(message, most=MOST))


def test_a_configuration_that_no_reply_could_show(filled: Any) -> None:
    """It is refused before anything is made of it, on create and on update, of streams and of consumers."""
    filled.account.reply_bytes_max = 16_384
    subjects = [f"a.{number:04}.{'<' * 8}" for number in range(200)]
    before = len(filled.rows)
    assert filled.error("STREAM.CREATE.T", {"name": "T", "subjects": subjects})[1] == 10054
    assert filled.error("STREAM.UPDATE.S", {"name": "S", "subjects": subjects})[1] == 10054
    config = {"name": "c", "ack_policy": "explicit", "filter_subjects": subjects}
    assert filled.error("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})[1] == 10054
    assert len(filled.rows) == before
    assert list(filled.catalog.streams) == ["S"]
    assert "error" not in filled.ask("STREAM.CREATE.T", {"name": "T", "subjects": subjects[:100]})
