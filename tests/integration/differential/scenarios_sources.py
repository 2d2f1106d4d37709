"""Scenarios of mirrors and sources: what they copy, from where on, and what they say of it."""

from typing import Any

from tests.integration.differential.side import Side, scenario

SETTLED_SECONDS = 1.5
"""nats-server sets up a consumer of the origin within half a second; nobody reads before."""
HEARD_SECONDS = 0.75
"""What is published reaches copies that are set up already; of several origins the order is as they were heard."""


async def origin(side: Side, name: str = "ORIGIN", **config: Any) -> None:
    """A stream of six messages of two subjects, of which two are deleted again."""
    low = name.lower()
    await side.create(name, subjects=[f"{low}.>"], allow_direct=True, **config)
    for number in range(1, 7):
        headers = [("Key", f"{number}")] if number % 3 == 0 else []
        await side.publish(f"{low}.{'ab'[number % 2]}", f"m{number}", headers=headers)
    for seq in (2, 4):
        await side.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})


async def show(side: Side, name: str, *, upto: int, label: str) -> None:
    """Info and every message."""
    await side.info(name, {"subjects_filter": ">", "deleted_details": True}, label=f"info of {name} {label}")
    for seq in range(1, upto + 1):
        await side.api(f"STREAM.MSG.GET.{name}", {"seq": seq}, label=f"{name} {seq} {label}")


@scenario
async def mirrors(side: Side) -> None:
    """Whole mirrors, those of a subject, with transforms, from a sequence on, and with limits of their own."""
    await origin(side)
    await side.create("WHOLE", mirror={"name": "ORIGIN"})
    await side.create("PART", mirror={"name": "ORIGIN", "filter_subject": "origin.a"})
    mapping = [{"src": "origin.a", "dest": "moved.a"}, {"src": "origin.b", "dest": ""}]
    await side.create("MAPPED", mirror={"name": "ORIGIN", "subject_transforms": mapping})
    await side.create("LATER", mirror={"name": "ORIGIN", "opt_start_seq": 3})
    await side.create("FEW", mirror={"name": "ORIGIN"}, max_msgs=2)
    await side.create("LAST", mirror={"name": "ORIGIN"}, max_msgs_per_subject=1)
    await side.pause(SETTLED_SECONDS)
    for name in ("WHOLE", "PART", "MAPPED", "LATER", "FEW", "LAST"):
        await show(side, name, upto=7, label="at first")
    await side.publish("origin.a", "m7", headers=[("Nats-Msg-Id", "seven")])
    await side.api("STREAM.MSG.DELETE.ORIGIN", {"seq": 1})
    await side.pause(SETTLED_SECONDS)
    for name in ("WHOLE", "PART", "MAPPED", "LATER", "FEW", "LAST"):
        await show(side, name, upto=8, label="after one more")
    await side.api("STREAM.PURGE.WHOLE")
    await side.info("WHOLE", label="info after its purge")
    await side.publish("origin.b", "m8")
    await side.pause(SETTLED_SECONDS)  # or nats-server may have purged it before its mirrors have copied it
    await side.api("STREAM.PURGE.ORIGIN")
    await side.publish("origin.b", "m9")
    await side.pause(SETTLED_SECONDS)
    await show(side, "WHOLE", upto=9, label="after the purges")
    await show(side, "PART", upto=9, label="after the purges")
    await side.update("WHOLE", subjects=["whole.>"])
    await side.publish("whole.x", "of its own")
    await side.publish("origin.b", "m10")
    await side.pause(SETTLED_SECONDS)
    await side.info("WHOLE", label="info of what was a mirror")
    await side.update("PART", mirror={"name": "LATER"})


@scenario
async def sources(side: Side) -> None:
    """Streams that gather others' messages: all, some, under other subjects, beside their own."""
    await origin(side)
    await side.create("ALL", subjects=["all.>"], sources=[{"name": "ORIGIN"}], allow_direct=True)
    await side.create("SOME", sources=[{"name": "ORIGIN", "filter_subject": "origin.b"}])
    mapping = [{"src": "origin.*", "dest": "moved.{{wildcard(1)}}"}]
    await side.create("MOVED", sources=[{"name": "ORIGIN", "subject_transforms": mapping}])
    await side.create("FROM", sources=[{"name": "ORIGIN", "opt_start_seq": 4}])
    await side.create("ONE", sources=[{"name": "ORIGIN"}], max_msgs_per_subject=1)
    await side.pause(SETTLED_SECONDS)
    for name in ("ALL", "SOME", "MOVED", "FROM", "ONE"):
        await show(side, name, upto=5, label="at first")
    await side.create("CHAIN", sources=[{"name": "ALL"}])
    await side.pause(SETTLED_SECONDS)
    await side.publish("all.own", "own")
    await side.publish("origin.a", "m7", headers=[("Nats-Msg-Id", "seven"), ("Nats-Expected-Last-Sequence", "6")])
    await side.pause(SETTLED_SECONDS)
    await side.publish("all.id", "own", headers=[("Nats-Msg-Id", "seven")])
    await side.pause(SETTLED_SECONDS)
    await show(side, "CHAIN", upto=8, label="at last")
    await side.get("ALL", {"last_by_subj": "origin.a"})
    await side.api("STREAM.PURGE.SOME")
    await side.publish("origin.b", "m8")
    await side.pause(SETTLED_SECONDS)
    await show(side, "SOME", upto=4, label="after its purge")


