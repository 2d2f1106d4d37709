"""Flow control, byte by byte: the window, what is asked for when, and what answers and heartbeats say."""

from typing import Any

import pytest

from consumers.machine.effects import Status
from consumers.machine.push_flow import FlowWindow
from consumers.machine.push_side import flow_headers
from tests.unit.consumers.consumer_world import SECOND, World, seqs, statuses

MIB = 1 << 20


def test_the_window_doubles_up_to_its_limit() -> None:
    """A window takes its limit and no more, each answer doubles it, and what was sent since the request stays."""
    window = FlowWindow()
    for limit in (2, 4, 8, 16, 32, 32):
        assert window.add(limit * MIB - window.sent, eager=False)
        window.ask("t")
        assert window.open
        assert not window.add(1, eager=True)
        assert not window.open
        assert window.answer("t")
        assert (window.sent, window.token) == (1, "")


def test_the_client_is_asked_past_half_of_the_window() -> None:
    """The half itself is not yet enough, unless the client is to be asked at once."""
    window = FlowWindow()
    assert not window.add(MIB, eager=False)
    assert window.add(1, eager=False)
    assert FlowWindow().add(1, eager=True)


def test_what_overflows_behind_a_request_belongs_to_it() -> None:
    """The answer also releases messages that came when a whole window was under way behind the request."""
    window = FlowWindow()
    window.add(100, eager=True)
    window.ask("t")
    window.add(2 * MIB - 1, eager=False)
    window.add(1, eager=False)
    window.add(7, eager=False)
    window.answer("t")
    assert window.sent == 2 * MIB - 1


def test_only_the_open_request_is_answered() -> None:
    """Neither another token nor none at all, nor a second answer, opens the window further."""
    window = FlowWindow()
    assert not window.answer("")
    window.add(2 * MIB, eager=False)
    window.ask("t")
    assert not window.answer("u")
    assert window.answer("t")
    assert not window.answer("t")
    window.add(4 * MIB, eager=False)
    assert window.open
    window.add(1, eager=False)
    assert not window.open


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"", [0, 0]),
        (b"NATS/1.0\r\nnats-last-consumer: 5\r\nNats-Last-Stream:7\r\n\r\n", [5, 7]),
        (b"NATS/1.0\r\nNats-Last-Stream: -7\r\nNats-Last-Consumer: 5\r\n\r\n", [5, 0]),
        (b"NATS/1.0\r\nNats-Last-Stream: 1234567890123456789\r\n\r\n", [0, 1234567890123456789]),
        (b"NATS/1.0\r\nNats-Last-Stream: 12345678901234567890\r\nX: 3\r\n\r\n", [0, 0]),
    ],
)
def test_answers_name_the_last_sequences(header: bytes, found: list[int]) -> None:
    """What is no number of at most 19 digits counts as none."""
    assert flow_headers(header) == found


def _flowing(**config: Any) -> World:
    config = {"ack_policy": "explicit", "ack_wait": 30 * SECOND, "max_ack_pending": 2, **config}
    world = World(deliver_subject="d", flow_control=True, idle_heartbeat=SECOND, **config)
    world.consumer.set_active(True, world.now)
    return world


def test_only_acks_by_flow_control_are_asked_for() -> None:
    """With acks of its own a client is asked neither when as many as may be are missing nor with a heartbeat."""
    world = _flowing()
    assert statuses(world.store("a", "a", "a")) == []
    assert statuses(world.pass_time(1)) == [("d", 100, "Idle Heartbeat")]


def test_acks_by_flow_control_are_asked_for_in_time() -> None:
    """Without acks of its own a client is asked when it has as many messages as may be, and else with a heartbeat."""
    world = _flowing(ack_policy="flow_control", ack_wait=0)
    assert statuses(world.store("a")) == []
    assert [text for _, _, text in statuses(world.pass_time(1))] == ["Idle Heartbeat", "FlowControl Request"]
    [beat] = [one for one in world.pass_time(1) if isinstance(one, Status)]
    assert dict(beat.headers)["Nats-Consumer-Stalled"]
    assert world.consumer.flow_reply("id1", world.now, b"NATS/1.0\r\nNats-Last-Consumer: 1\r\n\r\n") == []
    assert world.consumer.num_ack_pending == 1
    assert [text for _, _, text in statuses(world.store("a", "a"))] == ["FlowControl Request"]
    header = b"NATS/1.0\r\nNats-Last-Consumer: 2\r\nNats-Last-Stream: 2\r\n\r\n"
    assert seqs(world.consumer.flow_reply("id2", world.now, header) + world.run()) == [3]
    assert world.consumer.ack_floor == (2, 2)


def test_heartbeats_begin_by_themselves_and_only_for_listeners() -> None:
    """The first heartbeat needs no message before it; while nobody listens there is none, and afterwards again."""
    world = _flowing()
    assert statuses(world.pass_time(1)) == [("d", 100, "Idle Heartbeat")]
    world.consumer.set_active(False, world.now)
    assert statuses(world.pass_time(2)) == []
    world.consumer.set_active(True, world.now)
    assert statuses(world.pass_time(1)) == [("d", 100, "Idle Heartbeat")]
