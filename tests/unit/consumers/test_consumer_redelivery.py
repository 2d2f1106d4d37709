"""When messages come again, to the nanosecond, and when they are given up."""

from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from consumers.machine.effects import Ack, Reply
from consumers.machine.pending import SLACK_NS
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, START, World, advisories, got, seqs


def _delivered(number: int, **config: Any) -> World:
    world = World(**{**EXPLICIT, **config})
    for _ in range(number):
        world.stream.store("s")
    world.pull(b"%d" % number)
    return world


def _times(world: World, end: int) -> list[tuple[int, int]]:
    """The sequences that are delivered until ``end`` ns after the start, with how long after it."""
    times = []
    while 0 < (due := world.consumer.next_wake_ns) <= START + end:
        world.now = due
        times += [(world.now - START, seq) for seq in seqs(world.consumer.wake(world.now) + world.run())]
    return times


@pytest.mark.parametrize("waits", [{}, {"backoff": (30 * SECOND, 300 * SECOND), "max_deliver": 9}])
def test_each_message_has_its_own_wait(waits: dict[str, Any]) -> None:
    """Messages that were delivered one after the other come again so, a little after their waits and not before."""
    world = World(**EXPLICIT, **waits)
    for _ in range(3):
        world.store("s")
        world.pull(b"1")
        world.pass_time(10)
    world.pull(b"9")
    assert _times(world, 55 * SECOND) == [((30 + 10 * place) * SECOND + SLACK_NS, place + 1) for place in range(3)]


def test_a_restarted_consumer_delivers_again_by_itself() -> None:
    """What was pending at a restart comes again after a whole wait although nothing else happens."""
    world = _delivered(1)
    state = ConsumerState.decode(world.consumer.state().encode())
    again = World(world.stream, state=state, now=START + SECOND, **EXPLICIT)
    again.pull(b"1")
    assert _times(again, 60 * SECOND) == [(31 * SECOND + SLACK_NS, 1)]


def test_a_single_delivery_is_given_up_when_its_wait_is_over() -> None:
    """With one delivery allowed nothing is kept for whoever asks next, and the next message has its wait as well."""
    world = _delivered(2, max_deliver=1)
    assert [fields["deliveries"] for _, fields in advisories(world.pass_time(31))] == [1, 1]
    assert world.consumer.num_ack_pending == 0
    world.store("s")
    assert seqs(world.pull(b"1")) == [3]
    assert [fields["stream_seq"] for _, fields in advisories(world.pass_time(31))] == [3]


def test_a_refused_single_delivery_is_given_up_when_somebody_asks() -> None:
    """A refusal of the only delivery that is allowed is told as such once somebody would take it."""
    world = _delivered(1, max_deliver=1)
    assert [kind for kind, _ in advisories(world.ack(1, b"-NAK"))] == ["nak"]
    assert advisories(world.pull(b"1")) == [
        ("max_deliver", {"stream": "S", "consumer": "C", "stream_seq": 1, "deliveries": 1})
    ]


def test_a_delay_takes_out_of_the_queue() -> None:
    """A message that was refused at once and then with a delay waits for the delay."""
    world = _delivered(1)
    world.ack(1, b"-NAK")
    world.ack(1, b'-NAK {"delay":5000000000}')
    world.pull(b"1")
    assert _times(world, 60 * SECOND) == [(5 * SECOND + SLACK_NS, 1)]


@pytest.mark.parametrize("body", [b"+WPI", b"-NAK 5s"])
def test_a_prolonged_wait_is_kept(body: bytes) -> None:
    """Progress and delays change the state and count as activity."""
    world = _delivered(1)
    world.consumer.state()
    world.now += SECOND
    world.ack(1, body)
    assert world.consumer.progress.dirty
    assert world.consumer.progress.last_delivered_ns == world.now


@pytest.mark.parametrize(
    ("max_deliver", "naks", "lowered", "again", "given_up"),
    [
        (1, 0, 1, [], [(1, 1), (2, 1)]),
        (2, 1, 2, [(2, 2)], [(1, 2)]),
        (5, 2, 2, [(2, 2)], [(1, 3)]),
        (5, 0, 5, [(1, 2), (2, 2)], []),
    ],
)
def test_another_deliver_subject_keeps_to_the_limit(
    max_deliver: int, naks: int, lowered: int, again: list[tuple[int, int]], given_up: list[tuple[int, int]]
) -> None:
    """With a new deliver subject what waits comes again, unless it was delivered as often as it may be by now."""
    world = World(**EXPLICIT, deliver_subject="d", max_deliver=max_deliver)
    world.consumer.set_active(True, world.now)
    world.store("s", "s")
    for _ in range(naks):
        world.ack(1, b"-NAK")
    config = MachineConfig(name="C", deliver_subject="e", max_deliver=lowered, **EXPLICIT)
    effects = world.consumer.reconfigure(config, world.now) + world.run()
    assert [(seq, count) for _, seq, _, count in got(effects)] == again
    assert [(fields["stream_seq"], fields["deliveries"]) for _, fields in advisories(effects)] == given_up
    assert world.consumer.num_ack_pending == len(again)


def test_acks_before_a_refusal_count() -> None:
    """An ack and a refusal of the same message that come together are an ack."""
    world = _delivered(1)
    assert world.consumer.acks([Ack(1, 1, 1, b""), Ack(1, 1, 1, b"-NAK")], world.now) == []
    assert world.consumer.num_ack_pending == 0


def test_a_sequence_that_is_none_is_answered() -> None:
    """An ack of sequence 0 acks nothing and is answered nevertheless, as nats-server does."""
    world = _delivered(1)
    for body in (b"", b"+TERM"):
        assert Reply(b"ok") in world.consumer.acks([Ack(0, 1, 1, body, b"ok")], world.now)
    assert world.consumer.num_ack_pending == 1