@scenario
async def sources_of_nothing(side: Side) -> None:
    """Origins that do not exist."""
    await side.create("NOMIRROR", mirror={"name": "NOPE"})
    await side.create("NOSOURCE", sources=[{"name": "NOPE"}])
    await side.pause(SETTLED_SECONDS)
    await side.info("NOMIRROR")
    await side.info("NOSOURCE")
    await side.api("STREAM.LIST")


@scenario
async def buckets_copied(side: Side) -> None:
    """Mirrors of what key-value buckets are: rollups and one message of a subject."""
    config: dict[str, Any] = {"max_msgs_per_subject": 2, "allow_rollup_hdrs": True, "deny_delete": True}
    await side.create("KV_B", subjects=["$KV.B.>"], allow_direct=True, discard="new", **config)
    for number in range(1, 6):
        await side.publish(f"$KV.B.k{number % 2}", f"v{number}")
    await side.create("KV_M", mirror={"name": "KV_B"}, **config)
    mapping = [{"src": "$KV.B.>", "dest": "$KV.S.>"}]
    source = {"name": "KV_B", "subject_transforms": mapping}
    await side.create("KV_S", subjects=["$KV.S.>"], sources=[source], discard="new", **config)
    await side.pause(SETTLED_SECONDS)
    await side.publish("$KV.B.k1", headers=[("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")])
    await side.publish("$KV.B.k0", headers=[("KV-Operation", "DEL")])
    await side.pause(SETTLED_SECONDS)  # what is copied may come before or after what is published at the same time
    await side.publish("$KV.S.own", "own")
    await side.pause(SETTLED_SECONDS)
    await show(side, "KV_M", upto=8, label="at last")
    await show(side, "KV_S", upto=9, label="at last")


@scenario
async def mirrors_answering_for_their_origin(side: Side) -> None:
    """Direct Get of a stream that does not answer, or is gone: a mirror of it does."""
    await origin(side)
    await side.create("M", mirror={"name": "ORIGIN"}, mirror_direct=False)
    await side.create("QUIET", subjects=["quiet"])
    await side.create("MQ", mirror={"name": "QUIET"}, mirror_direct=True)
    await side.pause(SETTLED_SECONDS)
    await side.get("M", {"seq": 1}, label="the mirror itself")
    await side.get("MQ", {"seq": 1}, label="the quiet mirror itself")
    await side.get("QUIET", {"seq": 1}, label="the quiet origin")
    await side.update("ORIGIN", subjects=["origin.>"], allow_direct=False)
    await side.info("M", label="info of the mirror")
    await side.get("ORIGIN", {"seq": 3}, label="the origin")
    await side.get("ORIGIN.origin.a", label="by subject")
    await side.get("ORIGIN", {"last_by_subj": "origin.b"}, label="last of a subject")
    await side.get("ORIGIN", {"seq": 2}, label="deleted message")
    await side.batch("ORIGIN", {"seq": 1, "batch": 3}, label="batch")
    await side.update("M", mirror={"name": "ORIGIN"}, mirror_direct=True, label="the origin decides on mirror_direct")
    await side.get("ORIGIN", {"seq": 3}, label="nobody")
    await side.api("STREAM.DELETE.ORIGIN")
    await side.update("M", mirror={"name": "ORIGIN"}, mirror_direct=True, label="nobody decides on mirror_direct")
    await side.get("ORIGIN", {"seq": 3}, label="of an origin that is gone")
    await side.get("ORIGIN.origin.b", label="by subject, of an origin that is gone")
    await side.update("M", mirror={"name": "ORIGIN"}, mirror_direct=False, label="off again")
    await side.get("ORIGIN", {"seq": 3}, label="nobody again")
    await side.update("M", mirror={"name": "ORIGIN"}, mirror_direct=True, label="on again")
    await side.create("ORIGIN", subjects=["origin.>"], label="create the origin again")
    await side.get("ORIGIN", {"seq": 3}, label="of another origin of the name")
    await side.update("M", subjects=["m.>"], label="no mirror any more")
    await side.get("ORIGIN", {"seq": 3}, label="nobody at last")


