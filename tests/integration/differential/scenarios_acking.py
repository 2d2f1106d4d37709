"""Scenarios of acknowledging: every kind of ack, redelivery, limits, retention, advisories and metrics."""

from tests.integration.differential.desk import MILLISECOND, SECOND, Desk
from tests.integration.differential.side import Side, scenario


@scenario
async def ack_bodies(side: Side) -> None:
    """Every body that an ack may have, with and without a reply subject."""
    desk = await Desk(side).open(9)
    await desk.make()
    await desk.pull("9")
    await desk.ack(1)
    await desk.ack(2, "+ACK", to="r")
    await desk.ack(3, "+OK", to="r")
    await desk.ack(3, to="r")
    await desk.ack(4, "+WPI", to="r")
    await desk.ack(5, "+TERM", to="r")
    await desk.ack(6, "+TERM  not for me ", to="r")
    await desk.ack(6, "+TERM again", to="r")
    await desk.ack(7, "garbage", to="r")
    await desk.ack(8, "+ack", to="r")
    await desk.ack(8, "-NAK", to="r")
    await desk.ack(99, to="r")
    await desk.ack(99, "-NAK", to="r")
    await desk.ack(1, "-NAK", to="r")
    await desk.pull({"batch": 5, "no_wait": True}, to="b")


@scenario
async def naks(side: Side) -> None:
    """Negative acks, at once and with every form of a delay."""
    desk = await Desk(side).open(5)
    await desk.make()
    await desk.pull("5")
    await desk.ack(2, "-NAK", to="r")
    await desk.ack(2, "-NAK")
    await desk.ack(1, "-NAK")
    await desk.pull("1", to="b")
    await desk.pull({"batch": 2, "expires": 20 * SECOND}, to="c")
    await desk.ack(3, '-NAK {"delay":300000000}', to="r")
    await desk.wait(0.4)
    await desk.pull({"batch": 9, "expires": 20 * SECOND}, to="d")
    for body in ("-NAK 300ms", "-NAK bad", '-NAK {"delay":"x"}', '-NAK {"delay":-5}', "-NAK 0s", "-NAKx", "-NAK {}"):
        await desk.ack(4, body)
        await desk.wait(0.4, label=f"after {body}")
    await desk.ack(5, "-NAK 10s")
    await desk.ack(5, to="r")


@scenario
async def next_by_ack(side: Side) -> None:
    """An ack that asks for more."""
    desk = await Desk(side).open(8)
    await desk.make()
    await desk.pull("1")
    await desk.ack(1, "+NXT", to="n")
    await desk.ack(2, "+NXT 2", to="n")
    await desk.ack(3, '+NXT {"batch":2,"no_wait":true}', to="n")
    await desk.ack(4, "+NXT nonsense", to="n")
    await desk.ack(5, "+NXT")
    await desk.ack(1, "+NXT", to="n")
    await desk.ack(7, '+NXT {"batch":3,"no_wait":true}', to="n")
    await desk.ack(8, '+NXT {"batch":3,"no_wait":true}', to="n")


@scenario
async def ack_waits(side: Side) -> None:
    """Unacknowledged messages come again; work in progress puts that off."""
    desk = await Desk(side).open(4)
    await desk.make(ack_wait=3 * SECOND)
    desk.mark()
    await desk.pull("4")
    await desk.wait(0.4)
    await desk.ack(2, "+WPI", to="r")
    await desk.ack(4)
    await desk.pull({"batch": 10, "expires": 20 * SECOND}, to="b")
    await desk.until(3.3)
    await desk.until(4.5)
    await desk.ack(1, to="r")
    await desk.ack(2, "+TERM done")
    await desk.ack(3)
    await desk.until(7.0)


@scenario
async def ack_all(side: Side) -> None:
    """One ack stands for all before it."""
    desk = await Desk(side).open(8)
    await desk.make(ack_policy="all", ack_wait=30 * SECOND)
    await desk.pull("5")
    await desk.ack(3, to="r")
    await desk.ack(2, to="r")
    await desk.ack(4, "-NAK", to="r")
    await desk.pull("2", to="b")
    await desk.ack(8, to="r")
    await desk.ack(6, "+TERM x", to="r")
    await desk.pull("9", to="c")
    await desk.ack(7, "+NXT", to="n")
    await desk.ack(8, to="r")


