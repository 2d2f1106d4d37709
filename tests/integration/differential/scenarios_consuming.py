"""Scenarios of pulling: request bodies, statuses, who gets what, where reading starts, priority groups."""

import json
from typing import Any

from tests.integration.differential.desk import MILLISECOND, SECOND, Desk
from tests.integration.differential.side import Side, scenario

_G: dict[str, Any] = {"group": "g"}


@scenario
async def pull_bodies(side: Side) -> None:
    """Every form of a request's body."""
    desk = await Desk(side).open(12)
    await desk.make()
    bodies = (
        "",
        "2",
        "0",
        "-1",
        "x",
        "{",
        "{}",
        '{"batch":0}',
        '{"batch":-5}',
        '{"batch":"1"}',
        '{"batch":1,"unknown":true}',
        '{"batch":1,"batch":2}',
        '{"BATCH":1,"No_Wait":true}',
        '{"batch":1,"max_bytes":-1}',
        '{"batch":1,"expires":-1}',
        '{"batch":1,"expires":"1s"}',
        '{"batch":1,"expires":1000000000,"idle_heartbeat":600000000}',
        '{"batch":1,"expires":1000000000,"idle_heartbeat":-5}',
        '{"batch":1,"idle_heartbeat":100000000}',
        '{"batch":1,"no_wait":1}',
        '{"batch":1,"priority":12}',
        '{"batch":1,"priority":-1}',
        '{"batch":1,"group":"g"}',
        '{"batch":1,"min_pending":1}',
        '{"batch":1,"min_ack_pending":1}',
        '{"batch":1,"id":"someone"}',
        "[]",
        "null",
        " 1",
        "1 ",
        "1.5",
        "99999999999999999999",
    )
    for body in bodies:
        await desk.pull(body, to="_r.bodies")
    await desk.pull({"batch": 1}, to="b", header=[("Nats-Required-Api-Level", "99")])
    await desk.pull({"batch": 1}, to="b", header=[("Nats-Required-Api-Level", "1")])
    await desk.pull({"batch": 1}, to="c", name="unknown")


@scenario
async def pull_statuses(side: Side) -> None:
    """No messages, timeouts, heartbeats, requests pending."""
    desk = await Desk(side).open(3)
    await desk.make()
    await desk.pull({"batch": 2, "no_wait": True})
    await desk.pull({"batch": 5, "no_wait": True}, to="b")
    await desk.pull({"batch": 5, "no_wait": True}, to="c")
    await desk.pull({"batch": 5, "expires": 300 * MILLISECOND}, to="d")
    await desk.wait(0.4)
    await desk.pull({"batch": 5, "expires": 400 * MILLISECOND, "no_wait": True}, to="e")
    await desk.wait(0.4)
    await desk.pull({"batch": 2, "expires": 2 * SECOND, "idle_heartbeat": 600 * MILLISECOND}, to="f")
    await desk.wait(0.85)
    await desk.publish()
    await desk.wait(1.1)
    await desk.pull({"batch": 3, "expires": 2 * SECOND}, to="g")
    await desk.publish()
    await desk.pull({"batch": 2, "no_wait": True}, to="h")
    await desk.pull({"batch": 2, "no_wait": True, "expires": 300 * MILLISECOND}, to="i")
    await desk.wait(0.4)
    await desk.pull({"batch": 1, "expires": 300 * MILLISECOND, "max_bytes": 5000}, to="j")
    await desk.wait(2.0)


@scenario
async def pull_stalled(side: Side) -> None:
    """Requests that may not wait, at a consumer with all the acks missing that may be: what any timer brings them."""
    desk = await Desk(side).open(9)
    await desk.make(max_ack_pending=2)
    beating = {"expires": 3 * SECOND, "idle_heartbeat": 400 * MILLISECOND}
    await desk.pull({"batch": 5, "no_wait": True, **beating})
    await desk.wait(0.5)
    await desk.pull({"batch": 5, "no_wait": True, **beating}, to="b")
    await desk.pull({"batch": 1, "no_wait": True}, to="c")
    await desk.wait(0.5)
    await desk.ack(1)
    await desk.wait(0.5)
    await desk.pull({"batch": 1, "no_wait": True}, to="d")
    await desk.pull({"batch": 5, "expires": 500 * MILLISECOND}, to="e")
    await desk.wait(0.6)
    await desk.make("F", max_ack_pending=2)
    await desk.pull({"batch": 5, "no_wait": True, "expires": 500 * MILLISECOND}, to="f", name="F")
    await desk.wait(0.6)
    await desk.make("G", max_ack_pending=2, inactive_threshold=300 * MILLISECOND)
    await desk.pull({"batch": 5, "no_wait": True}, to="g", name="G")
    await desk.wait(1.4)