@scenario
async def counters_copied(side: Side) -> None:
    """Streams that sum up the counters of others, beside their own increments."""
    for name in ("A", "B"):
        await side.create(name, subjects=[f"{name.lower()}.>"], allow_msg_counter=True)
    await side.create("P", subjects=["p.>"])
    sources = [
        {"name": name, "subject_transforms": [{"src": f"{name.lower()}.>", "dest": "sum.>"}]}
        for name in ("A", "B", "P")
    ]
    body = {"name": "SUM", "subjects": ["sum.>"], "allow_msg_counter": True, "sources": sources}
    await side.mute("$JS.API.STREAM.CREATE.SUM", body)  # nats-server names sources in any order
    one = {"name": "A", "subject_transforms": [{"src": "a.*", "dest": "one"}]}
    await side.create("ONE", allow_msg_counter=True, sources=[one])
    await side.create("COPY", sources=[{"name": "A"}])
    await side.pause(SETTLED_SECONDS)
    for subject, value in (("a.x", "+1"), ("a.x", "+2"), ("a.y<", "5")):
        await side.publish(subject, headers=[("Nats-Incr", value), ("Own", value)])
    await side.pause(HEARD_SECONDS)
    await side.publish("b.x", headers=[("Nats-Incr", "-10")])
    await side.pause(HEARD_SECONDS)
    await side.publish("sum.x", headers=[("Nats-Incr", "100")])
    await side.publish("sum.x", headers=[("Nats-Incr", "1"), ("Nats-Stream-Source", "A 9 > > a.x")])
    await side.publish("a.x", headers=[("Nats-Incr", "4")])
    await side.publish("p.x", "of no counter")
    await side.publish("p.x", "likewise")
    await side.create("CHAIN", allow_msg_counter=True, sources=[{"name": "SUM"}])
    await side.pause(SETTLED_SECONDS)
    await side.api("STREAM.PURGE.A")
    await side.publish("a.x", headers=[("Nats-Incr", "2")])
    await side.pause(HEARD_SECONDS)
    for name, upto in (("SUM", 8), ("ONE", 5), ("COPY", 5), ("CHAIN", 8)):
        for seq in range(1, upto + 1):
            await side.api(f"STREAM.MSG.GET.{name}", {"seq": seq})


@scenario
async def copies_that_consume(side: Side) -> None:
    """Origins that keep messages only until they are consumed: a copy counts as a consumer."""
    kept = {"Q": "workqueue", "I": "interest"}
    for name, retention in kept.items():
        await side.create(name, subjects=[f"{name}.>"], retention=retention)
        await side.create(f"M{name}", mirror={"name": name})
        await side.create(f"S{name}", sources=[{"name": name, "filter_subject": f"{name}.1"}])
    await side.pause(SETTLED_SECONDS)
    for name in kept:
        for number in range(3):
            await side.publish(f"{name}.{number}", f"m{number}", headers=[("Nats-Expected-Stream", name)])
    await side.pause(2 * SETTLED_SECONDS)  # nats-server's copies acknowledge with the next heartbeat
    for name in kept:
        await show(side, name, upto=3, label="all copied")
        await show(side, f"M{name}", upto=3, label="the mirror")
        await show(side, f"S{name}", upto=2, label="the source")
        config = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": f"{name}.2"}
        await side.api(f"CONSUMER.DURABLE.CREATE.{name}.C", {"stream_name": name, "config": config})
        for number in range(3):
            await side.publish(f"{name}.{number}", f"n{number}")
    await side.pause(2 * SETTLED_SECONDS)
    for name in kept:
        await show(side, name, upto=6, label="one is left to a consumer")
        await side.api(f"STREAM.DELETE.M{name}")
        await side.api(f"STREAM.DELETE.S{name}")
    await side.pause(HEARD_SECONDS)
    for name in kept:
        await side.publish(f"{name}.0", "wanted by none")
        await show(side, name, upto=7, label="without copies")


@scenario
async def mirrors_of_what_is_gone(side: Side) -> None:
    """Where mirrors begin whose origins have lost their first messages, or all, or have none that they want."""
    await origin(side)
    await side.api("STREAM.PURGE.ORIGIN", {"seq": 3})
    await side.create("EMPTIED", subjects=["emptied"])
    for number in range(3):
        await side.publish("emptied", f"m{number}")
    await side.api("STREAM.PURGE.EMPTIED")
    mirrors = {
        "REST": {"name": "ORIGIN"},
        "NONE": {"name": "ORIGIN", "filter_subject": "none"},
        "LATER": {"name": "ORIGIN", "opt_start_seq": 50},
        "OFEMPTIED": {"name": "EMPTIED"},
    }
    for name, mirror in mirrors.items():
        await side.create(name, mirror=mirror)
    await side.pause(SETTLED_SECONDS)
    for name in mirrors:
        await side.info(name, {"deleted_details": True})
    await side.publish("emptied", "one more")
    await side.publish("origin.a", "one more")
    await side.pause(HEARD_SECONDS)
    for name in mirrors:
        await side.info(name, {"deleted_details": True}, label=f"info of {name} after one more")
