"""Scenarios of what KV and Object Store stand on: rollups, TTLs, transforms, republishing, sealing, first sequences."""

from typing import Any

from tests.integration.differential.side import Side, scenario

SECOND = 1_000_000_000
ROLLUP_SUB = ("Nats-Rollup", "sub")
ROLLUP_ALL = ("Nats-Rollup", "all")


async def show(side: Side, stream: str, label: str) -> None:
    """State, subjects and deleted sequences of a stream, and all its messages."""
    await side.info(stream, {"subjects_filter": ">", "deleted_details": True}, label=f"info {label}")
    await side.batch(stream, {"seq": 1, "batch": 50}, label=f"messages {label}")


@scenario
async def feature_fields(side: Side) -> None:
    """Each field is kept and shown, and what it switches on is too."""
    for number, config in enumerate(
        (
            {"placement": {"cluster": "east", "tags": ["a", "b"]}},
            {"placement": {}},
            {"compression": "s2"},
            {"consumer_limits": {"inactive_threshold": SECOND, "max_ack_pending": 7}},
            {"retention": "interest"},
            {"retention": "workqueue"},
            {"first_seq": 1},
            {"first_seq": 7, "storage": "memory"},
            {"allow_msg_ttl": True},
            {"subject_delete_marker_ttl": 2 * SECOND},
            {"subject_delete_marker_ttl": 2 * SECOND, "deny_purge": True},
            {"persist_mode": "async"},
            {"persist_mode": "default"},
            {"republish": {"dest": "again.>"}},
            {"republish": {"src": "field.*", "dest": "again.$1", "headers_only": True}},
            {"republish": {"src": ">", "dest": "field13.>"}},
            {"republish": {"src": "field.*", "dest": "again.$2"}},
            {"republish": {}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1)}}"}},
            {"subject_transform": {"src": "", "dest": ""}},
            {"subject_transform": {"src": "a.>", "dest": "b.*"}},
            {"subject_transform": {"src": "a..b", "dest": "b"}},
            {"subject_transform": {"src": "a.*", "dest": "b.$2"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{nonsense(1)}}"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard()}}"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(1,2)}}"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{wildcard(x)}}"}},
            {"subject_transform": {"src": "a.*", "dest": f"b.{{{{wildcard({'9' * 5_000})}}}}"}},
            {"subject_transform": {"src": "a.*", "dest": f"b.{{{{wildcard({'0' * 5_000}1)}}}}"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{split(1)}}"}},
            {"subject_transform": {"src": "a.*", "dest": "b.{{left(1,2,3)}}"}},
            {"subject_transform": {"src": "a", "dest": "b.{{wildcard(1)}}"}},
            {"subject_transform": {"src": "a", "dest": "b c"}},
            {"subject_transform": {"src": "a", "dest": "b..c"}},
            {"discard_new_per_subject": True},
            {"discard_new_per_subject": True, "discard": "new"},
            {"allow_rollup_hdrs": True, "deny_purge": True},
            {"sealed": True},
        )
    ):
        body: dict[str, Any] = {"subjects": [f"field{number}.>"], **config}
        await side.create(f"FIELD{number}", label=f"create with {config}", **body)
        await side.info(f"FIELD{number}", label=f"info with {config}")


