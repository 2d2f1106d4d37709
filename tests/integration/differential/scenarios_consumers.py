"""Scenarios of consumer management: every request of the table, and consumers that have messages and listeners."""

import json
from typing import Any

from tests.integration.differential.consumer_cases import AT_RANDOM, EXPLICIT, LATER, STREAMS, TABLE, Step
from tests.integration.differential.side import SCENARIOS, Body, Scenario, Side, scenario

SECOND = 1_000_000_000
PARTS = 4


async def consumer(side: Side, name: str, stream: str, /, *, label: str = "", **config: Any) -> dict[str, Any]:
    """CONSUMER.CREATE with this configuration."""
    body = {"stream_name": stream, "config": config}
    return await side.api(f"CONSUMER.CREATE.{stream}.{name}", body, label=label or f"consumer {name} {config}")


async def ask(side: Side, verb: str, body: Body = None, *, label: str = "") -> dict[str, Any]:
    """A request to a CONSUMER endpoint."""
    return await side.api(f"CONSUMER.{verb}", body, label=label)


async def _play(side: Side, cases: dict[str, list[Step]]) -> None:
    """Every request of these cases, each case without consumers to begin with."""
    for name, config in STREAMS.items():
        await side.create(name, **config)
    for case, steps in cases.items():
        for number, step in enumerate(steps):
            await side.request(
                f"$JS.API.CONSUMER.{step.endpoint}", step.payload, raw_header=step.header, label=f"{number} {case}"
            )
        streams = {step.endpoint.removeprefix("DURABLE.").split(".")[1] for step in steps} & set(STREAMS)
        for stream in sorted(streams):
            listed = await side.wire.ask(f"$JS.API.CONSUMER.NAMES.{stream}")
            assert listed is not None
            left = dict.fromkeys([*json.loads(listed.payload)["consumers"], "c", "d", "e", "c0"])
            subjects = [f"$JS.API.CONSUMER.DELETE.{stream}.{name}" for name in left]
            await side.requests(subjects, label=f"delete the consumers of {stream} after {case}")


@scenario
async def consumer_table_of_fields(side: Side) -> None:
    """One configuration after another: its defaults, or what is wrong with it."""
    await _play(side, {case: steps for case, steps in TABLE.items() if len(steps) == 1})


@scenario
async def consumer_table_of_sequences(side: Side) -> None:
    """Updates, work queues, limits, names, and the other endpoints."""
    await _play(side, {case: steps for case, steps in TABLE.items() if len(steps) > 1})


@scenario
async def consumer_generated_names(side: Side) -> None:
    """Consumers without a name get one, which their configuration does not show."""
    await side.create("GEN", subjects=["gen.>"])
    for config in ({}, {"ack_policy": "all"}, {"inactive_threshold": 60 * SECOND}, {"deliver_subject": "gend"}):
        await side.api("CONSUMER.CREATE.GEN", {"stream_name": "GEN", "config": config})
    info = await side.api("CONSUMER.CREATE.GEN", {"stream_name": "GEN"}, label="one more")
    await side.api(f"CONSUMER.INFO.GEN.{info['name']}", label="info of the last")
    await side.api(f"CONSUMER.PAUSE.GEN.{info['name']}", {"pause_until": LATER}, label="pause the last")
    await side.api(f"CONSUMER.DELETE.GEN.{info['name']}", label="delete the last")
    await side.info("GEN", label="stream with four")


@scenario
async def consumer_direct(side: Side) -> None:
    """Consumers that other servers make for themselves are not listed."""
    await side.create("DIR", subjects=["dir.>"])
    await consumer(side, "d", "DIR", direct=True, deliver_subject="dird")
    await consumer(side, "e", "DIR", deliver_subject="dird")
    await ask(side, "INFO.DIR.d")
    await ask(side, "NAMES.DIR")
    await ask(side, "LIST.DIR")
    await consumer(side, "s", "DIR", sourcing=True, deliver_subject="dird")


@scenario
async def consumer_positions(side: Side) -> None:
    """Where each deliver policy begins, with and without filters, in a stream with messages and holes."""
    await side.create("POS", subjects=["pos.>"], max_msgs_per_subject=3)
    for subject in ("pos.a", "pos.b", "pos.a", "pos.c", "pos.a", "pos.b", "pos.a", "pos.a"):
        await side.publish(subject, subject)
    await side.api("STREAM.MSG.DELETE.POS", {"seq": 4})
    number = 0
    for policy in (
        {"deliver_policy": "all"},
        {"deliver_policy": "last"},
        {"deliver_policy": "new"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 3},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 99},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": LATER},
        {"deliver_policy": "last_per_subject", "filter_subject": "pos.>"},
        {"deliver_policy": "last_per_subject", "filter_subjects": ["pos.a", "pos.b"]},
        {"deliver_policy": "last_per_subject", "filter_subject": "pos.none"},
    ):
        filters: tuple[dict[str, Any], ...] = ({}, {"filter_subject": "pos.b"}, {"filter_subjects": ["pos.a", "pos.c"]})
        for config in tuple(policy | one for one in filters) if len(policy) == 1 else (policy,):
            number += 1
            await consumer(side, f"c{number}", "POS", **config)
            await ask(side, f"INFO.POS.c{number}")
    await side.publish("pos.b", "late")
    for one in range(1, number + 1):
        await ask(side, f"INFO.POS.c{one}", label=f"c{one} after one more message")
    await side.info("POS", label="stream with consumers")
    await ask(side, "LIST.POS")
    for one in range(2, number + 1):
        await ask(side, f"DELETE.POS.c{one}")
    await side.api("STREAM.PURGE.POS", {"filter": "pos.a"})
    await ask(side, "INFO.POS.c1", label="info after a purge")


