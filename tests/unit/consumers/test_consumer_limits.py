"""What holds a consumer's messages back, and what it forgets when messages leave the stream."""

from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Done, PullRequest, Status
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, Stream, World, advisories, got, seqs


def _delivered(number: int, **config: Any) -> World:
    world = World(**{**EXPLICIT, **config})
    for _ in range(number):
        world.stream.store("s")
    world.pull(b"%d" % number)
    return world


def test_a_lower_limit_holds_for_what_was_asked_for() -> None:
    """Messages that a consumer asked for under a higher limit are delivered as far as the lower one allows."""
    world = World(**EXPLICIT)
    for _ in range(5):
        world.stream.store("s")
    world.consumer.pull(PullRequest(b"r", b"9"), world.now)
    wanted = world.consumer.upcoming(9, world.now)
    world.consumer.reconfigure(MachineConfig(name="C", **{**EXPLICIT, "max_ack_pending": 2}), world.now)
    given = [world.stream.messages[seq] for seq in wanted]
    assert seqs(world.consumer.deliver(given, (), world.now)) == [1, 2]
    assert world.consumer.num_ack_pending == 2
    assert seqs(world.consumer.deliver(given[2:], (), world.now)) == []


def test_a_removed_message_takes_no_other_count_along() -> None:
    """How often messages were delivered is forgotten for those only that left the stream."""
    world = _delivered(3, max_deliver=2)
    world.ack(1, b"-NAK")
    world.ack(2, b"-NAK")
    assert [count for *_, count in got(world.pull(b"2"))] == [2, 2]
    world.ack(2, b"-NAK")
    world.pull(b"1")
    assert (world.consumer.num_redelivered, world.consumer.num_ack_pending) == (2, 2)
    world.stream.remove(3)
    world.consumer.stored(world.now)
    assert (world.consumer.num_redelivered, world.consumer.num_ack_pending) == (2, 1)
    world.consumer.state()
    world.stream.remove(2)
    world.consumer.stored(world.now)
    assert (world.consumer.num_redelivered, world.consumer.num_ack_pending) == (1, 1)
    assert world.consumer.progress.dirty


def test_a_purge_does_not_move_a_consumer_back() -> None:
    """A consumer that starts behind the end of the stream still does so when everything is purged."""
    stream = Stream()
    for _ in range(5):
        stream.store("s")
    world = World(stream, deliver_policy="by_start_sequence", opt_start_seq=8)
    stream.index.advance_first(6)
    world.consumer.stored(world.now)
    assert world.consumer.progress.position.next_seq == 8
    world.pull(b"9")
    assert seqs(world.store(*"ssss")) == [8, 9]


def test_the_last_of_each_subject_may_be_gone_after_a_restart() -> None:
    """A restarted consumer whose list of last messages has left the stream goes on behind it, not before."""
    stream = Stream()
    stream.store("a")
    stream.store("a")
    world = World(stream, deliver_policy="last_per_subject", filter_subject="a")
    state = ConsumerState.decode(world.consumer.state().encode())
    stream.remove(2)
    again = World(stream, state=state, deliver_policy="last_per_subject", filter_subject="a")
    assert again.consumer.num_pending == 0
    assert seqs(again.pull(b"9")) == []
    assert seqs(again.store("a")) == [3]


@pytest.mark.parametrize("limit", [1, 9])
def test_the_last_of_each_subject_may_be_evicted(limit: int) -> None:
    """Messages that the stream's limits take before their turn are passed over, and so is the rest of the list."""
    stream = Stream()
    for subject in "abcdef":
        stream.store(subject)
    world = World(stream, deliver_policy="last_per_subject", filter_subject="*")
    assert seqs(world.pull(b"1")) == [1]
    stream.index.advance_first(4)
    world.consumer.stored(world.now)
    assert world.consumer.num_pending == 3
    assert seqs(world.pull(b"%d" % limit)) == [4, 5, 6][:limit]
    stream.index.advance_first(7)
    assert seqs(world.store("a") + world.pull(b"1")) == [7]
    assert (world.consumer.num_pending, world.consumer.state().skip_until) == (0, 0)


def test_the_last_of_each_subject_under_another_filter() -> None:
    """What is left of the list follows the filter, which may come to match everything."""
    for chosen, rest in ((">", [2, 3, 4]), ("c", [3])):
        stream = Stream()
        for subject in "abc":
            stream.store(subject)
        config = {**EXPLICIT, "deliver_policy": "last_per_subject"}
        world = World(stream, **config, filter_subject="*")
        assert seqs(world.pull(b"1")) == [1]
        world.consumer.reconfigure(MachineConfig(name="C", **config, filter_subject=chosen), world.now)
        assert seqs(world.store("b") + world.pull(b"9")) == rest