@scenario
async def pull_limits(side: Side) -> None:
    """What a consumer's own limits refuse."""
    desk = await Desk(side).open(4)
    limits: dict[str, Any] = {"max_batch": 2, "max_expires": SECOND, "max_bytes": 1000}
    await desk.make(**limits)
    await desk.pull({"batch": 3})
    await desk.pull("3")
    await desk.pull({"batch": 1, "expires": 2 * SECOND})
    await desk.pull({"batch": 1, "expires": 1500 * MILLISECOND})
    await desk.pull({"batch": 1, "max_bytes": 1001})
    await desk.pull({"batch": 9, "max_bytes": 1001, "expires": 2 * SECOND})
    await desk.pull({"batch": 2, "max_bytes": 1000, "expires": SECOND, "no_wait": True})
    await desk.make("D", max_expires=90 * 60 * SECOND + 1_500_000)
    await desk.pull({"batch": 1, "expires": 3 * 60 * 60 * SECOND}, name="D")
    await desk.make("E", deliver_subject="e", ack_policy="none")
    await desk.pull("1", name="E", to="b")


@scenario
async def pull_max_bytes(side: Side) -> None:
    """The byte budget of a request: too small, used up, exact, with headers."""
    desk = await Desk(side).open()
    for _ in range(4):
        await side.wire.ask("s.1", b"x" * 100)
    await desk.make()
    await desk.pull({"batch": 9, "max_bytes": 50, "expires": SECOND})
    await desk.pull({"batch": 9, "max_bytes": 350, "expires": SECOND}, to="b")
    await desk.wait(1.0)
    await desk.pull({"batch": 1, "max_bytes": 400, "expires": SECOND}, to="c")
    await desk.pull({"batch": 9, "max_bytes": 400, "no_wait": True}, to="d")
    await desk.pull({"batch": 3, "max_bytes": 300, "expires": 500 * MILLISECOND}, to="e")
    await desk.publish("s.2", "y" * 50, header=[("Key", "v" * 80)])
    await desk.publish("s.2", "y" * 400)
    await desk.wait(0.6)
    await desk.pull({"batch": 3, "max_bytes": 300, "expires": SECOND}, to="f")
    await desk.pull({"batch": 3, "max_bytes": 30000, "expires": SECOND}, to="g")


@scenario
async def pull_max_waiting(side: Side) -> None:
    """A full queue, with and without heartbeats, and how it empties."""
    desk = await Desk(side).open()
    await desk.make(max_waiting=2)
    await desk.pull({"batch": 1, "expires": 600 * MILLISECOND})
    await desk.pull("1", to="b")
    await desk.pull("1", to="c")
    await desk.pull({"batch": 1, "expires": SECOND, "idle_heartbeat": 300 * MILLISECOND}, to="d")
    await desk.pull({"batch": 1, "no_wait": True}, to="e")
    await desk.wait(0.6)
    await desk.pull({"batch": 2, "expires": SECOND}, to="f")
    await desk.stop_listening("b")
    await desk.pull("1", to="g")
    await desk.publish()
    await desk.publish()
    await desk.publish()


@scenario
async def pull_distribution(side: Side) -> None:
    """Several waiting requests take turns; one receiver sees all, so the order among them counts."""
    desk = await Desk(side).open()
    desk.listen("w.*")
    await desk.make()
    for to, batch in (("w.1", 2), ("w.2", 5), ("w.3", 1)):
        await desk.pull({"batch": batch, "expires": 20 * SECOND}, to=to)
    for number in range(9):
        await desk.publish("s.1", f"n{number}")
    await desk.pull({"batch": 4, "expires": 20 * SECOND}, to="w.4")
    await desk.pull({"batch": 4, "expires": 20 * SECOND, "max_bytes": 100}, to="w.5")
    for number in range(5):
        await desk.publish("s.0", f"more {number}")
    await desk.ack(1, "-NAK")
    await desk.pull({"batch": 2, "no_wait": True}, to="w.6")
    await desk.pull("3", to="w.7")
    await desk.pull("3", to="w.8")
    for seq in (2, 3, 4):
        await desk.ack(seq, "-NAK")


