"""Scenarios of publishing: acknowledgements, headers, expectations, deduplication and limits."""

from tests.integration.differential.side import Side, scenario

MILLISECOND = 1_000_000


def last_seq(value: object) -> list[tuple[str, str]]:
    """The header that expects the stream's last sequence."""
    return [("Nats-Expected-Last-Sequence", str(value))]


def last_subject_seq(value: object, subject: str = "") -> list[tuple[str, str]]:
    """The headers that expect the last sequence of the publish subject or of ``subject``."""
    also = [("Nats-Expected-Last-Subject-Sequence-Subject", subject)] if subject else []
    return [("Nats-Expected-Last-Subject-Sequence", str(value)), *also]


@scenario
async def acknowledgements(side: Side) -> None:
    """Acks of ordinary messages, byte for byte, and what is stored of them."""
    await side.create("ACK", subjects=["ack.>", "other"], allow_direct=True)
    await side.publish("ack.1", "first")
    await side.publish("ack.1", "")
    await side.publish("ack.2", bytes(range(256)), label="pub all byte values")
    await side.publish("other", "x" * 100_000, label="pub 100,000 bytes")
    await side.publish("nowhere", "nobody listens")
    await side.publish("ack", "no token below")
    await side.publish("ACK.1", "case matters")
    await side.mute("ack.mute", "no reply wanted")
    await side.info("ACK", {"subjects_filter": ">"})
    for seq in range(1, 7):
        await side.get("ACK", {"seq": seq})


@scenario
async def headers_kept(side: Side) -> None:
    """Stored headers come back in order, in their case, with repeats, and blocks that are odd."""
    await side.create("HDR", subjects=["hdr"], allow_direct=True)
    await side.publish("hdr", "1", headers=[("B", "2"), ("a", "1"), ("B", "3"), ("X-Mixed-Case", "v: w")])
    await side.publish("hdr", "2", headers=[("Empty", ""), ("Spaces", "  two  ")])
    await side.publish("hdr", "3", headers=[("Unicode", "größe ✓")])
    await side.publish("hdr", "4", headers=[("Nats-Stream", "LIE"), ("Nats-Sequence", "99")])
    await side.publish("hdr", "5", headers=[("Nats-Request-Info", "secret"), ("Kept", "yes")])
    await side.publish("hdr", "6", headers=[("nats-msg-id", "lower case is not an id")])
    await side.publish("hdr", "7", headers=[("nats-msg-id", "lower case is not an id")])
    await side.publish("hdr", "", headers=[("Only", "headers")])
    for label, block in (
        ("no space after the colon", b"NATS/1.0\r\nKey:value\r\n\r\n"),
        ("no fields", b"NATS/1.0\r\n\r\n"),
        ("a status line", b"NATS/1.0 100 Idle\r\nKey: v\r\n\r\n"),
        ("a status line alone", b"NATS/1.0 503\r\n\r\n"),
    ):
        await side.request("hdr", "odd", raw_header=block, label=f"pub with {label}")
    for seq in range(1, 13):
        await side.get("HDR", {"seq": seq})
    await side.api("STREAM.MSG.GET.HDR", {"seq": 1})
    await side.api("STREAM.MSG.GET.HDR", {"seq": 10})
    await side.info("HDR")


@scenario
async def sizes_refused(side: Side) -> None:
    """max_msg_size counts headers and payload; a header block may have 64 KiB."""
    await side.create("SIZE", subjects=["size"], max_msg_size=100)
    await side.publish("size", "x" * 100, label="pub exactly 100")
    await side.publish("size", "x" * 101, label="pub 101")
    await side.publish("size", "x" * 90, headers=[("Key", "value")], label="pub 90 and headers")
    await side.update("SIZE", subjects=["size"])
    await side.publish("size", "small", headers=[("Big", "v" * 65_000)], label="pub a header of 65,000")
    await side.publish("size", "small", headers=[("Big", "v" * 66_000)], label="pub a header of 66,000")
    await side.info("SIZE")


