"""Scenarios of fast batches: what their reply subjects say, and every answer that comes there, in order."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.integration.differential.scenarios_features import show
from tests.integration.differential.side import Side, scenario
from tests.wire import SILENCE_SECONDS, Headers, Reply, header_block

START, APPEND, COMMIT, END, PING = range(5)


class Message(NamedTuple):
    """One message of a batch."""

    seq: int
    operation: int
    headers: Headers = ()
    subject: str = "a"


_PLAIN = Message(1, START)


class Publisher:
    """Publishes fast batches into one stream and records what comes back."""

    def __init__(self, side: Side, stream: str, *, gap: str = "fail", flow: int | str = 10) -> None:
        self.side = side
        self.stream = stream
        self.gap = gap
        self.flow = flow
        self._heard: list[Reply] = side.hear(f"FAST.{stream}.>")

    async def send(self, batch: str, *given: tuple[Any, ...], label: str = "", data: str = "x", **how: Any) -> None:
        """Publish messages of a batch in one go, as one step; ``gap`` and ``flow`` may be said again."""
        messages = [Message(*message) for message in given]
        gap, flow = how.get("gap", self.gap), how.get("flow", self.flow)
        replies = [
            f"FAST.{self.stream}.{batch}.{flow}.{gap}.{message.seq}.{message.operation}.$FI" for message in messages
        ]
        places = [f"{message.seq}/{message.operation}" for message in messages]
        text = f"{self.stream} {batch[:10]} {gap} {' '.join(places)}"
        await self.raw(replies, messages, label=label or text, data=data)

    async def raw(
        self, replies: Sequence[str], messages: Sequence[Message] = (), *, label: str, data: str = "x"
    ) -> None:
        """Publish one message for each reply subject, as one step."""
        wire, before = self.side.wire, len(self._heard)
        for reply, message in zip(replies, messages or [_PLAIN] * len(replies), strict=True):
            block = header_block(message.headers) if message.headers else b""
            wire.publish(f"{self.stream.lower()}.{message.subject}", data.encode(), reply=reply, header=block)
        barrier = header_block([("Nats-Expected-Stream", "NONE")])
        if await wire.ask(f"{self.stream.lower()}.a", header=barrier, seconds=1) is None:
            await self.side.pause(SILENCE_SECONDS)
        self.side.note(label, [{"heard": reply.payload.decode("latin-1")} for reply in self._heard[before:]])


def appends(first: int, last: int) -> list[tuple[int, int]]:
    """Plain messages of a batch, from one batch sequence to another."""
    return [(number, START if number == 1 else APPEND) for number in range(first, last + 1)]


@scenario
async def fast_batches(side: Side) -> None:
    """Batches that go well: acknowledgements on their way, how often they come, and all ways to end."""
    await side.create("FAST", subjects=["fast.>"], allow_batched=True, allow_direct=True, allow_msg_ttl=True)
    await side.info("FAST", label="a stream with fast batches")
    one = Publisher(side, "FAST")
    await one.send("alone", (1, COMMIT))
    await one.send("plain", *appends(1, 25), (26, COMMIT))
    await one.send("slowly", (1, START))
    for number in (2, 3, 4):
        await one.send("slowly", (number, APPEND), flow=2)
    await one.send("slowly", (5, END))
    await one.send("runs", *appends(1, 7), flow=3)
    await one.send("runs", *appends(8, 16), flow=3)
    await one.send("runs", (16, PING), flow=3)
    await one.send("runs", (9, PING), flow=3)
    await one.send("runs", (17, COMMIT), flow=3)
    await one.send("runs", (18, APPEND), label="after the end")
    await one.send("runs", (18, PING), label="ping after the end")
    for flow in ("0", "-5", "junk", "", "70000", "1", "0010"):
        await one.send(f"flow{flow}", (1, START), (2, END), flow=flow, label=f"flow {flow!r}")
    await one.send('q"u<é', (1, START), (2, COMMIT), label="a strange id")
    await one.send("", (1, START), (2, COMMIT), label="no id")
    await one.send("headers", (1, START, [("Key", "v")]), (2, APPEND, [("Nats-TTL", "1h")], "t"), (3, COMMIT, (), "c"))
    await one.send("ids", (1, START, [("Nats-Msg-Id", "1")]), (2, COMMIT, [("Nats-Msg-Id", "2")], "i"))
    await side.publish("fast.id", "again", headers=[("Nats-Msg-Id", "2")], label="an id of a batch")
    level = [("Nats-Required-Api-Level", "4")]
    await one.send("level", (1, START, [*level, ("Key", "kept")]), (2, COMMIT, level), label="level")
    await one.send("both", (1, START, [("Nats-Batch-Id", "x"), ("Nats-Batch-Sequence", "1")]), (2, END), label="both")
    await show(side, "FAST", "after all")
    await side.info("FAST", label="info at the end")


@scenario
async def fast_batches_together(side: Side) -> None:
    """Several batches at once share what may be on its way."""
    await side.create("MANY", subjects=["many.>"], allow_batched=True, allow_direct=True)
    one = Publisher(side, "MANY", flow=600)
    for batch in ("a", "b", "c"):
        await one.send(batch, (1, START))
    for batch in ("b", "c", "a"):
        await one.send(batch, *appends(2, 400), label=f"more of {batch}")
    await side.publish("many.between", "y")
    await one.send("a", *appends(401, 700), label="again of a")
    await one.send("b", (401, END))
    await one.send("c", (401, COMMIT))
    await one.send("a", *appends(701, 1700), label="alone now")
    await one.send("a", (1701, END))
    await side.info("MANY", label="info")


@scenario
async def fast_batches_gaps(side: Side) -> None:
    """Lost, repeated and late messages, where they are fine and where they are not."""
    await side.create("GAPS", subjects=["gaps.>"], allow_batched=True, allow_direct=True)
    one = Publisher(side, "GAPS", flow=2)
    for gap in ("fail", "ok"):
        runs: dict[str, list[tuple[int, int]]] = {
            "forward": [*appends(1, 2), (5, APPEND), (6, APPEND), (7, COMMIT)],
            "backward": [*appends(1, 3), (2, APPEND), (4, COMMIT)],
            "same": [*appends(1, 3), (3, APPEND), (4, COMMIT)],
            "again": [*appends(1, 3), (1, START), (2, COMMIT)],
            "commit": [*appends(1, 3), (9, COMMIT)],
            "end": [*appends(1, 3), (9, END)],
            "ping": [*appends(1, 3), (7, PING), (8, APPEND), (9, COMMIT)],
            "early ping": [*appends(1, 5), (2, PING), (6, COMMIT)],
            "far": [(1, START), (18446744073709551614, APPEND), (18446744073709551614, END)],
        }
        for name, messages in runs.items():
            await one.send(name.replace(" ", ""), *messages, gap=gap, label=f"{name} {gap}")
    await one.send("mixed", (1, START), gap="ok")
    await one.send("mixed", (3, APPEND), gap="fail", label="says fail, began with ok")
    await one.send("mixed", (4, END), gap="fail")
    await show(side, "GAPS", "after all")


@scenario
async def fast_batches_bad_replies(side: Side) -> None:
    """Reply subjects that are none, and batches that are not there."""
    await side.create("BADFI", subjects=["badfi.>"], allow_batched=True, allow_direct=True, max_msg_size=500)
    one = Publisher(side, "BADFI")
    for ending in (
        "$FI",
        "0.$FI",
        "1.0.$FI",
        "fail.1.0.$FI",
        "10.fail.1.0.$FI",
        "b.10.fail.1.5.$FI",
        "b.10.fail.1.-1.$FI",
        "b.10.fail.1.x.$FI",
        "b.10.fail.1..$FI",
        "b.10.fail.1.1.$FI",
        "b.10.fail.2.0.$FI",
        "b.10.fail.0.0.$FI",
        "b.10.fail.0.1.$FI",
        "b.10.fail.1.3.$FI",
        "b.10.fail.x.1.$FI",
        "b.10.fail..0.$FI",
        "b.10.fail.+1.0.$FI",
        "b.10.fail.18446744073709551615.1.$FI",
        "b.10.fail.18446744073709551616.1.$FI",
        "b.10.maybe.1.0.$FI",
        "b.10.FAIL.1.0.$FI",
        "b.10.fail.2.1.$FI",
        "b.10.fail.1.4.$FI",
        "b.10.fail.2.2.$FI",
        "b.10.fail.9.3.$FI",
        "z.10.fail.01.00.$FI",
        "z.10.fail.02.03.$FI",
        "x.y.z.10.ok.1.2.$FI",
        "i" * 64 + ".10.fail.1.2.$FI",
        "i" * 65 + ".10.fail.1.0.$FI",
        "é" * 33 + ".10.fail.1.2.$FI",
        "b.10.fail.1.0.$fi",
    ):
        await one.raw([f"FAST.BADFI.{ending}"], label=f"reply {ending}")
    await one.send("large", (1, START), data="x" * 600, label="too large")
    await one.send("large", (1, START), (2, APPEND))
    await one.send("large", (3, APPEND), data="x" * 600, label="too large within")
    await one.send("large", (4, COMMIT))
    await side.create("OFF", subjects=["off.>"], allow_direct=True)
    off = Publisher(side, "OFF")
    await off.send("b", (1, START), (2, COMMIT))
    await off.raw(["FAST.OFF.$FI"], label="no pattern where there are none")
    await side.update("OFF", subjects=["off.>"], allow_direct=True, allow_batched=True)
    await off.send("b", (1, START), (2, APPEND), label="now there are")
    await side.update("OFF", subjects=["off.>"], allow_direct=True)
    await off.send("b", (3, APPEND), label="no more")
    await side.update("OFF", subjects=["off.>"], allow_direct=True, allow_batched=True)
    await off.send("b", (3, APPEND), label="forgotten")
    await off.send("b", (1, START), label="seal")
    await side.update("OFF", subjects=["off.>"], allow_direct=True, allow_batched=True, sealed=True)
    await off.send("b", (2, APPEND), label="sealed")
    await side.create("QUIET", subjects=["quiet.>"], no_ack=True, allow_batched=True, allow_direct=True)
    quiet = Publisher(side, "QUIET", flow=2)
    await quiet.send("b", *appends(1, 5), (6, COMMIT), label="no_ack")
    await quiet.send("b", (1, APPEND), label="no_ack refused")
    await side.create("MIRRORS", mirror={"name": "OFF"}, allow_batched=True)
    await show(side, "BADFI", "after all")


@scenario
async def fast_batches_errors(side: Side) -> None:
    """Messages that can't be stored, in each place of a batch."""
    options: dict[str, Any] = {"allow_batched": True, "allow_direct": True}
    await side.create("ERR", subjects=["err.>"], **options)
    one = Publisher(side, "ERR", flow=3)
    await side.publish("err.first", headers=[("Nats-Msg-Id", "first")], label="first")
    wrong: dict[str, Headers] = {
        "stream": [("Nats-Expected-Stream", "OTHER")],
        "seq": [("Nats-Expected-Last-Sequence", "77")],
        "subject seq": [("Nats-Expected-Last-Subject-Sequence", "77")],
        "no seq": [("Nats-Expected-Last-Subject-Sequence-Subject", "err.first")],
        "ttl": [("Nats-TTL", "1h")],
        "rollup": [("Nats-Rollup", "sub")],
        "increment": [("Nats-Incr", "1")],
        "source": [("Nats-Stream-Source", "x")],
        "schedule": [("Nats-Schedule", "@every 1s")],
        "level": [("Nats-Required-Api-Level", "99")],
        "junk level": [("Nats-Required-Api-Level", "x")],
        "duplicate": [("Nats-Msg-Id", "first")],
    }
    for name, headers in wrong.items():
        for gap in ("fail", "ok"):
            await one.send("at1", (1, START, headers), (2, APPEND), (3, COMMIT), gap=gap, label=f"{name} first {gap}")
            within = [*appends(1, 3), (4, APPEND, headers), (5, APPEND), (6, COMMIT)]
            await one.send("at4", *within, gap=gap, label=f"{name} within {gap}")
            await one.send("atend", *appends(1, 3), (4, COMMIT, headers), gap=gap, label=f"{name} last {gap}")
            await one.send("lone", (1, COMMIT, headers), gap=gap, label=f"{name} lone {gap}")
            for batch in ("at1", "at4", "atend", "lone"):
                await one.send(batch, (99, END), gap=gap, label=f"{name} {batch} {gap} is over")
    same = [(number, APPEND if number > 1 else START, [("Nats-Msg-Id", "first")]) for number in range(1, 8)]
    await one.send("same", *same, (8, END), gap="ok", label="nothing but duplicates")
    await show(side, "ERR", "after all")
    last_id = [("Nats-Msg-Id", "last")], [("Nats-Expected-Last-Msg-Id", "last")]
    await one.send(
        "lastid", *((number + 1, number, headers) for number, headers in enumerate(last_id)), label="last id"
    )
    await one.send("lastid", (3, END), label="last id is over")
    expected = [("Nats-Expected-Last-Subject-Sequence", "0")]
    good = [(1, START, expected, "new"), (2, APPEND, expected, "new"), (3, APPEND, expected, "newer"), (4, COMMIT)]
    await one.send("expects", *good, gap="ok", label="expects")


