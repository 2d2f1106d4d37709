"""Events that come at the wrong time: late deliveries, listeners that come and go, changes of limits and waits."""

from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.effects import Done, Effect, Gone, PullRequest
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, Stream, World, advisories, got, seqs


def _pushed(**config: Any) -> World:
    return World(deliver_subject="d", **{**EXPLICIT, **config})


def _kinds(effects: list[Effect]) -> list[str]:
    return [kind for kind, _ in advisories(effects)]


def test_a_delivery_in_a_pause_is_passed_over() -> None:
    """Messages that were asked for before a pause stay until it is over."""
    world = World(**EXPLICIT)
    world.stream.store("s")
    world.consumer.pull(PullRequest(b"r", b"1"), world.now)
    [wanted] = world.consumer.upcoming(9, world.now)
    world.consumer.pause(world.now + SECOND, world.now)
    assert world.consumer.deliver([world.stream.messages[wanted]], (), world.now) == []
    assert seqs(world.pass_time(2)) == [1]


def test_without_a_threshold_a_consumer_stays() -> None:
    """Neither timers nor listeners that leave end a consumer that has no inactivity threshold."""
    world = World(**EXPLICIT)
    world.pull(b'{"expires":1000000000,"batch":1}')
    assert Gone() not in world.pass_time(60)
    world = _pushed()
    world.consumer.set_active(True, world.now)
    world.consumer.set_active(False, world.now)
    assert world.consumer.next_wake_ns == 0


def test_silence_is_not_prolonged_by_more_of_it() -> None:
    """That nobody listens, told again, does not begin the threshold anew; a listener does."""
    world = _pushed(inactive_threshold=5 * SECOND)
    for active in (False, True, False):
        world.pass_time(3)
        world.consumer.set_active(active, world.now)
    world.pass_time(3)
    world.consumer.set_active(False, world.now)
    assert Gone() not in world.pass_time(1.9)
    assert Gone() in world.pass_time(0.1)


def test_a_listener_that_comes_hears_what_was_given_up() -> None:
    """A message that may not come again is told of when somebody would take it."""
    world = _pushed(max_deliver=1)
    world.consumer.set_active(True, world.now)
    world.store("s")
    world.consumer.set_active(False, world.now)
    assert _kinds(world.ack(1, b"-NAK")) == ["nak"]
    assert _kinds(world.consumer.set_active(True, world.now)) == ["max_deliver"]


@pytest.mark.parametrize(("wait", "due"), [(2, 2), (30, 30)])
def test_another_ack_wait_holds_for_what_waits(wait: int, due: int) -> None:
    """A shorter wait counts from the delivery on for messages that were delivered before."""
    world = World(**EXPLICIT)
    world.stream.store("s")
    world.pull(b"1")
    config = {**EXPLICIT, "ack_wait": wait * SECOND}
    world.consumer.reconfigure(MachineConfig(name="C", **config, description="new"), world.now)
    world.pull(b"1")
    assert seqs(world.pass_time(due - 0.1)) == []
    assert seqs(world.pass_time(0.2)) == [1]


def test_a_reset_may_lead_to_what_is_gone() -> None:
    """Where every sequence may be the start, a reset leads to one that has left the stream as well."""
    stream = Stream()
    for _ in range(4):
        stream.store("s")
    stream.index.advance_first(3)
    world = World(stream)
    assert world.consumer.reset(1, world.now) == 1
    assert seqs(world.pull(b"9")) == [3, 4]


def test_a_reset_forgets_what_was_refused() -> None:
    """After a reset nothing comes again, everything comes for the first time."""
    world = World(**EXPLICIT)
    world.stream.store("s")
    world.pull(b"1")
    world.ack(1, b"-NAK")
    world.consumer.reset(1, world.now)
    assert [count for *_, count in got(world.pull(b"9"))] == [1]


def test_a_redelivery_takes_from_the_rate_of_new_messages() -> None:
    """What comes again and what is new share the bytes that a rate limit lets through at once."""
    world = _pushed(rate_limit_bps=8 * 100_000, max_deliver=5)
    world.consumer.set_active(True, world.now)
    world.store("s", data=b"x" * 100_000)
    world.consumer.set_active(False, world.now)
    world.store(*"s" * 20, data=b"x" * 100_000)
    world.ack(1, b"-NAK")
    world.pass_time(10)
    world.consumer.set_active(True, world.now)
    assert seqs(world.run()) == list(range(1, 11))


@pytest.mark.parametrize(("timeout", "lapses"), [(0, 0), (2, 2), (9, 9)])
def test_a_pin_lapses_as_configured_last(timeout: int, lapses: int) -> None:
    """A changed time-out holds for the next sign of life, and without one a pin never lapses."""
    config = {**EXPLICIT, "priority_policy": "pinned_client", "priority_groups": ("g",)}
    world = World(**config, priority_timeout=5 * SECOND)
    changed = MachineConfig(name="C", **config, priority_timeout=timeout * SECOND)
    world.consumer.reconfigure(changed, world.now)
    world.pull(b'{"batch":1,"group":"g"}')
    world.store("s")
    assert world.consumer.pin.due_ns == (world.now + lapses * SECOND if lapses else 0)


def test_what_was_not_delivered_is_needed() -> None:
    """Behind the floor a consumer needs what it has yet to deliver and what waits for its ack, if it wants it."""
    stream = Stream(retention="workqueue")
    for subject in "abaa":
        stream.store(subject)
    world = World(stream, **EXPLICIT, filter_subject="a")
    world.pull(b"2")
    assert world.ack(3) == [Done([3])]
    assert [world.consumer.progress.needs(seq) for seq in (1, 2, 3, 4)] == [True, False, False, True]