@scenario
async def no_ack(side: Side) -> None:
    """A stream with no_ack stores and keeps silent, also about errors."""
    await side.create("QUIET", subjects=["quiet"], no_ack=True, max_msgs=2, discard="new", allow_direct=True)
    await side.silent("quiet", "one")
    await side.silent("quiet", "refused", headers=last_seq(55))
    await side.silent("quiet", "two", headers=[("Nats-Msg-Id", "a")])
    await side.silent("quiet", "dup", headers=[("Nats-Msg-Id", "a")])
    await side.silent("quiet", "over the limit")
    await side.info("QUIET")
    await side.batch("QUIET", {"seq": 1, "batch": 10})


@scenario
async def expected_stream(side: Side) -> None:
    """Nats-Expected-Stream."""
    await side.create("EXP", subjects=["exp.>"])
    await side.publish("exp.1", "a", headers=[("Nats-Expected-Stream", "EXP")])
    await side.publish("exp.1", "b", headers=[("Nats-Expected-Stream", "OTHER")])
    await side.publish("exp.1", "c", headers=[("Nats-Expected-Stream", "exp")])
    await side.publish("exp.1", "d", headers=[("Nats-Expected-Stream", "")])
    await side.info("EXP")


@scenario
async def expected_last_sequence(side: Side) -> None:
    """Nats-Expected-Last-Sequence, right, wrong and not a number."""
    await side.create("SEQ", subjects=["seq.>"])
    await side.publish("seq.1", "needs 0", headers=last_seq(0))
    await side.publish("seq.1", "needs 0", headers=last_seq(0), label="needs 0 again")
    await side.publish("seq.1", "needs 1", headers=last_seq(1))
    await side.publish("seq.1", "needs 7", headers=last_seq(7))
    for odd in ("x", "-1", "", " 2", "2.0", "99999999999999999999999"):
        await side.publish("seq.1", "odd", headers=last_seq(odd))
    await side.api("STREAM.MSG.DELETE.SEQ", {"seq": 2})
    await side.publish("seq.1", "the last one was deleted", headers=last_seq(2))
    await side.api("STREAM.PURGE.SEQ")
    await side.publish("seq.1", "all were purged, 0", headers=last_seq(0))
    await side.info("SEQ")


@scenario
async def expected_last_subject_sequence(side: Side) -> None:
    """Nats-Expected-Last-Subject-Sequence, with and without another subject."""
    await side.create("SUB", subjects=["sub.>"])
    await side.publish("sub.a", "none yet", headers=last_subject_seq(0))
    await side.publish("sub.a", "one now", headers=last_subject_seq(0))
    await side.publish("sub.b", "b", headers=last_subject_seq(0))
    await side.publish("sub.a", "a is at 1", headers=last_subject_seq(1))
    await side.publish("sub.a", "a is at 3", headers=last_subject_seq(1))
    await side.publish("sub.c", "by b", headers=last_subject_seq(2, "sub.b"))
    await side.publish("sub.c", "by b wrong", headers=last_subject_seq(9, "sub.b"))
    await side.publish("sub.c", "by wildcard", headers=last_subject_seq(4, "sub.*"))
    await side.publish("sub.c", "by wildcard wrong", headers=last_subject_seq(4, "sub.*"))
    await side.publish("sub.c", "by all", headers=last_subject_seq(5, ">"))
    await side.publish("sub.c", "by a subject outside", headers=last_subject_seq(0, "outside"))
    await side.publish("sub.c", "by a subject outside wrong", headers=last_subject_seq(1, "outside"))
    await side.publish("sub.c", "subject without a sequence", headers=last_subject_seq(0, "sub.a")[1:])
    await side.publish("sub.c", "bad subject", headers=last_subject_seq(0, "sub..a"))
    for odd in ("x", "-1", "", "1.5"):
        await side.publish("sub.a", "odd", headers=last_subject_seq(odd))
    await side.api("STREAM.PURGE.SUB", {"filter": "sub.b"})
    await side.publish("sub.b", "b was purged", headers=last_subject_seq(0))
    await side.api("STREAM.MSG.DELETE.SUB", {"seq": 3})
    await side.publish("sub.a", "a's last was deleted", headers=last_subject_seq(1))
    await side.publish("sub.z", "both right", headers=[*last_subject_seq(0), *last_seq(10)])
    await side.publish("sub.z", "stream right, subject wrong", headers=[*last_seq(11), *last_subject_seq(0)])
    await side.info("SUB", {"subjects_filter": ">"})


