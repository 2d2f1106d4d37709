"""Handlers of streams as wholes: what they change, what they record, and how they page."""

import json
from typing import Any

import pytest

from delta_store.streams.catalog import Catalog
from delta_store.streams.replay import replay_row
from delta_store.values.records import Kind

SECOND = 10**9


def test_create_is_recorded_once(api: Any) -> None:
    """Creating appends one event row; creating the same again appends none and still says that it did."""
    api.stream("S", subjects=["a"])
    again = api.ask("STREAM.CREATE.S", {"name": "S", "subjects": ["a"]})
    assert again["did_create"] is True
    assert api.rows.kind == [Kind.STREAM.value]


@pytest.mark.parametrize(
    ("endpoint", "body", "error"),
    [
        ("STREAM.CREATE.S", {"name": "S", "subjects": ["b"]}, 10058),
        ("STREAM.CREATE.T", {"name": "T", "subjects": ["s.*"]}, 10065),
        ("STREAM.CREATE.T", {"name": "U"}, 10056),
        ("STREAM.CREATE.T", {"name": "T", "num_replicas": 3}, 10074),
        ("STREAM.CREATE.T", {"name": "T", "mirror": {"name": ""}}, 10142),
        ("STREAM.CREATE.T", "{", 10025),
        ("STREAM.UPDATE.T", {"name": "T"}, 10059),
        ("STREAM.UPDATE.S", {"name": "S", "storage": "memory"}, 10052),
        ("STREAM.DELETE.S", "x", 10038),
        ("STREAM.DELETE.T", "", 10059),
        ("STREAM.PURGE.S", {"seq": 2, "keep": 2}, 10003),
        ("STREAM.PURGE.T", "", 10059),
        ("STREAM.INFO.T", "", 10059),
    ],
)
def test_refusal_changes_nothing(filled: Any, endpoint: str, body: Any, error: int) -> None:
    """A refused request has its error code, records nothing and leaves every stream as it was."""
    before = filled.ask("STREAM.LIST")["streams"], len(filled.rows)
    assert filled.error(endpoint, body)[1] == error
    assert (filled.ask("STREAM.LIST")["streams"], len(filled.rows)) == before


def test_recorded_events_rebuild_the_catalog(filled: Any) -> None:
    """Replaying what the handlers recorded gives the same configurations."""
    filled.stream("T", metadata={"k": "v"}, max_msgs=5, no_ack=True)
    filled.ask("STREAM.UPDATE.T", {"name": "T", "max_msgs": 6, "subjects": ["x"]})
    filled.stream("U")
    filled.ask("STREAM.DELETE.U")
    rebuilt = Catalog()
    for row in filled.rows.rows():
        replay_row(rebuilt, row)
    kept = {name: state.config for name, state in filled.catalog.streams.items()}
    assert {name: state.config for name, state in rebuilt.streams.items()} == kept
    assert sorted(kept) == ["S", "T"]


def test_update_applies_lower_limits(filled: Any) -> None:
    """Messages beyond a lowered limit are gone in the reply of the update itself."""
    reply = filled.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 4})
    assert reply["state"]["messages"] == 4
    assert reply["state"]["first_seq"] == 6


def test_info_shows_subjects_and_deleted(filled: Any) -> None:
    """Subjects and deleted sequences are shown when asked for, and only then."""
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 4})
    plain = filled.ask("STREAM.INFO.S")
    assert plain["state"]["num_deleted"] == 1
    assert "deleted" not in plain["state"]
    assert "subjects" not in plain["state"]
    shown = filled.ask("STREAM.INFO.S", {"subjects_filter": "s.*", "deleted_details": True})
    assert shown["state"]["deleted"] == [4]
    assert shown["state"]["subjects"] == {"s.0": 2, "s.1": 3, "s.2": 3}
    assert (shown["total"], shown["offset"], shown["limit"]) == (3, 0, 100_000)


def test_info_pages_over_subjects(filled: Any) -> None:
    """An offset leaves out the first subjects in order of name; past the end there are none."""
    shown = filled.ask("STREAM.INFO.S", {"subjects_filter": ">", "offset": 1})
    assert list(shown["state"]["subjects"]) == ["s.1", "s.2"]
    assert "subjects" not in filled.ask("STREAM.INFO.S", {"subjects_filter": ">", "offset": 9})["state"]


def test_info_leaves_out_what_is_too_old(api: Any) -> None:
    """A message older than max_age is not shown, though no sweep has removed it yet."""
    api.stream("S", max_age=SECOND)
    api.store("S", "S", b"x")
    assert api.ask("STREAM.INFO.S")["state"]["messages"] == 1
    api.now_ns += SECOND
    assert api.ask("STREAM.LIST")["streams"][0]["state"]["messages"] == 0
    assert api.rows.kind[-1] == Kind.REMOVE.value


