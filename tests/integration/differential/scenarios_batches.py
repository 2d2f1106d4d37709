"""Scenarios of publishing several messages as one, and of counters."""

from typing import Any

from tests.integration.differential.scenarios_features import show
from tests.integration.differential.side import Side, scenario


async def add(side: Side, subject: str, batch: str, number: int | str, **options: Any) -> None:
    """Publish one message of a batch; ``commit`` is the commit header's value, ``headers`` are more headers."""
    headers = [("Nats-Batch-Id", batch), ("Nats-Batch-Sequence", f"{number}"), *options.get("headers", ())]
    if "commit" in options:
        headers.append(("Nats-Batch-Commit", options["commit"]))
    label = options.get("label") or f"{batch[:10]} {number} {subject} {options.get('commit', '')}"
    await side.publish(subject, options.get("data", f"{number}"), headers=headers, label=label)


@scenario
async def atomic_batches(side: Side) -> None:
    """Batches that are committed, with and without an end mark, and what is stored of them."""
    await side.create("BATCH", subjects=["batch.>"], allow_atomic=True, allow_direct=True, allow_msg_ttl=True)
    await add(side, "batch.a", "one", 1, commit="1")
    for number in (1, 2):
        await add(side, f"batch.{number}", "two", number)
    await show(side, "BATCH", "while a batch is open")
    await side.publish("batch.between", "x")
    await add(side, "batch.3", "two", 3, commit="1")
    await add(side, "batch.1", "eob", 1, headers=[("Key", "value"), ("Nats-TTL", "1h")])
    await add(side, "batch.2", "eob", 2)
    await add(side, "batch.3", "eob", 3, commit="eob")
    await add(side, "batch.x", "level", 1, headers=[("Nats-Required-Api-Level", "2")], commit="1")
    await add(side, "batch.id", "ids", 1, headers=[("Nats-Msg-Id", "id1")])
    await add(side, "batch.id", "ids", 2, headers=[("Nats-Msg-Id", "id2")], commit="1")
    await side.publish("batch.id", "again", headers=[("Nats-Msg-Id", "id2")], label="an id of a batch")
    await add(side, 'batch.q"', 'q"uote', 1, commit="1")
    await show(side, "BATCH", "after all")
    await side.mute("batch.mute", "1", headers=[("Nats-Batch-Id", "mute"), ("Nats-Batch-Sequence", "1")])
    await add(side, "batch.mute", "mute", 2, commit="1")
    await side.info("BATCH", label="info at the end")