@scenario
async def fast_batches_into_limits(side: Side) -> None:
    """Batches into streams that are full, keep counters, roll up, republish or rename."""
    options: dict[str, Any] = {"allow_batched": True, "allow_direct": True}
    limits: dict[str, dict[str, Any]] = {
        "FULL": {"max_msgs": 5, "discard": "new"},
        "BYTES": {"max_bytes": 300, "discard": "new"},
        "OLD": {"max_msgs": 5},
        "PER": {"max_msgs_per_subject": 2},
        "INTEREST": {"retention": "interest"},
        "PERNEW": {"max_msgs_per_subject": 1, "discard_new_per_subject": True, "discard": "new"},
    }
    for name, limit in limits.items():
        await side.create(name, subjects=[f"{name.lower()}.>"], **options, **limit)
        one = Publisher(side, name, flow=3)
        for gap in ("fail", "ok"):
            await one.send(gap, *appends(1, 9), (10, COMMIT), gap=gap)
            await one.send(gap, (11, END), gap=gap)
        await show(side, name, name)
    await side.create("COUNT", subjects=["count.>"], allow_msg_counter=True, **options)
    add = [("Nats-Incr", "2")]
    one = Publisher(side, "COUNT", flow=2)
    await one.send("sum", (1, START, add), (2, APPEND, add), (3, COMMIT, add), data="")
    await one.send("none", (1, START, add), (2, APPEND), (3, COMMIT, add), data="", label="no increment")
    await show(side, "COUNT", "sums")
    await side.create("ROLL", subjects=["roll.>"], allow_rollup_hdrs=True, **options)
    one = Publisher(side, "ROLL", flow=2)
    await one.send("roll", *appends(1, 4), (5, APPEND, [("Nats-Rollup", "sub")]), (6, COMMIT, (), "b"))
    await show(side, "ROLL", "rolled up")
    await side.create(
        "AGAIN",
        subjects=["again.>"],
        subject_transform={"src": "again.*", "dest": "stored.{{wildcard(1)}}"},
        republish={"src": "stored.>", "dest": "out.>"},
        **options,
    )
    out = side.hear("out.>")
    one = Publisher(side, "AGAIN", flow=2)
    await one.send("re", *appends(1, 4), (5, COMMIT))
    side.note("republished", [{"heard": reply.payload.decode()} for reply in out])
    await show(side, "AGAIN", "renamed")


@scenario
async def fast_batches_open(side: Side) -> None:
    """How many batches of a stream may be open at once."""
    await side.create("OPENFI", subjects=["openfi.>"], allow_batched=True, allow_direct=True)
    one = Publisher(side, "OPENFI")
    for first in range(0, 1000, 100):
        replies = [f"FAST.OPENFI.b{number}.10.fail.1.0.$FI" for number in range(first, first + 100)]
        await one.raw(replies, label=f"open {first}")
    await one.send("surplus", (1, START), (2, COMMIT))
    await one.send("b7", (2, END))
    await one.send("surplus", (1, START), (2, COMMIT), label="now there is room")
    await side.info("OPENFI", label="info")


@scenario
async def fast_batches_last_id(side: Side) -> None:
    """An expected last message id that is another one."""
    await side.create("LASTID", subjects=["lastid.>"], allow_batched=True)
    within = [*appends(1, 3), (4, APPEND, [("Nats-Expected-Last-Msg-Id", "nobody")]), (5, COMMIT)]
    await Publisher(side, "LASTID").send("b", *within, label="within")