@scenario
async def feature_sources_fields(side: Side) -> None:
    """What is wrong with mirrors and sources, without any message copied."""
    await side.create("ORIGIN", subjects=["origin.>"], max_msg_size=1000, allow_direct=True)
    mirrors: tuple[dict[str, Any], ...] = (
        {"mirror": {"name": "ORIGIN"}, "subjects": ["x"]},
        {"mirror": {"name": "ORIGIN"}, "first_seq": 4},
        {"mirror": {"name": "ORIGIN"}, "sources": [{"name": "ORIGIN"}]},
        {"mirror": {"name": "a.b"}},
        {"mirror": {"name": "ORIGIN"}, "max_msg_size": 10},
        {"mirror": {"name": "ORIGIN", "filter_subject": "a", "subject_transforms": [{"src": "b", "dest": "c"}]}},
        {"mirror": {"name": "ORIGIN", "subject_transforms": [{"src": "b..", "dest": "c"}]}},
        {"mirror": {"name": "ORIGIN", "subject_transforms": [{"src": "b", "dest": "c.$1"}]}},
        {"mirror": {"name": "ORIGIN", "subject_transforms": [{"src": "b", "dest": "c"}, {"src": "*", "dest": "d"}]}},
        {"mirror": {"name": "ORIGIN", "external": {"api": "$JS.API", "deliver": "x"}}},
        {"mirror": {"name": "ORIGIN", "external": {"api": "$JS.*.API", "deliver": ""}}},
        {"mirror": {"name": "ORIGIN", "external": {"api": "$JS.d.API", "deliver": "a.*"}}},
        {"mirror": {"name": "ORIGIN"}, "subject_delete_marker_ttl": SECOND},
        {"mirror": {"name": "ORIGIN", "consumer": {"name": "", "deliver_subject": "x"}}},
        {"mirror": {"name": "WRONG"}},
        {"mirror_direct": True},
        {"sources": [{"name": ""}]},
        {"sources": [None]},
        {"sources": [{"name": "ORIGIN"}, {"name": "ORIGIN"}]},
        {"sources": [{"name": "ORIGIN"}], "max_msg_size": 10},
        {"sources": [{"name": "ORIGIN", "filter_subject": "a", "subject_transforms": [{"src": "b", "dest": "c"}]}]},
        {"sources": [{"name": "ORIGIN", "subject_transforms": [{"src": "b", "dest": "c"}, {"src": "b", "dest": "d"}]}]},
        {"sources": [{"name": "ORIGIN", "subject_transforms": [{"src": "b", "dest": "c.{{x()}}"}]}]},
        {"sources": [{"name": "ORIGIN", "consumer": {"name": "a", "deliver_subject": "*"}}]},
        {"sources": [{"name": "WRONG"}]},
    )
    for number, config in enumerate(mirrors):
        await side.create("WRONG", label=f"{number}: create with {config}", **config)


@scenario
async def feature_updates(side: Side) -> None:
    """What an update may do to each feature, and what it may not."""
    await side.create("UP", subjects=["up.>"], allow_msg_ttl=True, allow_rollup_hdrs=True)
    same = {"subjects": ["up.>"], "allow_msg_ttl": True, "allow_rollup_hdrs": True}
    await side.update("UP", subjects=["up.>"], allow_rollup_hdrs=True)
    await side.update("UP", **same, persist_mode="async")
    await side.update("UP", **same, first_seq=9)
    await side.update("UP", **same, mirror={"name": "X"})
    await side.update("UP", **{**same, "allow_rollup_hdrs": False})
    await side.update("UP", **same, consumer_limits={"max_ack_pending": 3})
    await side.update("UP", **same, republish={"src": "up.*", "dest": "re.$1"})
    await side.update("UP", **same, republish={"src": "up.*", "dest": "re.*"})
    await side.update("UP", **same, subject_transform={"src": "up.*", "dest": "up.x.$1"})
    await side.publish("up.1")
    await side.update("UP", **same)
    await side.publish("up.1", label="pub up.1 again")
    await side.update("UP", **same, retention="workqueue")
    await side.update("UP", **same, retention="limits", discard_new_per_subject=True)
    await side.update("UP", **same, compression="s2", placement={"cluster": "x"}, metadata={"a": "b"})
    await side.update("UP", **same, subject_delete_marker_ttl=SECOND)
    await show(side, "UP", "after all")