@scenario
async def atomic_batches_refused(side: Side) -> None:
    """All that a batch is refused for; nothing of it is stored."""
    await side.create("NOBATCH", subjects=["nobatch"])
    await add(side, "nobatch", "off", 1, commit="1")
    await side.create("BAD", subjects=["bad.>"], allow_atomic=True, allow_direct=True, max_msg_size=500)
    await side.publish("bad.first", "1")
    await add(side, "bad.x", "i" * 65, 1, label="id too long")
    await side.publish("bad.x", "1", headers=[("Nats-Batch-Id", "noseq")], label="no sequence")
    await add(side, "bad.x", "junk", "one", label="junk sequence")
    await add(side, "bad.x", "late", 2, label="begins with 2")
    await add(side, "bad.x", "late", 1001, label="begins with 1001")
    await add(side, "bad.x", "late", 1002, label="begins with 1002", commit="eob")
    await add(side, "bad.x", "zero", 0, label="begins with 0")
    await add(side, "bad.x", "eob", 1, commit="eob", label="nothing but an end")
    await add(side, "bad.x", "eob", 0, commit="eob", label="an end at 0")
    await add(side, "bad.x", "nothing", 1, commit="", label="commit without a value")
    await add(side, "bad.x", "gap", 1)
    await add(side, "bad.x", "gap", 3)
    await add(side, "bad.x", "gap", 2, label="after a gap")
    await add(side, "bad.x", "commit", 1)
    await add(side, "bad.x", "commit", 2, commit="yes")
    await add(side, "bad.x", "commit", 3, commit="1", label="after a bad commit")
    await add(side, "bad.x", "level", 1, headers=[("Nats-Required-Api-Level", "99")])
    await add(side, "bad.x", "large", 1, data="x" * 600)
    checks: tuple[tuple[str, list[tuple[str, str]], list[tuple[str, str]]], ...] = (
        ("last id", [], [("Nats-Expected-Last-Msg-Id", "x")]),
        ("stream", [], [("Nats-Expected-Stream", "OTHER")]),
        ("ttl", [], [("Nats-TTL", "1h")]),
        ("bad ttl", [], [("Nats-TTL", "junk")]),
        ("same id", [("Nats-Msg-Id", "a")], [("Nats-Msg-Id", "a")]),
        ("source", [], [("Nats-Stream-Source", "x")]),
        ("last seq", [("Nats-Expected-Last-Sequence", "5")], []),
        ("last seq second", [("Nats-Expected-Last-Sequence", "1")], [("Nats-Expected-Last-Sequence", "2")]),
        ("last seq second wrong", [], [("Nats-Expected-Last-Sequence", "1")]),
        ("subject seq", [("Nats-Expected-Last-Subject-Sequence", "3")], []),
        ("subject seq written", [], [("Nats-Expected-Last-Subject-Sequence", "0")]),
        (
            "subject seq of another",
            [],
            [
                ("Nats-Expected-Last-Subject-Sequence", "4"),
                ("Nats-Expected-Last-Subject-Sequence-Subject", "bad.first"),
            ],
        ),
        ("no seq", [], [("Nats-Expected-Last-Subject-Sequence-Subject", "bad.first")]),
        ("rollup", [], [("Nats-Rollup", "sub")]),
        ("increment", [], [("Nats-Incr", "1")]),
        ("bad increment", [], [("Nats-Incr", "x")]),
        ("schedule", [], [("Nats-Schedule", "@every 1s")]),
    )
    for name, first, second in checks:
        await add(side, "bad.x", name, 1, headers=first)
        await add(side, "bad.x", name, 2, headers=second, commit="1")
    await show(side, "BAD", "after all")
    await side.create("BADROLL", subjects=["badroll.>"], allow_atomic=True, allow_rollup_hdrs=True, allow_direct=True)
    await side.fill("badroll.{}", 3)
    for name, subject, value in (("sub", "badroll.x", "sub"), ("all", "badroll.y", "all"), ("other", "badroll.y", "?")):
        await add(side, "badroll.x", name, 1)
        await add(side, subject, name, 2, headers=[("Nats-Rollup", value)], commit="1")
    await add(side, "badroll.1", "good", 1, headers=[("Nats-Rollup", "sub")])
    await add(side, "badroll.2", "good", 2, headers=[("Nats-Rollup", "sub")], commit="1")
    await show(side, "BADROLL", "after subjects")
    await add(side, "badroll.1", "whole", 1, headers=[("Nats-Rollup", "all")])
    await add(side, "badroll.2", "whole", 2, commit="1")
    await show(side, "BADROLL", "after the whole")


@scenario
async def atomic_batches_full(side: Side) -> None:
    """Batches into streams that have room for some of them only."""
    limits: dict[str, dict[str, Any]] = {
        "MSGS": {"max_msgs": 3},
        "BYTES": {"max_bytes": 200},
        "PER": {"max_msgs_per_subject": 1, "discard_new_per_subject": True},
    }
    for name, limit in limits.items():
        low = name.lower()
        await side.create(name, subjects=[f"{low}.>"], allow_atomic=True, discard="new", allow_direct=True, **limit)
        await side.publish(f"{low}.a", "1", label=f"{name} one")
        for number in (1, 2):
            await add(side, f"{low}.{number}", f"{name}fits", number)
        await add(side, f"{low}.3", f"{name}fits", 3, commit="1")
        await add(side, f"{low}.a", f"{name}no", 1)
        await add(side, f"{low}.4", f"{name}no", 2, commit="1")
        await add(side, f"{low}.a", f"{name}no", 1, commit="1", label=f"{name} replaced")
        await show(side, name, name)
    await side.create("OLD", subjects=["old.>"], allow_atomic=True, max_msgs=2, allow_direct=True)
    for number in (1, 2):
        await add(side, f"old.{number}", "old", number)
    await add(side, "old.3", "old", 3, commit="1")
    await show(side, "OLD", "OLD")


