"""Scenarios of Direct Get: single, batch, multi, subject form, conflicts and statuses."""

import asyncio
import json
from typing import Any

from tests.integration.differential.side import Body, Side, scenario
from tests.wire import Reply

LONG_AGO = "2001-01-01T00:00:00Z"
FAR_AHEAD = "2201-01-01T00:00:00Z"


async def _filled(side: Side, name: str = "DG", **config: Any) -> dict[int, str]:
    """Twelve messages over ``dg.a.1``, ``dg.a.2``, ``dg.b.1`` and ``dg.c``, two of them deleted; gives their times."""
    await side.create(name, subjects=[f"{name.lower()}.>"], allow_direct=True, **config)
    subjects = ("a.1", "a.2", "b.1", "a.1", "c", "a.2", "a.1", "b.1", "a.1", "a.2", "c", "a.1")
    times = {}
    for number, subject in enumerate(subjects, start=1):
        headers = [("K", f"v{number}"), ("Two", "x")] if number % 3 == 0 else []
        await side.publish(f"{name.lower()}.{subject}", f"payload {number}", headers=headers)
        reply = await side.get(name, {"seq": number})
        times[number] = reply.get("Nats-Time-Stamp") or ""
        await asyncio.sleep(0.002)
    for seq in (4, 8):
        await side.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
    return times


def _later(time: str) -> str:
    """The same time one nanosecond later."""
    whole, _, fraction = time.removesuffix("Z").partition(".")
    return f"{whole}.{int(fraction.ljust(9, '0')) + 1:09}Z"


@scenario
async def direct_single(side: Side) -> None:
    """One message by sequence, by last subject, by next subject."""
    await _filled(side)
    for body in (
        {"seq": 1},
        {"seq": 3},
        {"seq": 3, "no_hdr": True},
        {"seq": 1, "no_hdr": True},
        {"seq": 4},
        {"seq": 4, "no_hdr": True},
        {"seq": 12},
        {"seq": 13},
        {"seq": 18446744073709551615},
        {"last_by_subj": "dg.a.1"},
        {"last_by_subj": "dg.b.1"},
        {"last_by_subj": "dg.a.*"},
        {"last_by_subj": ">"},
        {"last_by_subj": "dg.none"},
        {"last_by_subj": "dg..x"},
        {"last_by_subj": "dg.c", "no_hdr": True},
        {"last_by_subj": "dg.c", "max_bytes": 5},
        {"next_by_subj": "dg.a.2"},
        {"next_by_subj": "dg.a.2", "seq": 3},
        {"next_by_subj": "dg.b.1", "seq": 8},
        {"next_by_subj": "dg.b.1", "seq": 4},
        {"next_by_subj": "dg.*.1", "seq": 4},
        {"next_by_subj": ">", "seq": 4},
        {"next_by_subj": ">", "seq": 0},
        {"next_by_subj": "dg.c", "seq": 12},
        {"next_by_subj": "none"},
        {"next_by_subj": "dg.c", "seq": 99},
        {"seq": 2, "max_bytes": 1},
        {"seq": 2, "batch": 0},
        {"seq": 2, "up_to_seq": 1},
        {"seq": 0},
    ):
        await side.get("DG", body)


@scenario
async def direct_refused(side: Side) -> None:
    """Empty, malformed and contradictory requests."""
    await _filled(side)
    bodies: tuple[Body, ...] = (
        None,
        "{}",
        "{",
        "[]",
        "null",
        "7",
        '"x"',
        " ",
        {"seq": "1"},
        {"seq": -1},
        {"seq": 1.5},
        {"batch": "x", "seq": 1},
        {"batch": 10},
        {"max_bytes": 10},
        {"no_hdr": True},
        {"up_to_seq": 5},
        {"up_to_time": LONG_AGO},
        {"last_by_subj": 5},
        {"multi_last": "dg.c"},
        {"multi_last": []},
        {"multi_last": [], "batch": 5},
        {"start_time": "yesterday"},
        {"start_time": 5},
        {"unknown": 1},
        {"unknown": 1, "seq": 1},
        {"seq": 1, "last_by_subj": "dg.c"},
        {"seq": 1, "start_time": LONG_AGO},
        {"start_time": LONG_AGO, "last_by_subj": "dg.c"},
        {"last_by_subj": "dg.c", "next_by_subj": "dg.c"},
        {"last_by_subj": "dg.c", "batch": 3},
        {"last_by_subj": "dg.c", "multi_last": ["dg.c"]},
        {"next_by_subj": "dg.c", "multi_last": ["dg.c"]},
        {"multi_last": ["dg.c"], "up_to_seq": 5, "up_to_time": LONG_AGO},
        {"seq": 1, "up_to_seq": 5, "up_to_time": LONG_AGO},
    )
    for body in bodies:
        await side.get("DG", body)
    for level in ("99", "x", "-1", ""):
        await side.get("DG", {"seq": 1}, headers=[("Nats-Required-Api-Level", level)])
    await side.get("NOSUCH", {"seq": 1})
    await side.create("CLOSED", subjects=["closed"], allow_direct=False)
    await side.publish("closed", "not for direct get")
    await side.get("CLOSED", {"seq": 1})
    await side.get("CLOSED.closed")