@scenario
async def consumer_counts(side: Side) -> None:
    """Streams and the account count consumers; requests are counted, but not those that reset one."""
    await side.create("CNT", subjects=["cnt.>"])
    await side.create("CNT2", subjects=["cnt2.>"])
    before = await side.api("INFO", label="account before")
    for number in range(3):
        await consumer(side, f"c{number}", "CNT")
    await consumer(side, "c", "CNT2", mem_storage=True, durable_name="c")
    await ask(side, "RESET.CNT.c0")
    await ask(side, "RESET.CNT.c0", "x")
    await ask(side, "INFO.CNT.none")
    after = await side.api("INFO", label="account with consumers")
    counted = {name: after["api"][name] - before["api"][name] for name in ("total", "errors")}
    await side.api(f"STREAM.INFO.absent{counted['total']}x{counted['errors']}", label="how often asked, as a name")
    await side.info("CNT", label="stream with three")
    await side.api("STREAM.LIST", label="both streams")
    await side.update("CNT", subjects=["cnt.>"], description="x", label="update with three")
    await side.create("CNT", subjects=["cnt.>"], description="x", label="created again with three")
    await ask(side, "DELETE.CNT.c0")
    await side.info("CNT", label="stream with two")
    await side.api("STREAM.DELETE.CNT")
    await ask(side, "INFO.CNT.c1", label="consumer of a deleted stream")
    await side.create("CNT", subjects=["cnt.>"], label="the stream anew")
    await ask(side, "INFO.CNT.c1", label="consumer of a stream anew")
    await ask(side, "NAMES.CNT", label="names of a stream anew")
    await side.api("INFO", label="account after")


@scenario
async def consumer_deliver_subjects(side: Side) -> None:
    """A push consumer knows whether somebody listens, and changes its subject only while nobody does."""
    await side.create("DLV", subjects=["dlv.>"])
    side.hear("heard.p", "heard.q")
    await side.pause(0.3)
    await consumer(side, "p", "DLV", durable_name="p", deliver_subject="heard.p")
    await side.pause(0.3)
    await ask(side, "INFO.DLV.p", label="bound")
    await consumer(side, "p", "DLV", durable_name="p", deliver_subject="heard.q", label="another while bound")
    await consumer(side, "p", "DLV", durable_name="p", deliver_subject="heard.p", label="the same while bound")
    await consumer(side, "p", "DLV", durable_name="p", label="to pull")
    await consumer(side, "u", "DLV", durable_name="u", deliver_subject="unheard.p")
    await ask(side, "INFO.DLV.u", label="unbound")
    await consumer(side, "u", "DLV", durable_name="u", deliver_subject="unheard.q", label="another while unbound")
    side.hear("unheard.q")
    await side.pause(0.3)
    await ask(side, "INFO.DLV.u", label="bound now")
    await side.publish("dlv.1", "1")
    await side.pause(0.5)
    await ask(side, "INFO.DLV.p", label="after a message")
    await ask(side, "INFO.DLV.u", label="after a message, late")
    await ask(side, "DELETE.DLV.p")


@scenario
async def consumer_resets(side: Side) -> None:
    """Starting over, where the deliver policy allows it."""
    await side.create("RST", subjects=["rst.>"])
    await side.fill("rst.{}", 5)
    for policy in (
        {"deliver_policy": "all"},
        {"deliver_policy": "new"},
        {"deliver_policy": "last"},
        {"deliver_policy": "last_per_subject", "filter_subject": "rst.>"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 3},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": LATER},
    ):
        name = "".join(filter(str.isalnum, json.dumps(policy)))[-20:]
        await consumer(side, name, "RST", **policy, **EXPLICIT)
        for seq in (1, 2, 3, 4, 6, 9, 0):
            await ask(side, f"RESET.RST.{name}", {"seq": seq})
        await ask(side, f"INFO.RST.{name}", label=f"info {name}")
    await side.silent("$JS.API.CONSUMER.RESET.RST.none")
    await side.silent("$JS.API.CONSUMER.RESET.NONE.none")
    await side.silent("$JS.API.CONSUMER.RESET.RST")
    await side.silent("$JS.API.CONSUMER.INFO.RST")
    await side.silent("$JS.API.CONSUMER.DURABLE.CREATE.RST")


@scenario
async def consumer_pages(side: Side) -> None:
    """Lists come in pages of 256, names in pages of 1024."""
    await side.create("PAGE", subjects=["page.>"])
    for number in range(260):
        await consumer(
            side, f"c{number:03}", "PAGE", label=f"consumer {number}", mem_storage=True, durable_name=f"c{number:03}"
        )
    for body in (None, {"offset": 250}, {"offset": 256}, {"offset": 260}, {"offset": 1000}):
        await ask(side, "LIST.PAGE", body)
        await ask(side, "NAMES.PAGE", body)


def _table_at_random(part: int) -> Scenario:
    return lambda side: _play(side, dict(list(AT_RANDOM.items())[part::PARTS]))


SCENARIOS |= {f"consumer_table_at_random_{part}": _table_at_random(part) for part in range(PARTS)}