@scenario
async def message_ids(side: Side) -> None:
    """Nats-Msg-Id inside the window, and which check comes first."""
    await side.create("IDS", subjects=["ids.>"], allow_direct=True)
    first = [("Nats-Msg-Id", "one")]
    await side.publish("ids.a", "stored", headers=first)
    await side.publish("ids.a", "stored", headers=first)
    await side.publish("ids.b", "other subject and payload", headers=first)
    await side.publish("ids.a", "no id", headers=[("Nats-Msg-Id", "")])
    await side.publish("ids.a", "no id", headers=[("Nats-Msg-Id", "")])
    await side.publish("ids.a", "case", headers=[("Nats-Msg-Id", "ONE")])
    await side.publish("ids.a", "dup and wrong sequence", headers=[*first, *last_seq(99)])
    await side.publish("ids.a", "dup and wrong stream", headers=[*first, ("Nats-Expected-Stream", "NO")])
    await side.publish("ids.a", "dup and wrong subject sequence", headers=[*first, *last_subject_seq(99)])
    await side.publish("ids.a", "dup and wrong last id", headers=[*first, ("Nats-Expected-Last-Msg-Id", "no")])
    await side.publish("ids.a", "new and wrong sequence", headers=[("Nats-Msg-Id", "two"), *last_seq(99)])
    await side.publish("ids.a", "new and right", headers=[("Nats-Msg-Id", "two"), *last_seq(4)])
    await side.publish("ids.a", "two ids", headers=[("Nats-Msg-Id", "three"), ("Nats-Msg-Id", "one")])
    await side.api("STREAM.MSG.DELETE.IDS", {"seq": 1})
    await side.publish("ids.a", "its message was deleted", headers=first)
    await side.api("STREAM.PURGE.IDS")
    await side.publish("ids.a", "all were purged", headers=first)
    await side.publish("ids.a", "unicode id", headers=[("Nats-Msg-Id", "größe")])
    await side.publish("ids.a", "unicode id", headers=[("Nats-Msg-Id", "größe")])
    await side.info("IDS")


@scenario
async def message_id_window(side: Side) -> None:
    """An id is forgotten when the window has passed."""
    await side.create("WIN", subjects=["win"], duplicate_window=600 * MILLISECOND)
    await side.publish("win", "stored", headers=[("Nats-Msg-Id", "w")])
    await side.publish("win", "inside", headers=[("Nats-Msg-Id", "w")])
    await side.pause(2.0)
    await side.publish("win", "after", headers=[("Nats-Msg-Id", "w")])
    await side.publish("win", "inside again", headers=[("Nats-Msg-Id", "w")])
    await side.update("WIN", subjects=["win"], duplicate_window=120_000 * MILLISECOND)
    await side.publish("win", "inside still", headers=[("Nats-Msg-Id", "w")])
    await side.info("WIN")


@scenario
async def expected_last_message_id(side: Side) -> None:
    """Nats-Expected-Last-Msg-Id is about the last message stored, with or without an id."""
    await side.create("LID", subjects=["lid"])
    expect = "Nats-Expected-Last-Msg-Id"
    await side.publish("lid", "empty stream", headers=[(expect, "a")])
    await side.publish("lid", "a", headers=[("Nats-Msg-Id", "a")])
    await side.publish("lid", "after a", headers=[(expect, "a"), ("Nats-Msg-Id", "b")])
    await side.publish("lid", "after a, wrong", headers=[(expect, "a")])
    await side.publish("lid", "without id")
    await side.publish("lid", "after one without id", headers=[(expect, "b")])
    await side.publish("lid", "expects no id", headers=[(expect, "")])
    await side.info("LID")


