"""Scenarios of pushing: interest, queue groups, flow control, heartbeats, pace, pauses."""

from typing import Any

from tests.integration.differential.desk import MILLISECOND, SECOND, Desk, time_from_now
from tests.integration.differential.side import Side, scenario


@scenario
async def push_plainly(side: Side) -> None:
    """Messages go to the deliver subject as they come; acks, naks and redelivery."""
    desk = await Desk(side).open(3)
    await desk.make(deliver_subject="d", ack_wait=30 * SECOND)
    await desk.publish()
    await desk.ack(1)
    await desk.ack(2, "-NAK", to="r")
    await desk.ack(3, "+TERM", to="r")
    await desk.ack(4, to="r")
    await desk.ack(2, to="r")
    await desk.make("N", deliver_subject="n", ack_policy="none", filter_subject="s.1")
    await desk.publish("s.1", "", header=[("Key", "v")])
    await desk.ack(5)
    await desk.ack(5, name="N", to="r")
    await desk.make("A", deliver_subject="all", ack_policy="all", headers_only=True)
    await desk.ack(3, name="A", to="r")
    await desk.ack(5, name="A", to="r")


@scenario
async def push_interest(side: Side) -> None:
    """Nothing is sent while nobody listens; it goes on when somebody comes back."""
    desk = await Desk(side).open(2)
    await desk.make(deaf=True, deliver_subject="d", ack_wait=30 * SECOND)
    await desk.publish()
    await desk.start_listening("d")
    await desk.ack(1)
    await desk.stop_listening("d")
    await desk.publish()
    await desk.publish()
    await desk.wait(0.3)
    await desk.start_listening("d")
    await desk.stop_listening("d")
    await desk.make("E", deaf=True, deliver_subject="e", inactive_threshold=800 * MILLISECOND)
    await desk.start_listening("e")
    await desk.stop_listening("e")
    await desk.wait(1.5)


@scenario
async def push_to_a_wildcard(side: Side) -> None:
    """A listener by wildcard counts when the consumer is made, and when it comes."""
    desk = await Desk(side).open(1)
    desk.listen("d.*")
    await desk.make(deaf=True, deliver_subject="d.1")
    await desk.publish()
    await desk.stop_listening("d.*")
    await desk.start_listening("*.1")
    await desk.ack(1, to="r")


@scenario
async def push_to_a_queue(side: Side) -> None:
    """A deliver group: only its members count and get."""
    desk = await Desk(side).open(2)
    await desk.make(deliver_subject="d", deliver_group="workers")
    await desk.publish("s.1", "for a member", header=[("Key", "v")])
    await desk.ack(1, "-NAK")
    await desk.stop_listening("d")
    await desk.start_listening("d")
    await desk.publish()
    await desk.stop_listening("d")
    await desk.start_listening("d", queue="others")
    await desk.publish()
    await desk.stop_listening("d")
    await desk.start_listening("d", queue="workers")
    await desk.ack(2, to="r")
    await desk.make("H", deliver_subject="h", deliver_group="workers", idle_heartbeat=800 * MILLISECOND)
    await desk.wait(0.7)


@scenario
async def push_heartbeats(side: Side) -> None:
    """Idle heartbeats name the last sequences; messages put them off."""
    desk = await Desk(side).open(1)
    await desk.make(deliver_subject="d", idle_heartbeat=SECOND)
    await desk.wait(1.0)
    await desk.publish()
    await desk.wait(1.0)
    await desk.ack(1)
    await desk.stop_listening("d")
    await desk.wait(0.8)