@scenario
async def pull_interest(side: Side) -> None:
    """Who stops listening gets nothing; who comes back asks again."""
    desk = await Desk(side).open(2)
    await desk.make(ack_wait=SECOND)
    await desk.pull({"batch": 5, "expires": 5 * SECOND})
    await desk.pull({"batch": 5, "expires": 5 * SECOND}, to="b")
    await desk.stop_listening("a")
    await desk.publish()
    await desk.stop_listening("b")
    await desk.publish()
    await desk.wait(1.0)
    await desk.pull({"batch": 5, "expires": 2 * SECOND})
    await desk.wait(1.0)


@scenario
async def deliver_policies(side: Side) -> None:
    """Where each deliver policy begins."""
    desk = await Desk(side).open(9)
    await side.api("STREAM.MSG.DELETE.S", {"seq": 1})
    await side.api("STREAM.MSG.DELETE.S", {"seq": 9})
    policies: dict[str, dict[str, Any]] = {
        "all": {},
        "last": {},
        "new": {},
        "last_per_subject": {"filter_subject": "s.>"},
        "by_start_sequence": {"opt_start_seq": 4},
        "by_start_time": {"opt_start_time": "2020-01-01T00:00:00Z"},
    }
    for policy, more in policies.items():
        name = policy.replace("_", "-")
        await desk.make(name, deliver_policy=policy, **more)
        await desk.pull({"batch": 3, "no_wait": True}, name=name)
    await desk.make("far", deliver_policy="by_start_sequence", opt_start_seq=99)
    await desk.make("gone", deliver_policy="by_start_sequence", opt_start_seq=1)
    await desk.make("later", deliver_policy="by_start_time", opt_start_time="2120-01-01T00:00:00Z")
    await desk.make("last-one", deliver_policy="last", filter_subject="s.2")
    await desk.make("last-none", deliver_policy="last", filter_subject="s.none")
    await desk.make("last-two", deliver_policy="last_per_subject", filter_subjects=["s.0", "s.1"])
    for name in ("far", "gone", "later", "last-one", "last-none", "last-two"):
        await desk.pull({"batch": 3, "no_wait": True}, name=name)
    await desk.publish("s.0", "new")
    for name in ("new", "far", "later", "last", "last-two", "last-none"):
        await desk.pull({"batch": 5, "no_wait": True}, name=name, to="b")


@scenario
async def filters(side: Side) -> None:
    """One filter, several, wildcards, and other ones while consuming."""
    desk = await Desk(side).open(9)
    await desk.make(filter_subject="s.1")
    await desk.pull("2")
    await desk.make(filter_subjects=["s.0", "s.2"])
    await desk.pull("2", to="b")
    await desk.ack(2, to="r")
    await desk.make(filter_subject="s.*")
    await desk.pull({"batch": 9, "no_wait": True}, to="c")
    await desk.make(filter_subject="s.none.>")
    await desk.publish("s.none.of", "x")
    await desk.publish("s.none", "x")
    await desk.pull({"batch": 9, "no_wait": True}, to="d")
    await desk.make()
    await desk.pull({"batch": 9, "no_wait": True}, to="e")
    await desk.make("D", filter_subjects=["s.1", "s.none.>"])
    await desk.pull({"batch": 9, "no_wait": True}, to="f", name="D")


@scenario
async def headers_and_payloads(side: Side) -> None:
    """Stored header blocks come as they are, empty payloads too; headers_only adds the size."""
    desk = await Desk(side).open()
    await desk.publish("s.1", "", header=[("B", "2"), ("a", "1"), ("B", "3"), ("Nats-Msg-Id", "one")])
    await desk.publish("s.1", "")
    await desk.publish("s.1", "größe ✓" * 5, header=[("Unicode", "größe ✓")])
    await desk.publish("s.1", "y" * 2000)
    await desk.make()
    await desk.make("H", headers_only=True)
    for name in ("C", "H"):
        await desk.pull({"batch": 9, "no_wait": True}, name=name)
    await desk.ack(1, "-NAK", name="H")
    await desk.pull({"batch": 9, "no_wait": True}, name="H")
    await desk.make("H", headers_only=False)
    await desk.ack(1, "-NAK", name="H")
    await desk.pull({"batch": 9, "no_wait": True}, name="H")