@scenario
async def rollups_of_patterns(side: Side) -> None:
    """A rollup under a subject with wildcards removes all that it matches, as a purge of a bucket's keys does."""
    roll = [("Nats-Rollup", "sub")]
    await side.create("PAT", subjects=["pat.>"], allow_rollup_hdrs=True, allow_direct=True, allow_atomic=True)
    for subject in ("pat.a.1", "pat.a.2", "pat.b.1", "pat.a", "pat.a.1", "pat.a*.x", "pat.a.1.z"):
        await side.publish(subject, "x")
    await side.publish("pat.*.1", "one token", headers=roll)
    await show(side, "PAT", "one token")
    await side.publish("pat.a.1", "again")
    await side.publish("pat.*.1", "alone", headers=roll)
    await show(side, "PAT", "the rollup before and one more")
    await side.publish("pat.none.*", "nothing", headers=roll)
    await show(side, "PAT", "nothing that matches")
    await side.publish("pat.a*.x", "no wildcard", headers=roll)
    await show(side, "PAT", "no wildcard")
    for number in range(3):
        await side.publish("pat.a.7", f"{number}")
    batch = [("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1"), ("Nats-Batch-Commit", "1")]
    await side.publish("pat.a.*", "in a batch", headers=[*roll, *batch])
    await show(side, "PAT", "in a batch")
    await side.publish("pat.>", "the rest", headers=roll)
    await show(side, "PAT", "the rest")
    await side.create(
        "PER", subjects=["per.*"], allow_rollup_hdrs=True, allow_msg_schedules=True, max_msgs_per_subject=1, max_msgs=4
    )
    for number in range(6):
        await side.publish(f"per.{number}", "x")
    await side.publish("per.*", "with limits", headers=roll)
    await show(side, "PER", "with limits")
    ends = [("Nats-Scheduler", "per.*"), ("Nats-Schedule-Next", "purge")]
    await side.publish("per.1", "x")
    await side.publish("per.2", "of a schedule that never was", headers=ends)
    await show(side, "PER", "the end of schedules")


@scenario
async def rollups(side: Side) -> None:
    """Rollups of a subject and of all, in streams with and without limits."""
    await side.create("NOROLL", subjects=["noroll"])
    await side.publish("noroll", "x", headers=[ROLLUP_SUB])
    for name, limits in (
        ("PLAIN", {}),
        ("HISTORY", {"max_msgs_per_subject": 3}),
        ("ONE", {"max_msgs_per_subject": 1}),
        ("FEW", {"max_msgs": 5}),
        ("NEW", {"discard": "new", "max_msgs": 6, "max_msgs_per_subject": 2, "discard_new_per_subject": True}),
    ):
        low = name.lower()
        await side.create(name, subjects=[f"{low}.>"], allow_rollup_hdrs=True, allow_direct=True, **limits)
        await side.publish(f"{low}.first", "into nothing", headers=[ROLLUP_SUB])
        for subject in "aab":
            await side.publish(f"{low}.{subject}", "old", label=f"{name} old {subject}")
        await side.publish(f"{low}.a", "new", headers=[("Nats-Rollup", "SUB")], label=f"{name} rolls up a")
        await show(side, name, f"{name} after a")
        await side.publish(f"{low}.a", "more", label=f"{name} more")
        await side.publish(f"{low}.c", "c", headers=[("Nats-Rollup", "sub"), ("Nats-Msg-Id", "c")], label=f"{name} c")
        await side.publish(f"{low}.c", "c", headers=[("Nats-Rollup", "sub"), ("Nats-Msg-Id", "c")], label=f"{name} dup")
        await side.publish(f"{low}.x", "x", headers=[("Nats-Rollup", "some")], label=f"{name} bad value")
        await side.publish(f"{low}.all", "all", headers=[ROLLUP_ALL], label=f"{name} rolls up all")
        await show(side, name, f"{name} after all")
        await side.publish(f"{low}.a", "end", label=f"{name} end")


@scenario
async def first_sequences(side: Side) -> None:
    """A stream that begins with another sequence than 1."""
    await side.create("FROM", subjects=["from.>"], first_seq=100, allow_direct=True)
    await side.info("FROM", label="info before the first message")
    await side.get("FROM", {"seq": 100}, label="nothing there")
    await side.publish("from.a", "1", headers=[("Nats-Expected-Last-Sequence", "0")])
    await side.publish("from.a", "1", headers=[("Nats-Expected-Last-Sequence", "99")])
    await side.publish("from.b", "2")
    await show(side, "FROM", "after two")
    await side.api("STREAM.MSG.DELETE.FROM", {"seq": 100})
    await side.api("STREAM.PURGE.FROM")
    await side.info("FROM", label="info after purge")
    await side.publish("from.b", "3")


