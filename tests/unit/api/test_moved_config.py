"""Configurations on their way from another JetStream."""

import json
from typing import Any

import pytest

from api.moving.consumer_positions import told_consumer
from api.moving.moved_config import OriginPrefixes, following_config, moved_config, moved_consumer, not_followed
from delta_store.archive.archived import ArchivedConsumer

CONFIG = {
    "name": "KV_B",
    "subjects": ["$KV.B.>"],
    "retention": "limits",
    "discard": "new",
    "max_bytes": 1000,
    "max_msgs_per_subject": 5,
    "deny_delete": True,
    "allow_rollup_hdrs": True,
    "allow_direct": True,
    "duplicate_window": 120_000_000_000,
    "num_replicas": 3,
    "placement": {"cluster": "east"},
}


def test_a_stream_is_stored_once_and_anywhere() -> None:
    """Replicas, placement and sources stay behind; all else comes."""
    moved = moved_config(CONFIG | {"sources": [{"name": "A"}]})
    assert moved == {key: value for key, value in CONFIG.items() if key != "placement"} | {"num_replicas": 1}


def test_a_mirror_takes_whatever_comes() -> None:
    """It has no subjects, and refuses nothing for limits that its origin applied; ids stay in the duplicate window."""
    followed = following_config(CONFIG, OriginPrefixes("$JS.hub.API"))
    assert followed == {
        "name": "KV_B",
        "retention": "limits",
        "discard": "old",
        "max_bytes": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": 5,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
        "duplicate_window": 120_000_000_000,
        "num_replicas": 1,
        "mirror": {"name": "KV_B", "external": {"api": "$JS.hub.API", "deliver": ""}},
    }


@pytest.mark.parametrize(
    "config",
    [
        {"retention": "workqueue"},
        {"retention": "interest"},
        {"mirror": {"name": "A"}},
        {"sources": [{"name": "A"}]},
        {"sealed": True},
        {"allow_msg_counter": True},
        {"allow_msg_schedules": True},
    ],
)
def test_what_no_mirror_can_be_is_not_followed(config: dict[str, Any]) -> None:
    """Each with its reason."""
    assert not_followed(config)
    assert not not_followed(CONFIG)


def test_a_consumer_is_put_into_the_stream_that_was_read() -> None:
    """What the origin had delivered behind its end is still to come."""
    state = {
        "delivered": {"consumer_seq": 9, "stream_seq": 12},
        "ack_floor": {"consumer_seq": 5, "stream_seq": 11},
        "pending": {"9": {"Sequence": 7, "Timestamp": 1}, "12": {"Sequence": 9, "Timestamp": 1}},
        "redelivered": {"12": 1},
    }
    content = json.dumps({"config": {"durable_name": "c", "num_replicas": 3}, "state": state}).encode()
    moved = moved_consumer(ArchivedConsumer("c", content), last_seq=10)
    assert moved is not None
    shown = json.loads(moved.content)
    assert shown["config"]["num_replicas"] == 1
    assert shown["state"] == {
        "delivered": {"consumer_seq": 9, "stream_seq": 10},
        "ack_floor": {"consumer_seq": 5, "stream_seq": 10},
        "pending": {"9": {"Sequence": 7, "Timestamp": 1}},
        "redelivered": {},
    }
    copying = json.dumps({"config": {"direct": True}, "state": {}}).encode()
    assert moved_consumer(ArchivedConsumer("m", copying), last_seq=10) is None


def test_a_consumer_is_where_its_information_says() -> None:
    """Without pending acks it goes on behind what was delivered; with some at its ack floor."""
    info = {
        "name": "c",
        "config": {"ack_policy": "explicit"},
        "delivered": {"consumer_seq": 9, "stream_seq": 12, "last_active": "…"},
        "ack_floor": {"consumer_seq": 5, "stream_seq": 6},
    }
    delivered, floor = {"consumer_seq": 9, "stream_seq": 12}, {"consumer_seq": 5, "stream_seq": 6}
    for waiting, state in ((0, (delivered, delivered)), (2, (floor, floor))):
        shown = json.loads(told_consumer(info | {"num_ack_pending": waiting}).content)
        assert (shown["state"]["delivered"], shown["state"]["ack_floor"]) == state
    shown = json.loads(told_consumer(info | {"config": {"ack_policy": "none"}}).content)
    assert (shown["state"]["delivered"], shown["state"]["ack_floor"]) == (delivered, floor)
