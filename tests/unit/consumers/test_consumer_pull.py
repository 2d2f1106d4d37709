"""Requests for messages: how they are read, queued, served and sent off."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.machine.effects import Deliver, Effect, PullRequest, Status
from delta_store.dialect.durations import format_duration
from tests.unit.consumers.consumer_world import SECOND, World, got, seqs, statuses


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_a_run_for_one_request_is_one_effect() -> None:
    """A thousand messages for one request leave as one effect with consecutive consumer sequences."""
    world = World(ack_policy="none")
    for _ in range(1000):
        world.stream.store("a")
    world.consumer.pull(PullRequest(b"r", b"1000"), world.now)
    wanted = world.consumer.upcoming(2000, world.now)
    effects = world.consumer.deliver([world.stream.messages[seq] for seq in wanted], (), world.now)
    [run] = effects
    assert isinstance(run, Deliver)
    assert list(run.consumer_seqs) == list(range(1, 1001))
    assert list(run.pendings) == list(range(999, -1, -1))
    assert world.consumer.num_waiting == 0


def test_requests_take_turns() -> None:
    """Several requests get one message each in turn, and a finished one leaves the round."""
    world = World()
    world.pull(b"1", b"a")
    world.pull(b"3", b"b")
    world.pull(b"2", b"c")
    effects = world.store(*["x"] * 7)
    assert [(to, seq, cseq) for to, seq, cseq, _ in got(effects)] == [
        ("a", 1, 1), ("b", 2, 2), ("b", 4, 4), ("b", 6, 6), ("c", 3, 3), ("c", 5, 5),
    ]  # fmt: skip


def test_two_requests_with_one_reply_stay_in_order() -> None:
    """Requests that share an inbox see the messages in order."""
    world = World()
    world.pull(b"3", b"a")
    world.pull(b"3", b"a")
    for _ in range(6):
        world.stream.store("x")
    assert seqs(world.run()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("body", "left"), [(b"", 1), (b"3", 3), (b"junk", 1), (b"{}", 1), (b'{"BATCH":2}', 2), (b"99999999999999999999", 1)]
)
def test_bodies_are_read_generously(body: bytes, left: int) -> None:
    """Nothing, a number, JSON with any case of keys; whatever is no number counts as nothing."""
    world = World()
    assert seqs(world.pull(body) + world.store(*["x"] * 5)) == list(range(1, left + 1))


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: b"{" + text.encode()))
def test_no_body_raises(body: bytes) -> None:
    """Hostile bodies are answered or queued, never an exception."""
    world = World()
    world.stream.store("x")
    assert isinstance(world.pull(body), list)


@given(st.dictionaries(st.sampled_from(["batch", "expires", "no_wait", "idle_heartbeat", "group", "id", "priority",
                                        "max_bytes", "min_pending"]), st.none() | st.booleans() | st.floats() |
                       st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=1)))  # fmt: skip
def test_no_field_raises(fields: dict[str, Any]) -> None:
    """Hostile values of known fields are answered or queued, and so is what follows."""
    for policy in ("none", "overflow", "pinned_client", "prioritized"):
        world = World(priority_policy=policy, priority_groups=("g",) if policy != "none" else ())
        world.stream.store("x")
        assert isinstance(world.pull(_body(**fields)), list)
        assert isinstance(world.pass_time(1), list)


def test_max_bytes_end_a_request() -> None:
    """A request that has no room for the next message is told what is left of it."""
    world = World()
    for _ in range(3):
        world.stream.store("s", data=b"x" * 100)
    effects = world.pull(_body(batch=5, max_bytes=300))
    assert seqs(effects) == [1, 2]
    [status] = [one for one in effects if isinstance(one, Status)]
    assert (status.code, status.text, status.headers[0]) == (
        409, "Message Size Exceeds MaxBytes", ("Nats-Pending-Messages", "3"),
    )  # fmt: skip


def test_unwanted_requests_are_dropped_without_a_word() -> None:
    """A request nobody listens for any more gets nothing."""
    world = World()
    world.pull(b"5", b"a")
    world.deaf.add(b"a")
    assert world.consumer.num_waiting == 1
    world.pass_time(1)
    assert world.store("x") == []
    assert world.consumer.num_waiting == 0


def test_a_request_that_nobody_listens_for_takes_no_message_away() -> None:
    """What it asks for goes to the next request, as its first delivery; one that waits may find a listener yet."""
    world = World()
    world.deaf |= {b"a", b"c"}
    world.stream.store("x")
    assert seqs(world.pull(b"1", b"a")) == []
    assert world.consumer.num_ack_pending == 0
    assert seqs(world.pull(b"1", b"b")) == [1]
    assert world.consumer.num_waiting == 0
    world.pull(b"1", b"c")
    world.deaf.clear()
    assert seqs(world.store("x")) == [2]


def test_expiry_and_heartbeats() -> None:
    """A waiting request gets heartbeats and in the end says what it did not get."""
    world = World()
    world.pull(_body(batch=3, expires=SECOND, idle_heartbeat=SECOND * 4 // 10))
    assert statuses(world.pass_time(0.9)) == [("r", 100, "Idle Heartbeat")] * 2
    assert statuses(world.pass_time(0.2)) == [("r", 408, "Request Timeout")]
    assert world.consumer.num_waiting == 0


def test_only_durable_messages_are_delivered() -> None:
    """What is stored but not durable does not exist yet for a consumer."""
    world = World()
    world.pull(b"5")
    world.stream.store("x", durable=False)
    assert world.consumer.upcoming(10, world.now) == []
    world.stream.durable_seq = 1
    assert seqs(world.run()) == [1]


def test_a_late_delivery_of_what_no_longer_fits_is_passed_over() -> None:
    """Messages that were asked for before a reset, an ack or a removal do not reach anybody afterwards."""
    world = World()
    for _ in range(4):
        world.stream.store("x")
    world.consumer.pull(PullRequest(b"r", b"4"), world.now)
    wanted = world.consumer.upcoming(10, world.now)
    world.stream.remove(2)
    world.consumer.stored(world.now)
    effects = world.consumer.deliver([world.stream.messages[seq] for seq in wanted], (), world.now)
    assert seqs(effects) == [1, 3, 4]
    assert world.consumer.num_pending == 0
    assert world.consumer.deliver([world.stream.messages[1]], (), world.now) == []
    world.consumer.reset(1, world.now)
    assert world.consumer.deliver([world.stream.messages[1]], (), world.now) == []


def test_close_tells_those_who_wait() -> None:
    """When a consumer is deleted its waiting requests are told."""
    world = World()
    world.pull(b"1", b"a")
    world.pull(b"1", b"b")
    assert statuses(world.consumer.close()) == [("a", 409, "Consumer Deleted"), ("b", 409, "Consumer Deleted")]


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (1_500_000, "1.5ms"),
        (SECOND, "1s"),
        (90_500_000_000, "1m30.5s"),
        (3_600 * SECOND, "1h0m0s"),
    ],
)
def test_durations_are_shown_as_go_shows_them(ns: int, text: str) -> None:
    """Limits are named in Go's notation."""
    assert format_duration(ns) == text


def test_push_consumers_and_api_levels_are_refused() -> None:
    """A push consumer takes no requests, and nobody serves a level that does not exist."""
    push = World(deliver_subject="d")
    assert statuses(push.consumer.pull(PullRequest(b"r", b""), push.now)) == [("r", 409, "Consumer is push based")]
    world = World()
    header = b"NATS/1.0\r\nNats-Required-Api-Level: 99\r\n\r\n"
    refused: list[Effect] = world.consumer.pull(PullRequest(b"r", b"", header), world.now)
    assert statuses(refused) == [("r", 412, "Required Api Level")]