@scenario
async def republished(side: Side) -> None:
    """What is republished and what consumers of the same stream get."""
    desk = await Desk(side).open(republish={"src": "s.*", "dest": "re.{{wildcard(1)}}"})
    desk.listen("re.>")
    await desk.make()
    await desk.make("P", deliver_subject="p", ack_policy="none")
    await desk.publish("s.1", "one")
    await desk.publish("s.2", "", header=[("Key", "v")])
    await desk.publish("s.1", "three")
    await desk.pull("9")


@scenario
async def overflow_groups(side: Side) -> None:
    """Requests of an overflow group wait for their limits."""
    desk = await Desk(side).open()
    await desk.make(priority_policy="overflow", priority_groups=["g"])
    await desk.pull({"batch": 2, "min_pending": 3, "expires": 20 * SECOND, **_G})
    await desk.publish()
    await desk.publish()
    await desk.publish()
    await desk.pull({"batch": 1, "min_ack_pending": 2, "expires": 20 * SECOND, **_G}, to="b")
    await desk.publish()
    await desk.pull({"batch": 1, **_G}, to="c")
    await desk.pull({"batch": 1}, to="d")
    await desk.pull("1", to="d")
    await desk.pull({"batch": 1, "group": "other"}, to="d")
    await desk.pull({"batch": 1, "priority": 1, **_G}, to="d")
    await desk.pull({"batch": 1, "id": "x", **_G}, to="d")
    await desk.pull({"batch": 1, "min_pending": 1, "no_wait": True, **_G}, to="e")
    await desk.pull({"batch": 1, "min_pending": 99, "no_wait": True, **_G}, to="e")
    await desk.publish()


@scenario
async def pulls_to_nobody(side: Side) -> None:
    """A request that nobody listens for takes no message away, and one that waits may find a listener yet."""
    desk = await Desk(side).open(3)
    await desk.make(ack_wait=30 * SECOND)
    await desk.pull("2", to="nobody", deaf=True)
    await desk.pull({"batch": 2, "expires": 20 * SECOND}, to="nobody.either", deaf=True)
    await desk.pull({"batch": 1, "no_wait": True}, to="nobody", deaf=True)
    await desk.pull("2", to="a")
    for number in range(5):
        await desk.pull("1", to=f"new.{number}")
        await desk.publish()
    await desk.pull({"batch": 2, "expires": 20 * SECOND}, to="late", deaf=True)
    await desk.start_listening("late")
    await desk.publish()
    await desk.stop_listening("late")
    await desk.publish()
    await desk.ack(1, "-NAK")
    await desk.pull("9", to="a")


@scenario
async def pulls_at_once(side: Side) -> None:
    """Of two requests in one packet the more urgent may be served first; the other gets what comes next."""
    desk = await Desk(side).open()
    await desk.make(ack_policy="none", priority_policy="prioritized", priority_groups=["g"])
    served: list[str] = []
    for name in ("low", "high"):
        side.wire.listen(name, lambda _, name=name: served.append(name))
    for _ in range(25):
        await side.wire.ask("s.1", b"m")
        for name, priority in (("low", 5), ("high", 1)):
            side.wire.publish(
                "$JS.API.CONSUMER.MSG.NEXT.S.C",
                json.dumps({"batch": 1, "priority": priority, "expires": 20 * SECOND, **_G}).encode(),
                reply=name,
            )
        for odd in (1, 0):
            await side.until(lambda odd=odd: len(served) % 2 == odd)
            if odd:
                await side.wire.ask("s.1", b"m")
    shown = {"both each time": served.count("low") == 25, "high came first": "high" in served[::2]}
    side.note("who was served", [shown])