def test_names_and_list_page(api: Any) -> None:
    """Names come sorted, 1024 to a page; infos 256 to a page; both from the offset on."""
    for number in reversed(range(1030)):
        api.stream(f"S{number:04}")
    first = api.ask("STREAM.NAMES")
    assert (first["total"], first["offset"], first["limit"]) == (1030, 0, 1024)
    assert first["streams"] == [f"S{number:04}" for number in range(1024)]
    assert api.ask("STREAM.NAMES", {"offset": 1024})["streams"] == [f"S{number:04}" for number in range(1024, 1030)]
    assert api.ask("STREAM.NAMES", {"offset": 5000})["offset"] == 1030
    listed = api.ask("STREAM.LIST", {"offset": 1000})
    assert [one["config"]["name"] for one in listed["streams"]] == [f"S{number:04}" for number in range(1000, 1030)]
    assert len(api.ask("STREAM.LIST")["streams"]) == 256


def test_names_by_subject(api: Any) -> None:
    """A subject filter finds the streams whose subjects overlap it."""
    api.stream("A", subjects=["a.*"])
    api.stream("B", subjects=["b", "a.x.y"])
    assert api.ask("STREAM.NAMES", {"subject": "a.>"})["streams"] == ["A", "B"]
    assert api.ask("STREAM.NAMES", {"subject": "a.1"})["streams"] == ["A"]
    assert api.ask("STREAM.NAMES", {"subject": "none"})["streams"] == []


@pytest.mark.parametrize(
    ("body", "purged", "left"),
    [
        ("", 9, 0),
        ("no json", 9, 0),
        ({"filter": "s.1"}, 3, 6),
        ({"filter": "s.*", "keep": 1}, 8, 1),
        ({"filter": "s.2", "seq": 4}, 1, 8),
        ({"seq": 4}, 3, 6),
        ({"keep": 2}, 7, 2),
        ({"keep": 20}, 0, 9),
        ({"filter": "none"}, 0, 9),
    ],
)
def test_purge(filled: Any, body: Any, purged: int, left: int) -> None:
    """Purge removes all, a filter's, those below a sequence, or all but the last few."""
    assert filled.ask("STREAM.PURGE.S", body)["purged"] == purged
    assert filled.ask("STREAM.INFO.S")["state"]["messages"] == left


def test_denied_purge_and_delete(api: Any) -> None:
    """A stream may forbid both."""
    api.stream("S", deny_purge=True, deny_delete=True)
    api.store("S", "S")
    assert api.error("STREAM.PURGE.S") == (500, 10110, "stream purge not permitted")
    assert api.error("STREAM.MSG.DELETE.S", {"seq": 1}) == (500, 10057, "message delete not permitted")


def test_account_usage(api: Any) -> None:
    """The account's storage counts by kind of storage, and max_bytes is reserved."""
    api.stream("F", max_bytes=1000)
    api.stream("M", storage="memory", max_bytes=500)
    api.store("F", "F", b"x" * 10)
    shown = api.ask("INFO")
    assert (shown["storage"], shown["memory"]) == (30 + 1 + 10, 0)
    assert (shown["reserved_storage"], shown["reserved_memory"]) == (1000, 500)
    assert shown["streams"] == 2


def test_a_snapshot_is_the_stream_as_it_stands(filled: Any) -> None:
    """The live sequences are fixed with the reply; what becomes of the stream later changes nothing."""
    filled.ask("STREAM.MSG.DELETE.S", {"seq": 4})
    shown = filled.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d", "chunk_size": 1, "window_size": 10**9})
    filled.ask("STREAM.PURGE.S")
    assert shown["config"]["name"] == "S"
    assert shown["state"]["messages"] == 8
    (work,) = filled.begun
    assert work.spans.tolist() == [[1, 3], [5, 9]]
    assert (work.chunk_bytes, work.window_chunks) == (1024, 32 * 1024)


def test_a_snapshot_has_the_consumers_unless_they_are_not_wanted(filled: Any) -> None:
    """Each consumer comes with its configuration and state; without them none is counted inside."""
    filled.ask("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c", "ack_policy": "explicit"}})
    filled.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d"})
    filled.ask("STREAM.SNAPSHOT.S", {"deliver_subject": "d", "no_consumers": True})
    with_them, without = filled.begun
    ((name, content),) = with_them.consumers
    shown = json.loads(content)
    assert (name, shown["config"]["name"], without.consumers) == ("c", "c", ())
    assert shown["state"] == {
        "delivered": {"consumer_seq": 0, "stream_seq": 0},
        "ack_floor": {"consumer_seq": 0, "stream_seq": 0},
    }


def test_a_restore_begins_with_a_subject_for_chunks(filled: Any) -> None:
    """The reply names the subject; nothing is made before an archive comes, and nothing that exists is restored."""
    shown = filled.ask("STREAM.RESTORE.R", {"config": {"name": "R", "max_msg_size": 10}, "state": {}})
    (work,) = filled.begun
    assert shown["deliver_subject"] == work.deliver_subject
    assert work.deliver_subject.startswith("$JS.SNAPSHOT.RESTORE.R.")
    assert (work.config.name, work.message_bytes_max) == ("R", 10)
    assert "R" not in filled.catalog.streams
    assert filled.error("STREAM.RESTORE.S", {"config": {"name": "S"}})[:2] == (400, 10130)
    assert filled.error("STREAM.RESTORE.R", {"config": {"name": "Q"}})[:2] == (400, 10056)
    assert filled.error("STREAM.RESTORE.R", {"config": {"name": "R", "subjects": ["s.1"]}})[:2] == (400, 10065)
