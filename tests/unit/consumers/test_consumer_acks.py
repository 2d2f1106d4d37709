"""Acks: what they end, what they answer, and when something is delivered again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.machine.ack_bodies import nak_delay
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Ack, Done, Reply
from delta_store.dialect.durations import parse_duration
from tests.unit.consumers.consumer_world import SECOND, Stream, World, advisories, got, seqs


def _delivered(number: int, **config: Any) -> World:
    world = World(**config)
    for place in range(number):
        world.stream.store(f"s.{place}")
    world.pull(b"%d" % number)
    return world


def test_the_floor_moves_over_what_is_acked() -> None:
    """The floor stays below the first message that waits, and moves over all that was acked behind it."""
    world = _delivered(5)
    world.ack(2)
    world.ack(3)
    assert world.consumer.ack_floor == (0, 0)
    world.ack(1)
    assert world.consumer.ack_floor == (3, 3)
    world.consumer.acks([Ack(4, 4, 1, b""), Ack(5, 5, 1, b"+ACK")], world.now)
    assert world.consumer.ack_floor == (5, 5)
    assert world.consumer.num_ack_pending == 0


def test_an_answer_waits_for_the_state() -> None:
    """The answer to a double ack demands that the state be kept first, and the state says so no more afterwards."""
    world = _delivered(2)
    world.consumer.state()
    assert world.ack(1, reply=b"ok") == [Reply(b"ok")]
    assert world.consumer.progress.dirty
    assert world.consumer.progress.must_persist
    world.consumer.state()
    assert not world.consumer.progress.dirty
    assert not world.consumer.progress.must_persist


def test_a_repeated_double_ack_waits_for_the_first() -> None:
    """When the ack itself is not durable yet, its repetition is not answered earlier than the state is."""
    world = _delivered(1)
    world.consumer.state()
    world.ack(1)
    world.ack(1, reply=b"ok")
    assert world.consumer.progress.must_persist


def test_what_was_not_delivered_cannot_be_acked() -> None:
    """An ack from the future gets no answer and changes nothing."""
    world = _delivered(2)
    world.stream.store("s.9")
    assert world.ack(3, reply=b"ok") == []
    assert world.consumer.num_pending == 1


_KINDS = [
    b"-NAK",
    b'-NAK {"delay":5}',
    b'-NAK {"delay":9223372036854775807}',
    b"-NAK -2000000h",
    b"+TERM",
    b"+WPI",
    b"+NXT",
    b"+NXT {",
]
_BODIES = st.binary(max_size=20) | st.sampled_from(_KINDS)
_NUMBERS = st.integers(0, 1 << 62)


@given(
    st.lists(st.tuples(_NUMBERS, _NUMBERS, st.integers(0, 9), _BODIES), max_size=8),
    st.sampled_from(["explicit", "all"]),
)
def test_no_ack_raises(acks: list[tuple[int, int, int, bytes]], policy: str) -> None:
    """Whatever comes on an ack subject, the consumer survives it, and its state can be kept."""
    world = _delivered(4, ack_policy=policy, ack_wait=SECOND, max_ack_pending=10)
    for seq, cseq, count, body in acks:
        world.consumer.acks([Ack(seq % 7 if count else seq, cseq % 9, count, body, b"r")], world.now)
        world.run()
    world.pass_time(3)
    state = world.consumer.state()
    assert ConsumerState.decode(state.encode()) == state


def test_no_redelivery_before_ack_wait() -> None:
    """A message comes again when its wait is over, not before; progress starts the wait anew."""
    world = _delivered(2, ack_policy="explicit", ack_wait=2 * SECOND, max_ack_pending=10)
    world.pull(b"10")
    assert seqs(world.pass_time(1.5)) == []
    world.ack(2, b"+WPI")
    assert seqs(world.pass_time(0.6)) == [1]
    assert seqs(world.pass_time(1.5)) == [2]


def test_backoff_sets_each_wait() -> None:
    """The waits follow the list, and its last entry goes on."""
    waits = (SECOND, 3 * SECOND)
    world = _delivered(1, ack_policy="explicit", ack_wait=SECOND, backoff=waits, max_deliver=4, max_ack_pending=10)
    world.pull(b"10")
    times = []
    for step in range(120):
        times += [step / 10] * len(seqs(world.pass_time(0.1)))
    assert [round(time) for time in times] == [1, 4, 7]


def test_max_deliver_ends_with_an_advisory() -> None:
    """After its last delivery a message is given up, stays counted, and a late ack ends even that."""
    world = _delivered(1, ack_policy="explicit", ack_wait=SECOND, max_deliver=2, max_ack_pending=10)
    world.pull(b"10")
    effects = world.pass_time(5)
    assert got(effects) == [("r", 1, 2, 2)]
    assert advisories(effects) == [("max_deliver", {"stream": "S", "consumer": "C", "stream_seq": 1, "deliveries": 2})]
    assert world.consumer.num_ack_pending == 0
    assert world.consumer.progress.needs(1)
    world.ack(1)
    assert not world.consumer.progress.needs(1)


def test_max_ack_pending_holds_new_messages_back() -> None:
    """No more than allowed wait for acks; a redelivery is let through."""
    world = _delivered(5, ack_policy="explicit", ack_wait=SECOND, max_ack_pending=2)
    assert world.consumer.num_ack_pending == 2
    assert seqs(world.ack(1)) == [3]
    assert seqs(world.pass_time(1.5)) == [2, 3]


def test_done_names_what_retention_may_drop() -> None:
    """Work queues learn of each message that is finished, once it is."""
    stream = Stream(retention="workqueue")
    for place in range(3):
        stream.store(f"s.{place}")
    world = World(stream)
    world.pull(b"3")
    assert world.ack(2) == [Done([2])]
    assert world.ack(1, b"+TERM")[-1:] == [Done([1])]
    assert [world.consumer.progress.needs(seq) for seq in (1, 2, 3)] == [False, False, True]


def test_ack_all_ends_what_lies_below() -> None:
    """With policy ``all`` one ack ends everything up to it."""
    stream = Stream(retention="interest")
    for place in range(4):
        stream.store(f"s.{place}")
    world = World(stream, ack_policy="all", ack_wait=SECOND, max_ack_pending=10)
    world.pull(b"4")
    assert world.ack(3) == [Done([1, 2, 3])]
    assert world.consumer.ack_floor == (3, 3)


def test_removed_messages_stop_waiting() -> None:
    """A pending message that left the stream is terminated, and the floor moves over it."""
    world = _delivered(3)
    world.stream.remove(1)
    assert [kind for kind, _ in advisories(world.consumer.stored(world.now))] == ["terminated"]
    assert world.consumer.ack_floor == (1, 1)
    world.stream.remove(2)
    world.ack(3, b"-NAK")
    world.consumer.stored(world.now)
    assert seqs(world.pull(b"5")) == [3]


def test_many_pending_are_searched_for_removed_ones_in_the_end() -> None:
    """With many pending messages the search may come later, but it comes by itself."""
    world = _delivered(200)
    world.stream.remove(5)
    world.consumer.stored(world.now)
    world.stream.remove(6)
    world.consumer.stored(world.now)
    world.pass_time(1)
    assert world.consumer.num_ack_pending == 198


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1s", SECOND),
        ("1.5s", 1_500_000_000),
        ("1m1ms", 60_001_000_000),
        ("-2ms", -2_000_000),
        ("0", 0),
        ("5", None),
        ("1x", None),
        ("", None),
        (".s", None),
        ("1µs", 1000),
        ("99999999999h", None),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, ns: int | None) -> None:
    """Go's notation, and nothing else."""
    assert parse_duration(text) == ns


def test_delays_that_cannot_be_read_are_none() -> None:
    """A broken delay makes a plain refusal."""
    bodies = b"-NAK", b"-NAK {", b"-NAK x", b'-NAK {"delay":"1s"}', b'-NAK {"Delay":7}', b'-NAK {"x":7}'
    assert [nak_delay(body) for body in bodies] == [None, None, None, None, 7, 0]