def test_heartbeats_name_what_was_passed_over() -> None:
    """A consumer has seen the messages that its filter does not match."""
    world = World(deliver_subject="d", filter_subject="a", idle_heartbeat=SECOND, **EXPLICIT)
    world.consumer.set_active(True, world.now)
    world.store(*"abb")
    [beat] = [one for one in world.pass_time(1) if isinstance(one, Status)]
    assert beat.headers == (("Nats-Last-Consumer", "1"), ("Nats-Last-Stream", "3"))


def test_an_ack_of_a_removed_message_ends_nothing() -> None:
    """An ack of a message that has left a work queue does not let it leave again."""
    world = World(Stream(retention="workqueue"), **EXPLICIT)
    world.store("s", "s")
    world.pull(b"2")
    world.stream.remove(1)
    world.consumer.stored(world.now)
    assert world.ack(1) == []
    assert world.ack(2) == [Done([2])]


@pytest.mark.parametrize("chosen", [">", "*"])
def test_a_restart_within_the_last_of_each_subject(chosen: str) -> None:
    """A restarted consumer delivers the rest of its list and nothing between, whatever its filter matches."""
    stream = Stream()
    for subject in "abccb":
        stream.store(subject)
    world = World(stream, deliver_policy="last_per_subject", filter_subject=chosen)
    assert seqs(world.pull(b"1")) == [1]
    state = ConsumerState.decode(world.consumer.state().encode())
    again = World(stream, state=state, deliver_policy="last_per_subject", filter_subject=chosen)
    assert again.consumer.num_pending == 2
    assert seqs(again.pull(b"9")) == [4, 5]


def test_a_pause_is_over_at_its_end() -> None:
    """At the very time that a pause names, messages are delivered again."""
    world = _delivered(0)
    world.consumer.pause(world.now + SECOND, world.now)
    world.store("s")
    world.pull(b"1")
    world.now = world.consumer.next_wake_ns
    assert seqs(world.consumer.wake(world.now) + world.run()) == [1]


def test_redeliveries_keep_to_the_rate() -> None:
    """A message that comes again waits for the bytes that the rate limit gives it."""
    world = World(deliver_subject="d", rate_limit_bps=8 * 100_000, **EXPLICIT)
    world.consumer.set_active(True, world.now)
    world.store(*"s" * 10, data=b"x" * 100_000)
    assert world.consumer.num_ack_pending == 10
    assert seqs(world.ack(1, b"-NAK")) == []
    assert seqs(world.pass_time(0.4)) == []
    assert seqs(world.pass_time(0.4)) == [1]


def test_a_message_that_is_given_up_changes_the_state() -> None:
    """That a message was delivered as often as it may be is kept."""
    world = _delivered(1, max_deliver=1)
    world.consumer.state()
    world.pass_time(31)
    assert world.consumer.progress.dirty
    assert ConsumerState.decode(world.consumer.state().encode()).pending == {}


def test_no_limit_of_acks() -> None:
    """With -1 as many messages as there are wait for their acks."""
    assert _delivered(3, max_ack_pending=-1).consumer.num_ack_pending == 3


def test_a_deleted_message_is_no_purge() -> None:
    """When the only message is deleted a consumer that has not seen it stays where it is."""
    world = World(**EXPLICIT)
    world.stream.store("s")
    world.stream.remove(1)
    world.consumer.stored(world.now)
    assert (world.consumer.delivered, world.consumer.ack_floor) == ((0, 0), (0, 0))
    world.stream.store("s")
    world.stream.store("s")
    world.stream.index.advance_first(4)
    world.consumer.stored(world.now)
    assert (world.consumer.delivered, world.consumer.ack_floor, world.consumer.progress.position.next_seq) == (
        (0, 3),
        (0, 3),
        4,
    )


def test_nothing_is_given_up_in_a_pause() -> None:
    """A message that may not come again is told of when the pause is over."""
    world = _delivered(1, max_deliver=1)
    world.consumer.pause(world.now + SECOND, world.now)
    world.ack(1, b"-NAK")
    assert "max_deliver" not in [kind for kind, _ in advisories(world.pull(b"1"))]
    assert [kind for kind, _ in advisories(world.pass_time(2))] == ["consumer_pause", "max_deliver"]