@scenario
async def push_flow_control(side: Side) -> None:
    """Flow control requests, stalls, answers."""
    desk = await Desk(side).open()
    config: dict[str, Any] = {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": 700 * MILLISECOND}
    await desk.make(ack_policy="none", **config)
    for number in range(3):
        await desk.publish("s.0", f"{number}" * 600_000)
    await desk.wait(0.5)
    await desk.flow()
    await desk.wait(0.5)
    await desk.flow("answer again")
    await desk.publish("s.0", "small")
    await desk.publish("s.0", "small")


@scenario
async def push_acks_by_flow_control(side: Side) -> None:
    """Answers to flow control requests are the acknowledgements."""
    desk = await Desk(side).open()
    config: dict[str, Any] = {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND}
    await desk.make(ack_policy="flow_control", max_ack_pending=3, **config)
    await desk.publish()
    await desk.publish()
    await desk.wait(1.1)
    await desk.flow(header=[("Nats-Last-Consumer", "2"), ("Nats-Last-Stream", "2")])
    for number in range(4):
        await desk.publish("s.0", f"n{number}")
    await desk.wait(1.1)
    await desk.flow("answer again", header=[("Nats-Last-Consumer", "5"), ("Nats-Last-Stream", "5")])


@scenario
async def push_at_a_pace(side: Side) -> None:
    """Replay at the original pace and a rate limit: what comes, not when."""
    desk = await Desk(side).open()
    await desk.publish("s.0", "first")
    await desk.publish("s.1", "second")
    await desk.publish("s.2", "third")
    await desk.make("O", deliver_subject="o", replay_policy="original", ack_policy="none", seconds=1.2)
    await desk.publish("s.0", "live")
    for number in range(4):
        await side.wire.ask("s.1", f"{number}".encode() * 1000)
    await desk.make("R", deliver_subject="r", rate_limit_bps=64_000, ack_policy="none", seconds=1.5)


@scenario
async def push_pause(side: Side) -> None:
    """A paused consumer sends heartbeats and nothing else until its time has come."""
    desk = await Desk(side).open(1)
    await desk.make(deliver_subject="d")
    await desk.pause(0.7)
    await desk.publish()
    await desk.ack(1, "-NAK")
    await desk.wait(0.7)
    await desk.pause(0.7)
    await desk.pause(900)
    await desk.publish()
    await desk.wait(0.7)
    await desk.pause(0.5)
    await desk.wait(0.5)
    await desk.pause(-5)
    await desk.make("D", deliver_subject="e", pause_until=time_from_now(0.7))
    await desk.wait(0.8)
    await desk.make("P", pause_until=time_from_now(900))
    await desk.pull({"batch": 2, "no_wait": True}, name="P")
    await desk.pull({"batch": 2, "expires": 400 * MILLISECOND}, name="P")
    await desk.wait(0.4)
    await desk.pause(0.5, name="P")
    await desk.pull({"batch": 2, "expires": 20 * SECOND}, name="P", to="b")
    await desk.wait(0.5)


@scenario
async def push_resume(side: Side) -> None:
    """A pause that is ended by request ends at once."""
    desk = await Desk(side).open(1)
    await desk.make(deaf=True, deliver_subject="d", pause_until=time_from_now(900))
    await desk.start_listening("d")
    await desk.api("CONSUMER.PAUSE.S.C")


@scenario
async def push_reset_and_update(side: Side) -> None:
    """A push consumer starts over, gets another deliver subject and other filters, becomes full."""
    desk = await Desk(side).open(4)
    await desk.make(deliver_subject="d", max_ack_pending=3)
    await desk.ack(1)
    await desk.ack(2)
    await desk.api("CONSUMER.RESET.S.C")
    await desk.api("CONSUMER.RESET.S.C", {"seq": 2})
    await desk.make(deliver_subject="e", max_ack_pending=3)
    await desk.stop_listening("d")
    await desk.make(deliver_subject="e", max_ack_pending=3)
    await desk.ack(2, "-NAK")
    await desk.make(deliver_subject="e", max_ack_pending=10)
    await desk.make(deliver_subject="e", max_ack_pending=10, filter_subject="s.2")
    await desk.publish("s.1", "not for it")
    await desk.publish("s.2", "for it")
    await desk.api("CONSUMER.DELETE.S.C")