@scenario
async def headers_not_enabled(side: Side) -> None:
    """Headers of features that the stream has not switched on."""
    await side.create("OFF", subjects=["off.>"], allow_direct=True)
    for headers in (
        [("Nats-Rollup", "sub")],
        [("Nats-Rollup", "all")],
        [("Nats-Rollup", "some")],
        [("Nats-Rollup", "")],
        [("Nats-TTL", "5s")],
        [("Nats-TTL", "never")],
        [("Nats-TTL", "0")],
        [("Nats-TTL", "soon")],
        [("Nats-TTL", "-5")],
        [("Nats-TTL", "10ms")],
        [("Nats-Incr", "1")],
        [("Nats-Incr", "x")],
        [("Nats-Schedule", "@every 5s"), ("Nats-Schedule-Target", "off.t")],
        [("Nats-Schedule", "nonsense")],
        [("Nats-Schedule-Next", "purge")],
        [("Nats-Scheduler", "off.s")],
        [("Nats-Stream-Source", "X 1 > >")],
        [("Nats-Batch-Id", "b1"), ("Nats-Batch-Sequence", "1")],
        [("Nats-Batch-Id", "b1"), ("Nats-Batch-Sequence", "1"), ("Nats-Batch-Commit", "1")],
        [("Nats-Batch-Sequence", "1")],
        [("Nats-Marker-Reason", "MaxAge")],
        [("KV-Operation", "DEL")],
        [("Nats-Required-Api-Level", "99")],
        [("Nats-Time-Stamp", "never")],
        [("Nats-Last-Sequence", "7")],
    ):
        await side.publish("off.x", "p", headers=headers)
    await side.info("OFF")
    await side.batch("OFF", {"seq": 1, "batch": 50})


@scenario
async def order_of_checks(side: Side) -> None:
    """Two things are wrong with a message: which one is named."""
    await side.create("ORD", subjects=["ord"], max_msg_size=200, max_msgs=1, discard="new")
    await side.publish("ord", "fill", headers=[("Nats-Msg-Id", "filled")])
    big = "x" * 220
    wrong_stream = ("Nats-Expected-Stream", "NO")
    await side.publish("ord", big, headers=[wrong_stream], label="too big, wrong stream")
    await side.publish("ord", big, headers=last_seq(9), label="too big, wrong sequence")
    await side.publish("ord", big, headers=[("Nats-Rollup", "all")], label="too big, rollup")
    await side.publish("ord", big, headers=[("Nats-Msg-Id", "filled")], label="too big, duplicate")
    await side.publish("ord", big, headers=[("Nats-TTL", "soon")], label="too big, invalid TTL")
    await side.publish("ord", big, headers=[("Nats-Incr", "1")], label="too big, counter")
    await side.publish("ord", big, headers=[("Nats-Schedule", "x")], label="too big, schedule")
    await side.publish(
        "ord", big, headers=[("Nats-Batch-Id", "b"), ("Nats-Batch-Sequence", "1")], label="too big, batch"
    )
    await side.publish("ord", big, headers=[("Big", "v" * 66_000)], label="too big, headers too big")
    await side.publish("ord", big, label="too big and the stream is full")
    await side.publish("ord", "full", headers=[("Nats-Msg-Id", "filled")], label="full, duplicate")
    await side.publish("ord", "full", headers=last_seq(9))
    await side.publish("ord", "full", headers=[*last_seq(9), wrong_stream])
    await side.publish("ord", "full", headers=[*last_seq(9), *last_subject_seq(9)])
    await side.publish("ord", "full", headers=[("Nats-Expected-Last-Msg-Id", "z"), *last_seq(9)])
    await side.publish("ord", "full", headers=[("Nats-TTL", "5s"), *last_seq(9)])
    await side.publish("ord", "full", headers=[("Nats-TTL", "5s"), wrong_stream])
    await side.publish("ord", "full")
    await side.info("ORD")


