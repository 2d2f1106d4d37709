"""Push consumers: interest, the client's window, heartbeats, pace; and what ends or pauses any consumer."""

from typing import Any

import pytest

from consumers.config.consumer_config import MachineConfig
from consumers.machine.ack_bodies import ACK
from consumers.machine.effects import Deliver, Gone, Status
from tests.unit.consumers.consumer_world import EXPLICIT, SECOND, START, Stream, World, advisories, seqs, statuses


def _push(stream: Stream | None = None, **config: Any) -> World:
    return World(stream, deliver_subject="d", **config)


def test_nothing_is_pushed_while_nobody_listens() -> None:
    """Interest starts and stops the flow; the deliver group goes along."""
    world = _push(ack_policy="none", deliver_group="g")
    assert world.store("a") == []
    world.consumer.set_active(True, world.now)
    [run] = world.run()
    assert isinstance(run, Deliver)
    assert (run.subject, run.queue) == (b"d", b"g")
    assert world.consumer.push_bound
    world.consumer.set_active(False, world.now)
    assert world.store("a") == []


def test_the_window_stalls_and_grows() -> None:
    """Past half of its window a client is asked; until it answers no more than the window is under way."""
    world = _push(ack_policy="none", flow_control=True, idle_heartbeat=SECOND)
    world.consumer.set_active(True, world.now)
    effects = world.store(*["a"] * 60, data=b"x" * 100_000)
    asked = [one for one in effects if isinstance(one, Status)]
    assert [one.text for one in asked] == ["FlowControl Request"]
    assert len(seqs(effects)) == 21
    [beat] = [one for one in world.pass_time(1) if isinstance(one, Status)]
    assert dict(beat.headers)["Nats-Consumer-Stalled"] == asked[0].reply.decode()
    token = asked[0].reply.decode().rpartition(".")[2]
    assert world.consumer.flow_reply("wrong", world.now) == []
    more = world.consumer.flow_reply(token, world.now) + world.run()
    assert len(seqs(more)) > 21


def test_heartbeats_come_only_in_silence() -> None:
    """A heartbeat follows each silent interval and names the last sequences."""
    world = _push(ack_policy="none", idle_heartbeat=SECOND)
    world.consumer.set_active(True, world.now)
    world.pass_time(0.6)
    world.store("a")
    assert statuses(world.pass_time(0.6)) == []
    [beat] = [one for one in world.pass_time(0.5) if isinstance(one, Status)]
    assert beat.headers == (("Nats-Last-Consumer", "1"), ("Nats-Last-Stream", "1"))


def test_a_rate_limit_spreads_messages() -> None:
    """Beyond the burst, messages leave at the configured rate."""
    world = _push(ack_policy="none", rate_limit_bps=8 * 100_000)
    for _ in range(30):
        world.stream.store("a", data=b"x" * 100_000)
    world.consumer.set_active(True, world.now)
    assert len(seqs(world.run())) == 10
    assert 4 <= len(seqs(world.pass_time(5))) <= 6


def test_original_pace() -> None:
    """What was stored before leaves as far apart as it was stored, what comes later at once."""
    stream = Stream()
    for seconds in (0, 1, 1, 4):
        stream.store("a", now_ns=START + seconds * SECOND)
    world = _push(stream, ack_policy="none", replay_policy="original")
    world.consumer.set_active(True, world.now)
    assert seqs(world.run()) == [1]
    assert seqs(world.pass_time(0.9)) == []
    assert seqs(world.pass_time(0.2)) == [2, 3]
    assert seqs(world.pass_time(2.8)) == []
    assert seqs(world.pass_time(0.2)) == [4]
    world.now += 9 * SECOND
    assert seqs(world.store("a")) == [5]


def test_another_deliver_subject_gets_what_waits() -> None:
    """With a new deliver subject everything that waits for its ack is delivered again."""
    world = _push()
    world.consumer.set_active(True, world.now)
    world.store("a", "a")
    world.consumer.reconfigure(MachineConfig(name="C", deliver_subject="e", **EXPLICIT), world.now)
    effects = world.run()
    assert seqs(effects) == [1, 2]
    assert {one.subject for one in effects if isinstance(one, Deliver)} == {b"e"}


def test_a_pause_ends_by_itself() -> None:
    """A paused consumer delivers nothing until its time is over, and says both."""
    world = World()
    world.pull(b"5")
    [(kind, fields)] = advisories(world.consumer.pause(world.now + SECOND, world.now))
    assert (kind, fields["paused"]) == ("consumer_pause", True)
    assert world.store("a") == []
    effects = world.pass_time(1.1)
    assert seqs(effects) == [1]
    assert [fields["paused"] for _, fields in advisories(effects)] == [False]


@pytest.mark.parametrize("used", [True, False])
def test_unused_consumers_go(used: bool) -> None:
    """A pull consumer without requests for its threshold is gone; a waiting request keeps it."""
    world = World(inactive_threshold=5 * SECOND)
    if used:
        world.pull(b"1")
    assert (Gone() in world.pass_time(6)) is not used


def test_unacked_messages_keep_a_consumer() -> None:
    """While an ack may still come a pull consumer stays."""
    world = World(ack_policy="explicit", ack_wait=20 * SECOND, max_ack_pending=5, inactive_threshold=5 * SECOND)
    world.stream.store("a")
    world.pull(b"1")
    assert Gone() not in world.pass_time(19)
    assert Gone() in world.pass_time(30)


def test_a_push_consumer_goes_without_interest() -> None:
    """Without anybody listening for its threshold a push consumer is gone."""
    world = _push(inactive_threshold=5 * SECOND)
    world.consumer.set_active(True, world.now)
    assert world.pass_time(10) == []
    world.consumer.set_active(False, world.now)
    assert Gone() not in world.pass_time(4.9)
    assert Gone() in world.pass_time(0.2)


def test_sampling_is_the_same_every_time() -> None:
    """A sampled share of acks is measured, always the same messages."""

    def measured() -> list[int]:
        world = World(sample_freq="30%", **EXPLICIT)
        for _ in range(300):
            world.stream.store("a")
        world.pull(b"300")
        return [fields["stream_seq"] for seq in range(1, 301) for _, fields in advisories(world.ack(seq))]

    assert 50 < len(measured()) < 130
    assert measured() == measured()


def test_the_bodies_that_ack() -> None:
    """Nothing, +ACK and the old +OK are acks."""
    assert sorted(ACK) == [b"", b"+ACK", b"+OK"]


def test_acks_keep_a_consumer_that_nobody_listens_to() -> None:
    """Each ack, whatever becomes of it, begins the time after which an unused consumer goes anew."""
    for config in ({"deliver_subject": "d"}, {"max_waiting": 512}):
        world = World(ack_policy="explicit", ack_wait=SECOND, inactive_threshold=5 * SECOND, **config)
        for _ in range(3):
            assert world.pass_time(4.5) == []
            world.ack(1)
        assert world.pass_time(4.5) == []
        assert world.pass_time(0.7) == [Gone()]