@scenario
async def direct_subject_form(side: Side) -> None:
    """The subject appended to the request subject, with and without a body."""
    await _filled(side)
    for tail, body in (
        ("dg.a.1", None),
        ("dg.c", None),
        ("dg.none", None),
        ("other", None),
        ("dg", None),
        ("dg.c", "{}"),
        ("dg.c", {"no_hdr": True}),
        ("dg.c", {"no_hdr": False}),
        ("dg.c", {"max_bytes": 1}),
        ("dg.c", {"seq": 1}),
        ("dg.c", {"batch": 1}),
        ("dg.c", {"last_by_subj": "dg.c"}),
        ("dg.c", {"next_by_subj": "dg.c"}),
        ("dg.c", {"multi_last": ["dg.c"]}),
        ("dg.c", {"up_to_seq": 4}),
        ("dg.c", {"start_time": LONG_AGO}),
        ("dg.c", "junk"),
        ("dg.c", "null"),
        ("dg.c", {"unknown": 1}),
    ):
        await side.get(f"DG.{tail}", body)
    await side.get("DG.dg.c", headers=[("Nats-Required-Api-Level", "99")])
    await side.get("NOSUCH.dg.c")


@scenario
async def direct_batch(side: Side) -> None:
    """Batches from a sequence, by subject, by size."""
    await _filled(side)
    for body in (
        {"seq": 1, "batch": 1},
        {"seq": 1, "batch": 3},
        {"seq": 1, "batch": 100},
        {"seq": 4, "batch": 2},
        {"seq": 3, "batch": 2},
        {"seq": 12, "batch": 5},
        {"seq": 13, "batch": 5},
        {"seq": 99, "batch": 5},
        {"seq": 0, "batch": 2, "next_by_subj": ">"},
        {"batch": 2, "next_by_subj": "dg.a.1"},
        {"batch": 100, "next_by_subj": "dg.a.1"},
        {"batch": 100, "next_by_subj": "dg.*.1"},
        {"batch": 2, "next_by_subj": "dg.a.*", "seq": 5},
        {"batch": 2, "next_by_subj": "none"},
        {"batch": 2, "next_by_subj": "dg.c", "seq": 12},
        {"batch": 100, "seq": 1, "max_bytes": 1},
        {"batch": 100, "seq": 1, "max_bytes": 40},
        {"batch": 100, "seq": 1, "max_bytes": 60},
        {"batch": 100, "seq": 1, "max_bytes": 100},
        {"batch": 100, "seq": 1, "max_bytes": 10_000},
        {"batch": 100, "seq": 1, "max_bytes": -1},
        {"batch": 100, "seq": 1, "max_bytes": 0},
        {"batch": 100, "next_by_subj": "dg.a.2", "max_bytes": 50},
        {"batch": 3, "seq": 1, "no_hdr": True},
        {"batch": 100, "next_by_subj": "dg.c", "no_hdr": True},
        {"batch": 3, "seq": 99, "no_hdr": True},
        {"batch": -1, "seq": 1},
        {"batch": -1, "next_by_subj": "dg.c"},
        {"batch": 2, "start_time": LONG_AGO},
        {"batch": 2, "start_time": FAR_AHEAD},
        {"batch": 3, "seq": 1, "up_to_seq": 2},
    ):
        await side.batch("DG", body)


@scenario
async def direct_by_time(side: Side) -> None:
    """Start times exactly at, just after, before and beyond messages."""
    times = await _filled(side)
    for label, body in (
        ("at 3", {"start_time": times[3]}),
        ("just after 3", {"start_time": _later(times[3])}),
        ("at the deleted 4", {"start_time": times[4]}),
        ("just after 12", {"start_time": _later(times[12])}),
        ("at 12", {"start_time": times[12]}),
        ("at 3, no headers", {"start_time": times[3], "no_hdr": True}),
        ("next dg.c from 6", {"start_time": times[6], "next_by_subj": "dg.c"}),
        ("next dg.b.1 from 8", {"start_time": times[8], "next_by_subj": "dg.b.1"}),
        ("an hour east of UTC", {"start_time": "2001-01-01T00:00:00+01:00"}),
        ("small letters", {"start_time": "2001-01-01t00:00:00z"}),
        ("without a zone", {"start_time": "2001-01-01T00:00:00"}),
        ("long ago", {"start_time": LONG_AGO}),
        ("far ahead", {"start_time": FAR_AHEAD}),
        ("zero", {"start_time": "0001-01-01T00:00:00Z"}),
    ):
        await side.get("DG", body, label=f"get from {label}")
    for label, body in (
        ("at 3", {"start_time": times[3], "batch": 3}),
        ("at the deleted 4", {"start_time": times[4], "batch": 2}),
        ("just after 10", {"start_time": _later(times[10]), "batch": 9}),
        ("next dg.a.* from 5", {"start_time": times[5], "batch": 3, "next_by_subj": "dg.a.*"}),
        ("after the last", {"start_time": _later(times[12]), "batch": 3}),
    ):
        await side.batch("DG", body, label=f"batch from {label}")