@scenario
async def ack_none(side: Side) -> None:
    """Without acks messages count as done when they are sent."""
    desk = await Desk(side).open(4)
    await desk.make(ack_policy="none")
    await desk.pull("3")
    await desk.ack(2, to="r")
    await desk.ack(2, "-NAK", to="r")
    await desk.ack(3, "+TERM why", to="r")
    await desk.ack(3, "+NXT", to="n")
    await desk.pull({"batch": 3, "no_wait": True}, to="b")


@scenario
async def deliveries_at_most(side: Side) -> None:
    """max_deliver: advisories, what remains pending, naks of the last delivery."""
    desk = await Desk(side).open(3)
    await desk.make(max_deliver=2, ack_wait=500 * MILLISECOND)
    await desk.pull({"batch": 9, "expires": 20 * SECOND})
    await desk.wait(0.6)
    await desk.ack(1, to="r")
    await desk.wait(0.8)
    await desk.ack(2, to="r")
    await desk.ack(3, "-NAK", to="r")
    await desk.make("D", max_deliver=1, ack_wait=30 * SECOND)
    await desk.pull("2", name="D", to="b")
    await desk.ack(1, "-NAK", name="D", to="r")
    await desk.ack(2, "+TERM no", name="D", to="r")
    await desk.pull({"batch": 9, "no_wait": True}, name="D", to="c")
    await desk.ack(1, name="D", to="r")
    await desk.make("E", max_deliver=2)
    await desk.pull("2", name="E", to="d")
    await desk.ack(1, "-NAK", name="E")
    await desk.pull("1", name="E", to="d")
    await desk.ack(1, "-NAK", name="E")
    await desk.pull({"batch": 1, "no_wait": True}, name="E", to="d")


@scenario
async def backoffs(side: Side) -> None:
    """Growing waits between deliveries, and a nak among them."""
    desk = await Desk(side).open(2)
    await desk.make(backoff=[400 * MILLISECOND, 900 * MILLISECOND], max_deliver=4)
    await desk.pull({"batch": 20, "expires": 20 * SECOND})
    await desk.ack(2, to="r")
    await desk.wait(0.4)
    await desk.wait(0.9)
    await desk.ack(1, "+WPI", to="r")
    await desk.ack(1, "-NAK", to="r")
    await desk.wait(1.1)


@scenario
async def acks_missing_at_most(side: Side) -> None:
    """max_ack_pending holds deliveries back."""
    desk = await Desk(side).open(6)
    await desk.make(max_ack_pending=2)
    await desk.pull({"batch": 5, "expires": 20 * SECOND})
    await desk.pull({"batch": 5, "no_wait": True}, to="b")
    await desk.pull({"batch": 1, "no_wait": True, "expires": 300 * MILLISECOND}, to="c")
    await desk.wait(0.3)
    await desk.ack(1, to="r")
    await desk.ack(2, "-NAK")
    await desk.ack(3, "+TERM")
    await desk.make(max_ack_pending=1)
    await desk.ack(2, to="r")
    await desk.ack(4, to="r")
    await desk.make(max_ack_pending=5)
    await desk.pull({"batch": 5, "expires": 20 * SECOND}, to="d")


@scenario
async def acks_sampled(side: Side) -> None:
    """Each ack of a sampled consumer is measured."""
    desk = await Desk(side).open(4)
    await desk.make(sample_freq="100%")
    await desk.pull("4")
    await desk.ack(1, to="r")
    await desk.ack(1, to="r")
    await desk.ack(2, "-NAK", to="r")
    await desk.ack(3, "+TERM bad", to="r")
    await desk.ack(4, "+NXT", to="n")
    await desk.pull("1", to="b")
    await desk.ack(2, to="r")


@scenario
async def resets(side: Side) -> None:
    """A consumer starts over, behind its floor or anywhere."""
    desk = await Desk(side).open(6)
    await desk.make()
    await desk.pull("4")
    await desk.ack(1)
    await desk.ack(3)
    await desk.api("CONSUMER.RESET.S.C")
    await desk.pull("2", to="b")
    await desk.api("CONSUMER.RESET.S.C", {"seq": 5})
    await desk.ack(2, to="r")
    await desk.pull({"batch": 9, "no_wait": True}, to="c")
    await desk.api("CONSUMER.RESET.S.C", {"seq": 99})
    await desk.publish()
    await desk.pull({"batch": 9, "no_wait": True}, to="d")
    await desk.wait(0.6)  # or nats-server, which writes consumers' states later, may answer with the one before
    await desk.api("CONSUMER.RESET.S.C", {"seq": 1})
    await desk.pull({"batch": 9, "no_wait": True}, to="e")
    await desk.make("L", deliver_policy="by_start_sequence", opt_start_seq=4)
    await desk.api("CONSUMER.RESET.S.L", {"seq": 2})
    await desk.api("CONSUMER.RESET.S.L", {"seq": 5})
    await desk.pull("1", name="L", to="f")