@scenario
async def max_msgs(side: Side) -> None:
    """max_msgs with both discard policies."""
    await side.create("OLD", subjects=["old.>"], max_msgs=3, allow_direct=True)
    await side.fill("old.{}", 5)
    await side.info("OLD", {"subjects_filter": ">"})
    await side.get("OLD", {"seq": 2})
    await side.get("OLD", {"last_by_subj": "old.1"})
    await side.api("STREAM.MSG.DELETE.OLD", {"seq": 4})
    await side.fill("old.more{}", 2)
    await side.info("OLD", {"deleted_details": True}, label="info after a hole")
    await side.create("NEW", subjects=["new.>"], max_msgs=3, discard="new")
    await side.fill("new.{}", 5)
    await side.info("NEW")
    await side.api("STREAM.MSG.DELETE.NEW", {"seq": 2})
    await side.fill("new.again{}", 2)
    await side.info("NEW", label="info after room was made")


@scenario
async def max_bytes(side: Side) -> None:
    """max_bytes with both discard policies; sizes count what nats-server's file store counts."""
    await side.create("BOLD", subjects=["bold.>"], max_bytes=300)
    for number in range(1, 9):
        await side.publish(f"bold.{number}", "x" * 20 * (number % 3), label=f"pub bold {number}")
        await side.info("BOLD", label=f"info after bold {number}")
    await side.publish("bold.big", "x" * 400, label="larger than the stream")
    await side.info("BOLD", label="info after the large one")
    await side.create("BNEW", subjects=["bnew.>"], max_bytes=300, discard="new")
    for number in range(1, 8):
        await side.publish(f"bnew.{number}", "x" * 30, label=f"pub bnew {number}")
    await side.publish("bnew.h", "x", headers=[("K", "v")])
    await side.info("BNEW")


@scenario
async def max_msgs_per_subject(side: Side) -> None:
    """Only the newest of each subject stay."""
    await side.create("PER", subjects=["per.>"], max_msgs_per_subject=2, allow_direct=True)
    await side.fill("per.a", 4)
    await side.fill("per.b", 1)
    await side.info("PER", {"subjects_filter": ">", "deleted_details": True})
    await side.fill("per.c", 3)
    await side.fill("per.a", 1, pattern="late {}")
    await side.info("PER", {"subjects_filter": ">", "deleted_details": True})
    await side.batch("PER", {"seq": 1, "batch": 20})
    await side.create("KVISH", subjects=["kvish.>"], max_msgs_per_subject=1, discard="new")
    await side.fill("kvish.k", 3)
    await side.info("KVISH", {"subjects_filter": ">"})
    await side.create("BOTH", subjects=["both.>"], max_msgs_per_subject=2, max_msgs=3)
    await side.fill("both.x", 3)
    await side.fill("both.y", 2)
    await side.fill("both.x", 1, pattern="end {}")
    await side.info("BOTH", {"subjects_filter": ">", "deleted_details": True})


@scenario
async def max_age(side: Side) -> None:
    """Messages disappear when they are old; sequences go on."""
    await side.create("AGE", subjects=["age.>"], max_age=700 * MILLISECOND, allow_direct=True)
    await side.fill("age.{}", 3)
    await side.info("AGE", label="info while young")
    await side.pause(2.2)
    await side.info("AGE", label="info when all are old")
    await side.get("AGE", {"last_by_subj": "age.1"})
    await side.publish("age.4", "after")
    await side.info("AGE", label="info with one young")
    await side.get("AGE", {"seq": 4})
    await side.create("AGED", subjects=["aged.>"])
    await side.fill("aged.{}", 2)
    await side.pause(0.8)
    await side.update("AGED", subjects=["aged.>"], max_age=500 * MILLISECOND, duplicate_window=500 * MILLISECOND)
    await side.pause(1.5)
    await side.info("AGED", label="info after an age was set")
