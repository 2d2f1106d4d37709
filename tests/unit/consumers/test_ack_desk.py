"""Acks that come together, acks of everything up to a message, and what acks are measured and answered with."""

from typing import Any

import pytest

from consumers.machine.effects import Ack, Advisory, Done, Effect, Reply
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, Stream, World, advisories, seqs


def _world(number: int, retention: str = "limits", **config: Any) -> World:
    stream = Stream(retention=retention)
    for place in range(number):
        stream.store("ab"[place % 2])
    world = World(stream, **{**EXPLICIT, **config})
    world.pull(b"%d" % number)
    return world


def test_each_ack_is_booked_once() -> None:
    """Acks around one that asks for the next message end each message once, in order, and are answered."""
    world = _world(3, "workqueue")
    acks = [Ack(1, 1, 1, b""), Ack(2, 2, 1, b"+NXT", b"n"), Ack(3, 3, 1, b"", b"ok")]
    assert world.consumer.acks(acks, world.now) == [Done([1, 2]), Reply(b"ok"), Done([3])]
    assert world.consumer.num_waiting == 1


def test_sampled_acks_tell_their_time_once() -> None:
    """An ack that comes twice is measured once, from the last delivery on."""
    world = _world(2, sample_freq="100%")
    world.now += 3 * SECOND
    world.ack(1, b"-NAK")
    world.pull(b"1")
    world.now += 2 * SECOND
    effects = world.consumer.acks([Ack(1, 3, 2, b""), Ack(1, 3, 2, b""), Ack(2, 2, 1, b"")], world.now)
    assert [(fields["stream_seq"], fields["ack_time"]) for _, fields in advisories(effects)] == [
        (1, 2 * SECOND),
        (2, 5 * SECOND),
    ]


def test_every_ack_is_measured_at_100_percent_and_few_at_1() -> None:
    """The sample is as large as its share says."""
    counts = []
    for share in ("100", "1", "0"):
        world = _world(2000, sample_freq=share, max_ack_pending=5000)
        counts.append(sum(isinstance(one, Advisory) for seq in range(1, 2001) for one in world.ack(seq)))
    assert counts[0] == 2000
    assert 5 < counts[1] < 30
    assert counts[2] == 0


def _through(world: World, *acks: tuple[int, int]) -> list[Effect]:
    return world.consumer.acks([Ack(seq, cseq, 1, b"") for cseq, seq in acks], world.now)


def test_an_ack_of_all_needs_newer_sequences() -> None:
    """An ack of everything up to a message does nothing unless both of its sequences are newer than the last one's."""
    world = _world(6, "interest", ack_policy="all")
    assert _through(world, (3, 3)) == [Done([1, 2, 3])]
    assert _through(world, (3, 3), (5, 2), (3, 5), (2, 6)) == []
    assert world.consumer.ack_floor == (3, 3)
    assert _through(world, (4, 4)) == [Done([4])]


def test_an_ack_of_all_compares_like_with_like() -> None:
    """With a filter consumer sequences lie far below stream sequences, and each ack counts nevertheless."""
    world = _world(8, "interest", ack_policy="all", filter_subject="b")
    assert _through(world, (1, 2)) == [Done([2])]
    assert _through(world, (2, 4)) == [Done([4])]
    assert world.consumer.ack_floor[0] == 2


def test_a_refusal_below_what_was_acked_is_passed_over() -> None:
    """After an ack of all up to a message that was no longer there, refusals of older deliveries do nothing."""
    world = _world(4, ack_policy="all")
    world.stream.remove(3)
    world.consumer.stored(world.now)
    _through(world, (3, 3))
    assert world.consumer.acks([Ack(4, 3, 1, b"-NAK")], world.now) == []
    assert advisories(world.consumer.acks([Ack(4, 4, 1, b"-NAK")], world.now)) != []


@pytest.mark.parametrize(
    ("to", "floor", "pending", "next_seq"),
    [(2, (1, 1), 3, 5), (3, (2, 2), 2, 5), (5, (4, 4), 0, 5), (7, (4, 6), 0, 7)],
)
def test_a_purge_ends_what_it_takes(to: int, floor: tuple[int, int], pending: int, next_seq: int) -> None:
    """Pending messages that a purge took are done with silently, and the floor and the position follow."""
    world = _world(4)
    for _ in range(6):
        world.stream.store("a")
    world.consumer.state()
    world.now += 1
    world.stream.index.advance_first(to)
    assert world.consumer.stored(world.now, purged_to=to) == []
    assert (world.consumer.ack_floor, world.consumer.num_ack_pending) == (floor, pending)
    assert (world.consumer.progress.position.next_seq, world.consumer.delivered) == (next_seq, (4, max(4, to - 1)))
    assert (world.consumer.progress.dirty, world.consumer.progress.last_acked_ns) == (True, world.now)
    assert seqs(world.pull(b"1")) == [next_seq]


def test_a_purge_moves_no_floor_back() -> None:
    """A purge of what was acked long ago leaves the floor where it is."""
    world = _world(6, filter_subject="b")
    world.ack(2)
    world.ack(4)
    acked_ns = world.consumer.progress.last_acked_ns
    world.stream.index.advance_first(3)
    world.now += 1
    world.consumer.stored(world.now, purged_to=3)
    assert (world.consumer.ack_floor, world.consumer.progress.last_acked_ns) == ((2, 5), acked_ns)