@scenario
async def workqueues(side: Side) -> None:
    """A message leaves a workqueue when it is acked or given up for good."""
    desk = await Desk(side).open(6, retention="workqueue")
    await desk.make(max_deliver=2)
    await desk.pull("5")
    await desk.ack(2, to="r")
    await side.info("S")
    await desk.ack(1, "+TERM")
    await side.info("S")
    await desk.ack(3, "-NAK")
    await desk.pull("1", to="b")
    await desk.ack(3, "-NAK")
    await desk.pull({"batch": 1, "no_wait": True}, to="c")
    await desk.ack(3, to="r")
    await side.info("S")
    await desk.api("CONSUMER.DELETE.S.C")
    await side.info("S")
    await desk.make("one", filter_subject="s.0")
    await desk.make("two", filter_subject="s.2")
    await desk.pull({"batch": 9, "no_wait": True}, name="one", to="d")
    await desk.pull({"batch": 9, "no_wait": True}, name="two", to="e")
    await desk.ack(4, name="one", to="r")
    await desk.ack(6, name="two", to="r")
    await side.info("S")
    await desk.publish("s.1", "for nobody")
    await side.info("S")


@scenario
async def interest_retention(side: Side) -> None:
    """A message stays as long as one consumer that wants it has not acked it."""
    desk = await Desk(side).open(2, retention="interest")
    await side.info("S")
    await desk.make("one")
    await desk.make("two", filter_subject="s.1")
    for number in range(4):
        await desk.publish(f"s.{number % 3}", f"n{number}")
    await side.info("S")
    await desk.pull("9", name="one", to="a")
    await desk.ack(3, name="one", to="r")
    await desk.ack(4, name="one", to="r")
    await side.info("S")
    await desk.pull("9", name="two", to="b")
    await desk.ack(4, "+TERM", name="two", to="r")
    await side.info("S")
    await desk.publish("s.1", "for both")
    await desk.api("CONSUMER.DELETE.S.one")
    await side.info("S")
    await desk.make("push", deliver_subject="p", ack_policy="none", filter_subject="s.2")
    await desk.publish("s.2", "sent at once")
    await desk.publish("s.0", "for nobody")
    await side.info("S")
    await desk.api("CONSUMER.DELETE.S.two")
    await side.info("S")


@scenario
async def acks_all_and_limits(side: Side) -> None:
    """Limits take the oldest pending messages of a consumer that acks all at once: its floor passes them."""
    desk = await Desk(side).open(max_msgs=3)
    await desk.make(ack_policy="all")
    await desk.pull({"batch": 9, "expires": 20 * SECOND})
    for number in range(3):
        await desk.publish("s.1", f"{number}")
    await desk.ack(1)
    for number in range(4):
        await desk.publish("s.1", f"more {number}")
    await desk.ack(6, to="r")


@scenario
async def acks_of_what_is_to_come(side: Side) -> None:
    """An ack of a message that was not delivered is answered where flow control is on, and nowhere else."""
    desk = await Desk(side).open()
    flowing = {"flow_control": True, "idle_heartbeat": 30 * SECOND}
    await desk.make("F", deliver_subject="f", **flowing)
    await desk.make("G", deliver_subject="g")
    await desk.publish()
    for name in "FG":
        await desk.ack(1, "+ACK", to="r", name=name)
        await desk.ack(7, "+ACK", to="r", name=name)
        await desk.ack(8, to="r", name=name)


@scenario
async def headers_alone_have_a_size(side: Side) -> None:
    """Where headers are all that is delivered, max_bytes counts the header that tells the payload's size."""
    desk = await Desk(side).open(3)
    await desk.make(headers_only=True)
    for bound in (40, 60, 80, 100, 200):
        await desk.pull({"batch": 3, "expires": SECOND, "max_bytes": bound}, to=f"w{bound}")
        await desk.publish("s.1", "y" * 50)


@scenario
async def pins_of_nobody(side: Side) -> None:
    """Requests without a group, of a consumer that pins: the messages name no pin."""
    desk = await Desk(side).open(4)
    await desk.make(priority_policy="pinned_client", priority_groups=["g"])
    for number, body in enumerate(("1", "", "x", {"batch": 1, "no_wait": True})):
        await desk.pull(body, to=f"w{number}")
    await desk.publish()
