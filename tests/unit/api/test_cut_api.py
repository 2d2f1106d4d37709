"""Requests of the JetStream API about cuts."""

from typing import Any

import pytest


def test_cuts_are_taken_listed_and_forgotten(filled: Any) -> None:
    """In the order in which they were taken; the stream is made with the first."""
    assert filled.ask("CUT.LIST") == {
        "type": "io.nats.jetstream.api.v1.cut_list_response",
        "total": 0,
        "offset": 0,
        "limit": 1024,
        "cuts": [],
    }
    first = filled.ask("CUT.CREATE.one")
    assert (first["type"], first["name"], first["streams"]) == (
        "io.nats.jetstream.api.v1.cut_create_response",
        "one",
        1,
    )
    filled.now_ns += 1_000_000_000
    second = filled.ask("CUT.CREATE.two")
    assert second["time"] > first["time"]
    listed = filled.ask("CUT.LIST")["cuts"]
    assert listed == [{"name": one["name"], "time": one["time"]} for one in (first, second)]
    page = filled.ask("CUT.LIST", {"offset": 1})
    assert (page["total"], [one["name"] for one in page["cuts"]]) == (2, ["two"])
    assert filled.ask("CUT.DELETE.one")["success"] is True
    assert [one["name"] for one in filled.ask("CUT.LIST")["cuts"]] == ["two"]
    info = filled.ask("STREAM.INFO.SILT_CUTS")
    assert (info["state"]["messages"], info["config"].get("subjects")) == (1, None)


def test_refusals(filled: Any) -> None:
    """A name that is taken, one that is unknown, one that can be none, a body, a full disk."""
    filled.ask("CUT.CREATE.one")
    assert filled.error("CUT.CREATE.one")[:2] == (400, 20103)
    assert filled.error("CUT.DELETE.two")[:2] == (404, 20102)
    assert filled.error("CUT.CREATE.a b")[:2] == (400, 20104)
    assert filled.error("CUT.CREATE.two", {"a": 1})[:2] == (400, 10038)
    filled.catalog.held = True
    assert filled.error("CUT.CREATE.two")[1] == 10047
    assert filled.error("CUT.DELETE.one")[1] == 10047


@pytest.mark.parametrize(
    ("verb", "body"),
    [("STREAM.BRANCH.S", {"name": "T"}), ("STREAM.REWIND.S", {}), ("STREAM.UNDELETE.S", {"filter": "s.>"})],
)
def test_work_on_the_past_takes_cuts(filled: Any, verb: str, body: dict[str, str]) -> None:
    """The name is looked up when the work is done, as the horizon is."""
    filled.reply(verb, body | {"silt_as_of": "cut:one"})
    assert filled.begun[0].point.cut == "one"