@scenario
async def atomic_batches_open(side: Side) -> None:
    """How many batches may be open at once, and how large one may be."""
    await side.create("OPEN", subjects=["open.>"], allow_atomic=True, allow_direct=True)
    for number in range(51):
        await add(side, "open.x", f"open{number}", 1)
    await add(side, "open.x", "open0", 2, commit="1")
    await add(side, "open.x", "open50", 1, commit="1", label="now there is room")
    await add(side, "open.x", "large", 1)
    for number in range(2, 1001):
        headers = [("Nats-Batch-Id", "large"), ("Nats-Batch-Sequence", f"{number}")]
        await side.publish("open.x", "", headers=headers, label=f"large {number}")
    await add(side, "open.x", "large", 1001, commit="1")
    await side.info("OPEN", label="info")


@scenario
async def counters(side: Side) -> None:
    """What counters make of increments."""
    await side.create("OFF", subjects=["off"])
    await side.publish("off", headers=[("Nats-Incr", "1")])
    await side.publish("off", headers=[("Nats-Incr", "one")])
    await side.create("COUNT", subjects=["count.>"], allow_msg_counter=True, allow_direct=True, allow_rollup_hdrs=True)
    for value in ("1", "+2", "-5", "0", "123456789012345678901234567890", "", "x", "1.5", "0x10"):
        await side.publish("count.a", headers=[("Nats-Incr", value)], label=f"add {value}")
    for digits in (4_300, 4_301, 20_000):
        await side.publish("count.long", headers=[("Nats-Incr", "9" * digits)], label=f"add {digits} digits")
    await side.publish("count.b", headers=[("Nats-Incr", "7")])
    await side.publish("count.b", "payload", headers=[("Nats-Incr", "7")])
    await side.publish("count.b", "payload")
    await side.publish("count.b")
    for name, value in (
        ("Nats-Rollup", "sub"),
        ("Nats-Expected-Stream", "COUNT"),
        ("Nats-Expected-Last-Msg-Id", "x"),
        ("Nats-Expected-Last-Sequence", "0"),
        ("Nats-Expected-Last-Subject-Sequence", "0"),
        ("Nats-Expected-Last-Subject-Sequence-Subject", "count.b"),
    ):
        await side.publish("count.b", headers=[("Nats-Incr", "1"), (name, value)])
    await side.publish("count.b", headers=[("Nats-Rollup", "sub")])
    await side.publish("count.b", headers=[("Nats-Incr", "1"), ("Nats-Msg-Id", "1")])
    await side.publish("count.b", headers=[("Nats-Incr", "1"), ("Nats-Msg-Id", "1")], label="the same id again")
    await show(side, "COUNT", "before deletes")
    last = await side.info("COUNT")
    await side.api("STREAM.MSG.DELETE.COUNT", {"seq": last["state"]["last_seq"]}, label="delete the last one")
    await side.publish("count.b", headers=[("Nats-Incr", "100")], label="goes on from the one before")
    await side.api("STREAM.PURGE.COUNT", {"filter": "count.a"})
    await side.publish("count.a", headers=[("Nats-Incr", "3")], label="begins anew")
    await side.update("COUNT", subjects=["count.>"], allow_direct=True, allow_rollup_hdrs=True)
    await side.create("COUNTBATCH", subjects=["cb.>"], allow_msg_counter=True, allow_atomic=True, allow_direct=True)
    await add(side, "cb.a", "sum", 1, headers=[("Nats-Incr", "1")], data="")
    await add(side, "cb.a", "sum", 2, headers=[("Nats-Incr", "2")], data="")
    await add(side, "cb.b", "sum", 3, headers=[("Nats-Incr", "5")], data="", commit="1")
    await add(side, "cb.a", "none", 1, data="", commit="1")
    await add(side, "cb.a", "data", 1, headers=[("Nats-Incr", "1")], commit="1")
    await show(side, "COUNTBATCH", "sums")
    await side.create("SMALL", subjects=["small"], allow_msg_counter=True, max_msg_size=40)
    await side.publish("small", headers=[("Nats-Incr", "10")])
    await side.publish("small", headers=[("Nats-Incr", "1000")])