@scenario
async def direct_multi(side: Side) -> None:
    """The last message of each subject, now."""
    await _filled(side)
    for body in (
        {"multi_last": ["dg.a.1"]},
        {"multi_last": ["dg.>"]},
        {"multi_last": [">"]},
        {"multi_last": ["dg.a.*", "dg.c"]},
        {"multi_last": ["dg.c", "dg.a.*"]},
        {"multi_last": ["dg.c", "dg.c", "dg.*"]},
        {"multi_last": ["dg.none"]},
        {"multi_last": ["dg.none", "dg.c"]},
        {"multi_last": ["dg..x"]},
        {"multi_last": [""]},
        {"multi_last": ["dg.>"], "batch": 2},
        {"multi_last": ["dg.>"], "batch": 100},
        {"multi_last": ["dg.>"], "batch": -1},
        {"multi_last": ["dg.>"], "seq": 10},
        {"multi_last": ["dg.>"], "seq": 11, "batch": 1},
        {"multi_last": ["dg.>"], "seq": 99},
        {"multi_last": ["dg.>"], "max_bytes": 1},
        {"multi_last": ["dg.>"], "max_bytes": 50},
        {"multi_last": ["dg.>"], "no_hdr": True},
        {"multi_last": ["dg.>"], "start_time": FAR_AHEAD},
        {"multi_last": ["dg.>"], "start_time": LONG_AGO, "batch": 1},
    ):
        await side.batch("DG", body)


@scenario
async def direct_multi_past(side: Side) -> None:
    """The last message of each subject at a past point, in a stream from which limits removed nothing."""
    times = await _filled(side)
    for body in (
        {"multi_last": ["dg.>"], "up_to_seq": 3},
        {"multi_last": ["dg.>"], "up_to_seq": 1},
        {"multi_last": ["dg.>"], "up_to_seq": 7},
        {"multi_last": ["dg.>"], "up_to_seq": 9},
        {"multi_last": ["dg.>"], "up_to_seq": 12},
        {"multi_last": ["dg.>"], "up_to_seq": 99},
        {"multi_last": ["dg.c"], "up_to_seq": 4},
        {"multi_last": ["dg.c"], "up_to_seq": 5},
        {"multi_last": ["dg.a.*"], "up_to_seq": 9, "batch": 1},
        {"multi_last": ["dg.a.*"], "up_to_seq": 9, "seq": 7},
        {"multi_last": ["dg.a.*"], "up_to_seq": 3, "seq": 7},
        {"multi_last": ["dg.>"], "up_to_time": LONG_AGO},
        {"multi_last": ["dg.>"], "up_to_time": FAR_AHEAD},
        {"multi_last": ["dg.>"], "up_to_seq": 0},
        {"multi_last": ["dg.none"], "up_to_seq": 5},
    ):
        await side.batch("DG", body)
    for label, time in (
        ("exactly at 7", times[7]),
        ("just after 7", _later(times[7])),
        ("exactly at 1", times[1]),
        ("just after 1", _later(times[1])),
        ("exactly at 12", times[12]),
        ("just after 12", _later(times[12])),
    ):
        await side.batch("DG", {"multi_last": ["dg.>"], "up_to_time": time}, label=f"multi up to the time {label}")


@scenario
async def direct_multi_deleted_past(side: Side) -> None:
    """The past after a deletion by hand: what was erased is not shown."""
    await side.create("DP", subjects=["dp.>"], allow_direct=True)
    await side.fill("dp.x", 4)
    await side.api("STREAM.MSG.DELETE.DP", {"seq": 3})
    await side.batch("DP", {"multi_last": ["dp.x"], "up_to_seq": 3})
    await side.api("STREAM.PURGE.DP", {"seq": 3})
    await side.batch("DP", {"multi_last": ["dp.x"], "up_to_seq": 2})
    await side.batch("DP", {"multi_last": ["dp.x"], "up_to_seq": 4})