@scenario
async def sealed_streams(side: Side) -> None:
    """Nothing gets in or out of a sealed stream, and it stays sealed."""
    await side.create("SEAL", subjects=["seal.>"], allow_direct=True, allow_rollup_hdrs=True, max_age=3600 * SECOND)
    await side.fill("seal.{}", 3)
    await side.update("SEAL", subjects=["seal.>"], allow_direct=True, sealed=True)
    await side.publish("seal.1", "no")
    await side.publish("seal.1", "no", headers=[("Nats-Msg-Id", "1")])
    await side.publish("seal.1", "no", headers=[("Nats-Expected-Stream", "X")])
    await side.api("STREAM.MSG.DELETE.SEAL", {"seq": 1})
    await side.api("STREAM.MSG.DELETE.SEAL", {"seq": 9})
    await side.api("STREAM.PURGE.SEAL")
    await side.api("STREAM.PURGE.SEAL", {"filter": "seal.1"})
    await side.update("SEAL", subjects=["seal.>"], allow_direct=True)
    await side.update("SEAL", subjects=["seal.>"], sealed=True, description="still", label="update of a sealed stream")
    await show(side, "SEAL", "sealed")


@scenario
async def discard_new_per_subject(side: Side) -> None:
    """A full subject refuses messages, others don't."""
    await side.create(
        "DNP",
        subjects=["dnp.>"],
        discard="new",
        discard_new_per_subject=True,
        max_msgs_per_subject=2,
        max_msgs=5,
        allow_direct=True,
    )
    for number, subject in enumerate("aaabbbccc"):
        await side.publish(f"dnp.{subject}", f"{number}", label=f"pub {number} to {subject}")
    await side.publish("dnp.a", "id", headers=[("Nats-Msg-Id", "again")], label="refused with an id")
    await side.api("STREAM.MSG.DELETE.DNP", {"seq": 1})
    await side.publish("dnp.a", "id", headers=[("Nats-Msg-Id", "again")], label="taken with the same id")
    await show(side, "DNP", "at the end")
    await side.create("KEYS", subjects=["keys.>"], discard="new", discard_new_per_subject=True, max_msgs_per_subject=1)
    await side.publish("keys.a", "1")
    await side.publish("keys.a", "2")
    await side.publish("keys.b", "3")


@scenario
async def subject_transforms(side: Side) -> None:
    """What messages are stored under when the stream maps their subjects."""
    for number, (src, dest, subjects) in enumerate(
        (
            ("t.*.*", "t.{{wildcard(2)}}.$1", ("t.a.b", "t.a.b.c", "t.x")),
            ("t.*", "t.p.{{partition(5,1)}}", ("t.a", "t.b", "t.ccc")),
            ("t.*.*", "t.p.{{partition(7,1,2)}}.$2", ("t.a.b", "t.b.a")),
            ("t.>", "t.p.{{Partition(3)}}.>", ("t.a.b", "t.q")),
            ("t.*", "t.s.{{split(1,-)}}", ("t.a-b-c", "t.-a-b", "t.--a", "t.a--b-", "t.x")),
            ("t.*", "t.s.{{splitFromLeft(1,2)}}", ("t.abcde", "t.ab", "t.a")),
            ("t.*", "t.s.{{SplitFromRight( 1 , 2 )}}", ("t.abcde", "t.ab")),
            ("t.*", "t.s.{{SliceFromLeft(1,2)}}", ("t.abcde", "t.abcd", "t.a")),
            ("t.*", "t.s.{{sliceFromRight(1,2)}}", ("t.abcde", "t.abcd", "t.a")),
            ("t.*", "t.s.{{left(1,2)}}.{{right(1,2)}}", ("t.abcde", "t.a")),
            ("t.a.>", "t.q.>", ("t.a.b.c", "t.b.b")),
            ("t.a", "t.b", ("t.a", "t.c")),
            ("t.a", "t.{{partition(4)}}", ("t.a",)),
            ("", "q.>", ("t.a.b",)),
            ("t.*", "t.$0.$1.$x", ("t.a",)),
        )
    ):
        name = f"MAP{number}"
        mapping = {"src": src, "dest": dest}
        await side.create(
            name, subjects=["t.>"], allow_direct=True, subject_transform=mapping, label=f"{number} create"
        )
        for subject in subjects:
            await side.publish(subject, subject, label=f"{number} pub {subject}")
        last = ("Nats-Expected-Last-Subject-Sequence", "0")
        await side.publish(subjects[0], "no", headers=[last], label=f"{number} expects none")
        await show(side, name, f"{number}")
        await side.api(f"STREAM.DELETE.{name}", label=f"{number} delete")


