"""Scenarios of message schedules: what is taken, what is refused, and what schedules produce."""

import json
import re
from typing import Any

from tests.integration.differential.side import Side, scenario
from tests.wire import Headers, header_block

FIELDS = ("1", "*", "?", "*/2", "1-5", "1-5/2", "5-1", "0", "31", "60", "a", "+1", "-1", "1,2", ",", "*/0", "1-2-3")
PATTERNS = (
    [f"{' '.join(['0'] * place)} {one} {' '.join(['*'] * (5 - place))}".strip() for place in range(6) for one in FIELDS]
    + [f"@{name}" for name in ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly", "Daily", "x")]
    + [
        f"@every {one}"
        for one in ("1s", "999ms", "1h30m", "1.5s", "-1s", "+2s", "0", "", "1", "1d", ".5m", "1us", "9999999h")
    ]
    + [
        f"@at {one}"
        for one in ("2099-01-01T00:00:00Z", "2099-02-29T00:00:00Z", "2099-01-01 00:00:00Z", "2099-01-01T00:00:00")
    ]
    + ["@at 2099-01-01T1:00:00.5+01:30", "@at 2099-01-01T00:00:60Z", "@at", "@every", "@at ", "@every ", "nonsense"]
    + [
        "@at 2099-01-01T00:00:00+24:00",
        "@at 2099-01-01T00:00:00+25:00",
        "@at 0001-01-01T00:00:00Z",
        "@at 2099-01-01t00:00:00z",
    ]
    + [
        "0 0 0 30 2 *",
        "0 0 0 29 FEB ?",
        "0 0 0 ? jan-mar Mon-FRI",
        "0 0 0 * * 7",
        "* * * * *",
        "* * * * * * *",
        " *  * * * *\t*",
    ]
)

SEARCH_SECONDS = 90
"""nats-server tries each second of five years where a pattern names none; that takes it long on a busy machine."""


def at(target: str, pattern: str = "@at 2020-01-01T00:00:00Z", *more: tuple[str, str]) -> Headers:
    """Headers of a schedule."""
    return [("Nats-Schedule", pattern), ("Nats-Schedule-Target", target), *more]


async def verdict(side: Side, label: str, headers: Headers) -> None:
    """Record whether a schedule is taken: sequences depend on which of them have fired by now."""
    sent = side.wire.send("sp.s", b"", header=header_block(headers))
    reply = await side.wire.receive(sent, seconds=SEARCH_SECONDS)
    assert reply is not None
    side.note(label, [{"error": json.loads(reply.payload).get("error")}])


async def produced(side: Side, stream: str, label: str, **wanted: int | str) -> None:
    """Wait for a message and record it, its times left out."""
    for _ in range(60):
        reply = await side.wire.receive(side.wire.send(f"$JS.API.DIRECT.GET.{stream}", json.dumps(wanted).encode()))
        if reply is not None and not reply.status.startswith("404"):
            break
        await side.pause(0.1)
    assert reply is not None
    text = re.sub(rb"\d{4}-\d\d-\d\dT[0-9:.]*", b"TIME", reply.header)
    seen: dict[str, Any] = {"header": text.decode(), "data": reply.payload.decode()}
    side.note(label, [seen])


@scenario
async def schedule_patterns(side: Side) -> None:
    """Which patterns are schedules."""
    await side.create("SP", subjects=["sp.>"], allow_msg_schedules=True)
    for pattern in PATTERNS:
        await verdict(side, f"pattern {pattern!r}", at("sp.t", pattern))
        if pattern.startswith(("@at", "@every")):
            await verdict(side, f"pattern {pattern!r} UTC", at("sp.t", pattern, ("Nats-Schedule-Time-Zone", "UTC")))
    for name in ("Europe/Berlin", "UTC", "", "Nowhere/None", "europe/../UTC", "America/New_York", "Europe"):
        zone = ("Nats-Schedule-Time-Zone", name)
        await verdict(side, f"zone {name}", at("sp.t", "@daily", zone))
        await verdict(side, f"zone {name} alone", [zone])


@scenario
async def schedule_headers(side: Side) -> None:
    """What else is wrong with schedules, and with what ends them."""
    await side.create("SH", subjects=["sh.>"], allow_msg_schedules=True, allow_direct=True)
    await side.create("ST", subjects=["st.>"], allow_msg_schedules=True, allow_msg_ttl=True)
    await side.create("SP", subjects=["spd.>"], allow_msg_schedules=True, discard="new")
    await side.update("SH", subjects=["sh.>"], allow_rollup_hdrs=True)
    later = "@at 2099-01-01T00:00:00Z"
    for target in ("sh.s", "", "sh.*", "other", "sh", "sh..a", "sh.t"):
        await side.publish("sh.s", headers=at(target, later), label=f"target {target}")
        for stream in ("sh", "st"):
            await side.publish(f"{stream}.s", headers=at(f"{stream}.t", later, ("Nats-Schedule-Source", target)))
    for name, value in (
        ("Nats-Schedule-TTL", "1h"), ("Nats-Schedule-TTL", "x"), ("Nats-Schedule-TTL", "0"), ("Nats-Rollup", "sub"),
        ("Nats-Schedule-TTL", "never"), ("Nats-Rollup", "all"), ("Nats-Rollup", "SUB"), ("Nats-Rollup", "x"),
        ("Nats-Schedule-Rollup", "sub"), ("Nats-Schedule-Rollup", "all"), ("Nats-Schedule-Rollup", "Sub"),
    ):  # fmt: skip
        for stream in ("sh", "st"):
            await side.publish(f"{stream}.s", headers=at(f"{stream}.t", later, (name, value)))
    await produced(side, "SH", "the schedule", seq=1)
    await side.publish("sh.plain", b"x")
    for following, scheduler in (
        ("purge", "sh.plain"),
        ("purge", "sh.none"),
        ("x", "sh.s"),
        ("purge", ""),
        ("", "sh.s"),
    ):
        ends = [("Nats-Schedule-Next", following), ("Nats-Scheduler", scheduler)]
        await side.publish("sh.end", headers=[one for one in ends if one[1]])
    await side.publish("sh.end", headers=[("Nats-Schedule-Next", "purge"), ("Nats-Scheduler", "sh.s")])
    await side.info("SH", {"subjects_filter": ">"}, label="after the end")


@scenario
async def schedule_fires(side: Side) -> None:
    """What schedules that are due produce."""
    options = {"allow_msg_schedules": True, "allow_msg_ttl": True, "allow_direct": True}
    await side.create("SF", subjects=["sf.>"], **options)
    extra = [("X-Mine", "1"), ("Nats-Msg-Id", "id"), ("Nats-Schedule-TTL", "1h"), ("Nats-Schedule-Rollup", "sub")]
    await side.publish("sf.once", b"body", headers=at("sf.t", "@at 2020-01-01T00:00:00Z", *extra))
    await produced(side, "SF", "once", seq=2)
    await side.info("SF", {"subjects_filter": ">"}, label="after once")
    await side.publish("sf.data", b"source", headers=[("X-Source", "2"), ("Nats-TTL", "2h")])
    source = ("Nats-Schedule-Source", "sf.data")
    await side.publish("sf.sourced", b"own", headers=at("sf.u", "@at 2020-01-01T00:00:00Z", source))
    await produced(side, "SF", "sourced", seq=5)
    await side.publish("sf.again", b"own", headers=at("sf.v", "@every 1s", ("Nats-Schedule-Source", "sf.none")))
    await produced(side, "SF", "again", seq=7)
    await produced(side, "SF", "and again", seq=8, next_by_subj="sf.v")
    await side.wire.receive(side.wire.send("$JS.API.STREAM.PURGE.SF", b'{"filter": "sf.again"}'))
    zone = ("Nats-Schedule-Time-Zone", "Asia/Kolkata")
    await side.publish("sf.cron", b"c", headers=at("sf.w", "* * * * * *", zone))
    await produced(side, "SF", "cron", last_by_subj="sf.w")