@scenario
async def direct_true_past(side: Side) -> None:
    """The past of values that a limit has removed since: nats-server answers from what is left."""
    await side.create("PAST", subjects=["past.>"], allow_direct=True, max_msgs_per_subject=1)
    await side.fill("past.x", 3, pattern="x{}")
    await side.fill("past.y", 2, pattern="y{}")
    await side.batch("PAST", {"multi_last": ["past.>"]}, label="the present")
    await side.batch("PAST", {"multi_last": ["past.>"], "up_to_seq": 4}, label="past.x and past.y at 4")
    await side.batch("PAST", {"multi_last": ["past.>"], "up_to_seq": 2}, label="past.x at 2")


@scenario
async def direct_times_behind_removals(side: Side) -> None:
    """A time behind what took messages away: they were gone then, although no message came since."""
    await side.create("AGED", subjects=["aged.>"], allow_direct=True, max_age=500_000_000)
    await side.create("KEPT", subjects=["kept.>"], allow_direct=True)
    for name in ("aged.x", "aged.y", "kept.x", "kept.y"):
        await side.publish(name)
    await side.api("STREAM.MSG.DELETE.KEPT", {"seq": 2, "no_erase": True})
    await side.pause(1.0)
    for stream in ("AGED", "KEPT"):
        for time in (FAR_AHEAD, LONG_AGO):
            await side.batch(stream, {"multi_last": [">"], "up_to_time": time})
    await side.publish("aged.z")
    await side.batch("AGED", {"multi_last": [">"], "up_to_time": FAR_AHEAD}, label="one more came")


@scenario
async def direct_too_many(side: Side) -> None:
    """More than 1,024 subjects are refused as a whole, 1,024 are not."""
    await side.create("MANY", subjects=["many.>"], allow_direct=True)
    await side.fill("many.{}", 1024, pattern="")
    await side.batch("MANY", {"multi_last": ["many.>"]}, label="1,024 subjects")
    await side.publish("many.last", "one more")
    await side.batch("MANY", {"multi_last": ["many.>"]}, label="1,025 subjects")
    await side.batch("MANY", {"multi_last": ["many.>"], "batch": 1}, label="1,025 subjects, one wanted")
    await side.batch("MANY", {"multi_last": ["many.*", "many.>"], "seq": 1020}, label="1,025 subjects twice")
    await side.batch("MANY", {"multi_last": ["many.>"], "up_to_seq": 1024}, label="1,024 of the past")
    await side.batch("MANY", {"multi_last": ["many.1", "many.last"]}, label="two of 1,025 subjects")
    await side.batch("MANY", {"next_by_subj": "many.>", "batch": 1100}, label="a batch has no such limit")


@scenario
async def direct_empty_stream(side: Side) -> None:
    """Requests to a stream without messages, new or purged."""
    await side.create("VOID", subjects=["void"], allow_direct=True)
    bodies: tuple[dict[str, Any], ...] = (
        {"seq": 1},
        {"last_by_subj": "void"},
        {"last_by_subj": ">"},
        {"next_by_subj": "void"},
        {"start_time": LONG_AGO},
    )
    many: tuple[dict[str, Any], ...] = (
        {"seq": 1, "batch": 5},
        {"next_by_subj": ">", "batch": 5},
        {"multi_last": ["void"]},
        {"multi_last": [">"], "up_to_seq": 5},
        {"multi_last": [">"], "up_to_time": FAR_AHEAD},
    )
    for state in ("new", "purged"):
        for body in bodies:
            await side.get("VOID", body, label=f"{state}: {json.dumps(body)}")
        for body in many:
            await side.batch("VOID", body, label=f"{state}: {json.dumps(body)}")
        await side.fill("void", 3)
        await side.api("STREAM.PURGE.VOID", label=f"purge the {state} stream")


@scenario
async def direct_paging(side: Side) -> None:
    """A client pages through a stream and through a multi request by the numbers that EOB gives it."""
    await _filled(side)
    start: int | None = 1
    while start is not None:
        replies = await side.batch("DG", {"seq": start, "batch": 3}, label=f"page from {start}")
        start = _next_page(replies)
    start = 1
    while start is not None:
        request = {"multi_last": ["dg.>"], "seq": start, "batch": 2, "up_to_seq": 12}
        replies = await side.batch("DG", request, label=f"multi page from {start}")
        start = _next_page(replies)


def _next_page(replies: list[Reply]) -> int | None:
    """The sequence to go on from, None when nothing is pending."""
    if not replies or not (replies[-1].get("Nats-Num-Pending") or "0").isdigit():
        return None
    pending = int(replies[-1].get("Nats-Num-Pending") or 0)
    return int(replies[-1].get("Nats-Last-Sequence") or 0) + 1 if pending else None