@scenario
async def prioritized_groups(side: Side) -> None:
    """The lowest number is served first, equals in turn."""
    desk = await Desk(side).open()
    desk.listen("w.*")
    await desk.make(priority_policy="prioritized", priority_groups=["g"])
    for to, batch, priority in (("w.1", 3, 2), ("w.2", 2, 1), ("w.3", 2, 1), ("w.4", 1, 0)):
        await desk.pull({"batch": batch, "priority": priority, "expires": 20 * SECOND, **_G}, to=to)
    for number in range(8):
        await desk.publish("s.1", f"n{number}")
    for priority in (-1, 9, 10):
        await desk.pull({"batch": 1, "priority": priority, "expires": 20 * SECOND, **_G}, to="w.5")
    await desk.pull({"batch": 1, "priority": 1, "min_pending": 1, **_G}, to="w.6")
    await desk.publish()


@scenario
async def pinned_groups(side: Side) -> None:
    """One client is pinned, others wait; unpinning, wrong ids, the pin's timeout."""
    desk = await Desk(side).open(2)
    await desk.make(priority_policy="pinned_client", priority_groups=["g"], priority_timeout=2 * SECOND)
    wait: dict[str, Any] = {"expires": 20 * SECOND, **_G}
    await desk.pull({"batch": 1, **wait})
    await desk.pull({"batch": 2, **wait}, to="b")
    await desk.pull({"batch": 2, "id": "wrong", **wait}, to="c")
    await desk.pull({"batch": 2, "id": "<pin>", **wait}, to="d")
    await desk.publish()
    await desk.api("CONSUMER.UNPIN.S.C", {"group": "g"})
    await desk.publish()
    await desk.pull({"batch": 1, "id": "<pin>", **wait}, to="e")
    await desk.publish()
    await desk.wait(2.2)
    await desk.pull({"batch": 3, "expires": 3 * SECOND, **_G}, to="f")
    await desk.publish()
    await desk.api("CONSUMER.UNPIN.S.C", {"group": "other"})
    await desk.api("CONSUMER.UNPIN.S.C", {})


@scenario
async def consumer_goes(side: Side) -> None:
    """Who waits when the consumer is deleted, falls idle, or its stream goes, is told."""
    desk = await Desk(side).open(1)
    await desk.make()
    await desk.pull({"batch": 3, "expires": 20 * SECOND})
    await desk.pull({"batch": 3, "expires": 20 * SECOND}, to="b")
    await desk.api("CONSUMER.DELETE.S.C")
    await desk.pull("1", to="c")
    await desk.ack(1, to="r")
    await desk.make("D", inactive_threshold=700 * MILLISECOND)
    await desk.make("H", ack_wait=200 * MILLISECOND, inactive_threshold=2 * SECOND)
    desk.mark()
    await desk.pull("1", name="H", to="h")
    await desk.pull({"batch": 1, "no_wait": True}, name="D", to="c")
    await desk.until(0.8)
    await desk.ack(1, name="H")
    await desk.until(2.6)
    await desk.api("CONSUMER.DELETE.S.H")
    await desk.pull("1", name="D", to="d")
    await desk.make("E")
    await desk.make("F", deliver_subject="f", ack_policy="none")
    await desk.api("CONSUMER.DELETE.S.F")
    await desk.api("CONSUMER.DELETE.S.D")
    await desk.pull({"batch": 3, "expires": 20 * SECOND}, to="e", name="E")
    await desk.api("STREAM.DELETE.S")
    await desk.pull("1", to="g", name="E")


@scenario
async def messages_go(side: Side) -> None:
    """Messages are deleted, purged or fall to limits while they wait to be delivered or acked."""
    desk = await Desk(side).open(9)
    await desk.make()
    await desk.pull("4")
    await desk.api("STREAM.MSG.DELETE.S", {"seq": 2})
    await desk.api("STREAM.MSG.DELETE.S", {"seq": 5})
    await desk.ack(2, to="r")
    await desk.ack(3, "-NAK")
    await desk.api("STREAM.MSG.DELETE.S", {"seq": 3})
    await desk.pull({"batch": 1, "no_wait": True}, to="b")
    await desk.api("STREAM.PURGE.S", {"seq": 8})
    await desk.ack(4, to="r")
    await desk.pull({"batch": 1, "no_wait": True}, to="c")
    await desk.api("STREAM.PURGE.S")
    await desk.pull({"batch": 1, "expires": 3 * SECOND}, to="d")
    await desk.publish()
    await desk.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 2})
    for number in range(4):
        await desk.publish("s.0", f"{number}")
    await desk.pull({"batch": 5, "no_wait": True}, to="e")
