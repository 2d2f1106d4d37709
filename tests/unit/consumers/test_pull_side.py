"""Requests side by side: who is served, who is sent off, what keeps a consumer alive, and pins."""

import json
from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.effects import Deliver, Effect, Gone, PullRequest
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, START, Stream, World, advisories, got, seqs, statuses

MS = SECOND // 1000


def _body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def _stored(number: int, **config: Any) -> World:
    stream = Stream()
    for _ in range(number):
        stream.store("s")
    return World(stream, **config)


def _served(effects: list[Effect]) -> list[tuple[str, int]]:
    return [(to, seq) for to, seq, _, _ in got(effects)]


def test_a_full_queue_is_searched_once_a_second() -> None:
    """A request finds room where nobody listens any more, but a full queue is not searched for each one."""
    world = World(max_waiting=1)
    world.pull(b"1", b"a")
    world.deaf.add(b"a")
    assert statuses(world.pull(b"1", b"b")) == []
    world.deaf.add(b"b")
    world.now += SECOND
    assert statuses(world.pull(b"1", b"c")) == [("c", 409, "Exceeded MaxWaiting")]
    assert statuses(world.pull(_body(batch=1, expires=SECOND, idle_heartbeat=SECOND // 4), b"c")) == []
    assert world.consumer.num_waiting == 1
    world.now += 1
    assert statuses(world.pull(b"1", b"c")) == []
    assert seqs(world.store("s")) == [1]


@pytest.mark.parametrize(("others", "left"), [(15, 15), (16, 17)])
def test_short_queues_are_always_searched(others: int, left: int) -> None:
    """A new message finds requests without listeners in a short queue each time, in a long one once a second."""
    world = World(filter_subject="x")
    for number in range(others):
        world.pull(b"1", b"o%d" % number)
    world.store("s")
    world.pull(b"1", b"a")
    world.deaf.add(b"a")
    world.now += MS
    world.store("s")
    assert world.consumer.num_waiting == left
    world.now += SECOND
    world.store("s")
    assert world.consumer.num_waiting == others


def test_limited_requests_take_turns_up_to_their_batches() -> None:
    """Requests with a limit of bytes get one message each in turn, and no more than they asked for."""
    world = World()
    for reply in (b"a", b"b"):
        world.pull(_body(batch=2, max_bytes=10_000), reply)
    assert _served(world.store(*"sssss")) == [("a", 1), ("a", 3), ("b", 2), ("b", 4)]
    assert _served(world.pull(_body(batch=1, max_bytes=10_000), b"c")) == [("c", 5)]
    assert world.consumer.num_waiting == 0


@pytest.mark.parametrize("requests", [1, 2])
def test_an_exact_fit_completes_the_batch(requests: int) -> None:
    """A request that used its bytes to the last ends without a word, one with bytes left is told why it ends."""

    def ends(max_bytes: int) -> tuple[int, list[str]]:
        world = World()
        for number in range(requests):
            world.pull(_body(batch=4, max_bytes=max_bytes), b"r%d" % number)
        effects = world.store(*"s" * 9)
        return len(seqs(effects)), [text for _, _, text in statuses(effects)]

    size = next(size for size in range(2, 100) if ends(size)[0] == requests)
    assert ends(1) == (0, ["Message Size Exceeds MaxBytes"] * requests)
    assert ends(size) == (requests, [])
    assert ends(2 * size - 1) == (requests, ["Message Size Exceeds MaxBytes"] * requests)
    assert ends(2 * size) == (2 * requests, [])
    assert ends(4 * size) == (4 * requests, [])
    assert ends(4 * size + 1) == (4 * requests, ["Batch Completed"] * requests)


def test_what_expired_is_sent_off_before_messages_are_shared_out() -> None:
    """A request whose time is over gets its status instead of a message, even before its timer."""
    world = World()
    world.pull(_body(batch=1, expires=SECOND), b"a")
    world.pull(_body(batch=1, expires=3 * SECOND), b"b")
    world.now += SECOND
    effects = world.store("s")
    assert statuses(effects) == [("a", 408, "Request Timeout")]
    assert _served(effects) == [("b", 1)]


def test_a_time_out_before_a_late_delivery() -> None:
    """Between asking for messages and handing them over a request may expire."""
    world = _stored(1)
    world.consumer.pull(PullRequest(b"a", _body(batch=2, expires=SECOND)), world.now)
    [wanted] = world.consumer.upcoming(5, world.now)
    world.now += SECOND
    effects = world.consumer.deliver([world.stream.messages[wanted]], (), world.now)
    assert statuses(effects) == [("a", 408, "Request Timeout")]
    assert seqs(effects) == []
    assert seqs(world.pull(b"1")) == [1]


def test_messages_put_heartbeats_off() -> None:
    """A heartbeat follows a silent interval, which begins anew with each message."""
    world = World()
    world.pull(_body(batch=5, expires=9 * SECOND, idle_heartbeat=400 * MS))
    world.now += 300 * MS
    world.store("s")
    world.consumer.wake(world.now)
    beats = []
    while (due := world.consumer.next_wake_ns) < START + 2 * SECOND:
        world.now = due
        beats += [(world.now - START) // MS for _ in statuses(world.consumer.wake(due))]
    assert beats == [700, 1100, 1500, 1900]


def test_a_delivery_is_a_use() -> None:
    """The threshold of an unused consumer counts from its last delivery or request."""
    world = World(ack_policy="none", inactive_threshold=5 * SECOND)
    world.pass_time(4)
    world.pull(b"1")
    world.pass_time(20)
    world.store("s")
    assert Gone() not in world.pass_time(5)
    assert Gone() in world.pass_time(0.2)


def test_limits_of_groups_are_reached_at_one() -> None:
    """A request of an overflow group gets messages from the number on that it names, and no longer below it."""
    group = {"priority_policy": "overflow", "priority_groups": ("g",)}
    world = _stored(5, **group)
    assert seqs(world.pull(_body(batch=9, group="g", min_pending=3, max_bytes=10_000))) == [1, 2, 3]
    world = _stored(2, **group)
    assert seqs(world.pull(_body(batch=9, group="g", min_pending=1))) == [1, 2]
    world = _stored(2, **group)
    assert seqs(world.pull(_body(batch=9, group="g", min_ack_pending=1))) == []
    assert _served(world.pull(_body(batch=1, group="g"), b"b")) == [("b", 1), ("r", 2)]


def _pinned() -> World:
    world = World(priority_policy="pinned_client", priority_groups=("g",), priority_timeout=5 * SECOND)
    world.pull(_body(batch=2, group="g"), b"a")
    return world


def _pins(effects: list[Effect]) -> list[tuple[bytes, str]]:
    return [(one.subject, one.pin_id) for one in effects if isinstance(one, Deliver)]


def test_one_client_is_pinned() -> None:
    """The first client is pinned with its first message; others wait, and so does it until it names its id."""
    world = _pinned()
    effects = world.store("s")
    assert (_pins(effects), [kind for kind, _ in advisories(effects)]) == ([(b"a", "id1")], ["consumer_group_pinned"])
    world.pull(_body(batch=1, group="g"), b"b")
    effects = world.store("s", "s")
    assert (_pins(effects), seqs(effects), advisories(effects)) == ([(b"a", "id1")], [2], [])
    assert _pins(world.pull(_body(batch=1, group="g"), b"c")) == []
    assert statuses(world.pull(_body(batch=1, group="g", id="other"), b"a")) == [("a", 423, "Nats-Pin-Id mismatch")]
    assert _pins(world.pull(_body(batch=1, group="g", id="id1"), b"a")) == [(b"a", "id1")]
    assert world.consumer.num_waiting == 2


def test_a_silent_client_loses_its_pin() -> None:
    """A pin lapses when its client is silent for too long, each request prolongs it, and the next one is pinned."""
    world = _pinned()
    world.store("s", "s")
    world.pass_time(4)
    world.pull(_body(batch=1, group="g", id="id1"), b"a")
    world.pull(_body(batch=1, group="g"), b"b")
    assert advisories(world.pass_time(4)) == []
    effects = world.pass_time(1)
    assert [(kind, fields["reason"]) for kind, fields in advisories(effects)] == [
        ("consumer_group_unpinned", "timeout")
    ]
    effects = world.store("s")
    assert statuses(effects) == [("a", 423, "Nats-Wrong-Pin-Id")]
    assert _pins(effects) == [(b"b", "id2")]
    assert world.consumer.pin.due_ns == world.now + 5 * SECOND


def test_nobody_is_pinned_by_a_message_that_is_too_large() -> None:
    """A client whose request has no room for the message does not keep the pin: the next one is pinned."""
    world = World(priority_policy="pinned_client", priority_groups=("g",), priority_timeout=5 * SECOND)
    world.pull(_body(batch=1, group="g", max_bytes=1), b"a")
    assert _pins(world.store("s")) == []
    assert world.consumer.pin.id == ""
    assert _pins(world.pull(_body(batch=1, group="g"), b"b")) == [(b"b", "id2")]


@pytest.mark.parametrize(
    ("fields", "config", "status"),
    [
        ({"idle_heartbeat": 6, "expires": 10}, {}, (400, "Bad Request - heartbeat value too large")),
        ({"idle_heartbeat": 5, "expires": 10}, {}, None),
        ({"batch": 3}, {"max_batch": 2}, (409, "Exceeded MaxRequestBatch of 2")),
        ({"batch": 2}, {"max_batch": 2}, None),
        ({"batch": 3}, {"max_batch": 0}, None),
        ({"expires": 2 * SECOND}, {"max_expires": SECOND}, (409, "Exceeded MaxRequestExpires of 1s")),
        ({"expires": SECOND}, {"max_expires": SECOND}, None),
        ({"max_bytes": 300}, {"max_bytes": 299}, (409, "Exceeded MaxRequestMaxBytes of 299")),
        ({"max_bytes": 299}, {"max_bytes": 299}, None),
        ({"priority": -1}, {}, (400, "Bad Request - Priority must be between 0 and 9")),
        ({"priority": 10}, {}, (400, "Bad Request - Priority must be between 0 and 9")),
        ({"priority": 9}, {}, None),
        ({"id": "x"}, {}, (400, "Bad Request - Not a Pinned Client Priority consumer")),
        ({"min_ack_pending": 1}, {}, (400, "Bad Request - Not a Overflow Priority consumer")),
        ({"batch": 1 << 63}, {}, "unmarshal"),
        ({"batch": (1 << 63) - 1}, {}, None),
    ],
)
def test_requests_keep_to_the_limits(fields: dict[str, Any], config: dict[str, Any], status: Any) -> None:
    """A request at a limit is taken, one beyond it is refused with nats-server's words."""
    world = World(**EXPLICIT, **config)
    told = world.consumer.pull(PullRequest(b"r", _body(**fields)), world.now)
    assert world.consumer.num_waiting == (status is None)
    if status == "unmarshal":
        assert "cannot unmarshal number 9223372036854775808" in statuses(told)[0][2]
    else:
        assert [one[1:] for one in statuses(told)] == ([] if status is None else [status])


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{", "unexpected end of JSON input"),
        (b'{"batch":1', "unexpected end of JSON input"),
        (b'{"batch" 1}', "invalid character '1' after object key"),
        (b'{"batch":1 "x"}', "invalid character '\"' after object key:value pair"),
        (b"{'batch':1}", "invalid character '\\'' looking for beginning of object key string"),
        (b'{"batch":x}', "invalid character 'x' looking for beginning of value"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'{"batch":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"batch":[1 2]}', "invalid character '2' after array element"),
        (b'{"id":"\\x"}', "invalid escape sequence `\\x` in string"),
        (b'{"Batch":"1"}', "json: cannot unmarshal string into Go struct field .Batch of type int"),
        (b'{"id":"\x01"}', "invalid character '\\x01' in string"),
        (b'{"batch":' + b"9" * 5000 + b"}", "invalid JSON"),
    ],
)
def test_broken_json_is_named(body: bytes, text: str) -> None:
    """What is wrong with a body is said as Go says it."""
    world = World()
    [(_, code, said)] = statuses(world.consumer.pull(PullRequest(b"r", body), world.now))
    assert (code, said) == (400, f"Bad Request - {text}")


def test_a_request_without_a_reply_is_passed_over() -> None:
    """Nobody could get what it asks for."""
    world = _stored(1)
    assert world.consumer.pull(PullRequest(b"", b"1"), world.now) == []
    assert world.consumer.num_waiting == 0


def test_another_threshold_counts_from_its_change() -> None:
    """A changed inactivity threshold begins anew, an unchanged one goes on, and none keeps the consumer."""
    for threshold, gone in ((5, False), (7, False), (2, True), (0, False)):
        world = World(inactive_threshold=5 * SECOND)
        world.pass_time(4)
        config = MachineConfig(name="C", **EXPLICIT, inactive_threshold=threshold * SECOND)
        world.consumer.reconfigure(config, world.now)
        early = world.pass_time(0.9)
        assert Gone() not in early
        assert (Gone() in world.pass_time(1.3 if gone else 0.1)) is gone
        assert (Gone() in world.pass_time(60)) is (threshold > 0), "said again until it is deleted"