@scenario
async def republishing(side: Side) -> None:
    """What goes out again, with which headers, and that another stream may take it."""
    await side.create("TAKES", subjects=["again.>", "bare.>"], allow_direct=True)
    await side.create("GIVES", subjects=["give.>"], republish={"src": "give.*", "dest": "again.$1"}, allow_direct=True)
    bare = {"src": ">", "dest": "bare.>", "headers_only": True}
    await side.create("BARE", subjects=["short.>"], republish=bare, allow_msg_ttl=True)
    heard = side.hear("again.>", "bare.>")
    await side.publish("give.a", "one")
    await side.publish("give.a", "two", headers=[("Key", "value")])
    await side.publish("give.a.b", "is not republished")
    await side.publish("give.c", "three", headers=[("Nats-Msg-Id", "3")])
    await side.publish("give.c", "three", headers=[("Nats-Msg-Id", "3")], label="a duplicate is not republished")
    await side.publish("short.x", "12345")
    await side.publish("short.x", "123", headers=[("Nats-TTL", "60s"), ("Key", "value")])
    await side.fill("give.many{}", 7)
    await side.pause(0.3)
    side.transcript.add("heard", heard)
    await side.batch("TAKES", {"seq": 1, "batch": 50}, label="what was taken")
    await side.get("TAKES", {"last_by_subj": "again.c"}, label="a republished message that was stored")


@scenario
async def message_ttls(side: Side) -> None:
    """Per-message TTLs: accepted, refused, expired, and how they go with max_age."""
    await side.create("TTL", subjects=["ttl.>"], allow_msg_ttl=True, allow_direct=True)
    for value in ("1", "2s", "1h", "never", "NEVER", "0", "00", "-1", "1ms", "0.5s", "1.5s", "junk", "1d", "99999999"):
        await side.publish("ttl.x", value, headers=[("Nats-TTL", value)], label=f"pub with TTL {value}")
    await side.publish("ttl.x", "id", headers=[("Nats-TTL", "1h"), ("Nats-Msg-Id", "1")])
    await side.publish("ttl.x", "id", headers=[("Nats-TTL", "1h"), ("Nats-Msg-Id", "1")], label="duplicate")
    await show(side, "TTL", "before")
    await side.create("AGED", subjects=["aged.>"], allow_msg_ttl=True, allow_direct=True, max_age=SECOND)
    for value in ("never", "1h", "3"):
        await side.publish("aged.x", value, headers=[("Nats-TTL", value)], label=f"aged with TTL {value}")
    await side.publish("aged.y", "plain")
    await side.publish("aged.y", "never", headers=[("Nats-TTL", "never")], label="aged, last never")
    await side.pause(4.5)
    await show(side, "TTL", "after")
    await show(side, "AGED", "after")


@scenario
async def delete_markers(side: Side) -> None:
    """What takes the place of a subject's last message when it expires."""
    await side.create("MARK", subjects=["mark.>"], subject_delete_marker_ttl=60 * SECOND, allow_direct=True)
    await side.create(
        "MARKAGE", subjects=["markage.>"], subject_delete_marker_ttl=3600 * SECOND, max_age=SECOND, allow_direct=True
    )
    await side.create(
        "MARKONE",
        subjects=["markone.>"],
        subject_delete_marker_ttl=61 * SECOND,
        max_msgs_per_subject=1,
        allow_direct=True,
    )
    await side.publish("mark.a", "raised", headers=[("Nats-TTL", "1"), ("Key", "value")])
    await side.publish("mark.b", "kept", headers=[("Nats-TTL", "2m")])
    await side.publish("markone.a", "1s", headers=[("Nats-TTL", "1")])
    await side.publish("markone.b", "purged", headers=[("Nats-TTL", "1"), ("KV-Operation", "PURGE")])
    await side.publish("markone.c", "deleted", headers=[("Nats-TTL", "1"), ("KV-Operation", "DEL")])
    await side.publish("markone.d", "stays")
    await side.publish("markage.a", "one")
    await side.publish("markage.a", "two")
    await side.publish("markage.b", "purged", headers=[("KV-Operation", "PURGE")])
    await side.pause(4.5)
    await show(side, "MARK", "mark")
    await show(side, "MARKAGE", "markage")
    await show(side, "MARKONE", "markone")
