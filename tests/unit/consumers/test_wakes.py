"""When consumers are woken."""

import pytest

from consumers.engine.wakes import Wakes
from consumers.machine.consumer_machine import ConsumerMachine
from tests.unit.consumers.consumer_world import World


@pytest.fixture
def three() -> tuple[ConsumerMachine, ConsumerMachine, ConsumerMachine]:
    """Three consumers."""
    return World().consumer, World().consumer, World().consumer


def test_the_earliest_comes_first(three: tuple[ConsumerMachine, ConsumerMachine, ConsumerMachine]) -> None:
    """Consumers are woken in the order of their times, those of one time in the order in which they asked."""
    wakes = Wakes()
    assert wakes.next_ns == 0
    for consumer, due in zip(three, (30, 10, 10), strict=True):
        wakes.expect(consumer, due)
    seen = []
    while due := wakes.next_ns:
        seen.append((due, three.index(wakes.take())))
    assert seen == [(10, 1), (10, 2), (30, 0)]


def test_only_the_last_time_counts(three: tuple[ConsumerMachine, ConsumerMachine, ConsumerMachine]) -> None:
    """A later, an earlier or no time takes the place of the one before, and a time that was taken is forgotten."""
    wakes = Wakes()
    later, earlier, never = three
    for consumer, due in ((later, 20), (earlier, 30), (never, 5), (later, 40), (earlier, 10), (never, 0)):
        wakes.expect(consumer, due)
    assert (wakes.next_ns, wakes.take()) == (10, earlier)
    wakes.expect(earlier, 10)
    assert (wakes.next_ns, wakes.take()) == (10, earlier)
    assert (wakes.next_ns, wakes.take()) == (40, later)
    assert wakes.next_ns == 0


def test_the_same_time_is_noted_once(three: tuple[ConsumerMachine, ConsumerMachine, ConsumerMachine]) -> None:
    """A consumer that asks for the same time again is woken once and takes no more room."""
    wakes = Wakes()
    for _ in range(3):
        wakes.expect(three[0], 10)
        wakes.expect(three[1], 0)
    assert len(wakes._heap) == 1
    wakes.take()
    assert wakes.next_ns == 0
