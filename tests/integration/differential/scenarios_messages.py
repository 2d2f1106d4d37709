"""Scenarios of STREAM.MSG.GET, STREAM.MSG.DELETE and STREAM.PURGE."""

from typing import Any

from tests.integration.differential.side import Body, Side, scenario


async def _filled(side: Side, name: str, **config: Any) -> str:
    """A stream with ten messages over four subjects, the fifth with headers; gives its subject prefix."""
    prefix = name.lower()
    await side.create(name, subjects=[f"{prefix}.>"], **config)
    for number in range(1, 11):
        headers = [("K", "v"), ("Nats-Msg-Id", "five")] if number == 5 else []
        await side.publish(f"{prefix}.{number % 4}", f"m{number}", headers=headers)
    return prefix


@scenario
async def message_get(side: Side) -> None:
    """STREAM.MSG.GET by sequence, by subject and by time, good and bad."""
    await _filled(side, "MG")
    get = "STREAM.MSG.GET.MG"
    await side.api("STREAM.MSG.DELETE.MG", {"seq": 4})
    third = await side.api(get, {"seq": 3})
    await side.publish("mg.empty", "")
    for body in (
        {"seq": 5},
        {"seq": 5, "no_hdr": True},
        {"seq": 11},
        {"seq": 4},
        {"seq": 0},
        {"seq": 99},
        {"seq": -1},
        {"seq": "1"},
        {"last_by_subj": "mg.1"},
        {"last_by_subj": "mg.*"},
        {"last_by_subj": "mg.>"},
        {"last_by_subj": "nothing"},
        {"last_by_subj": ""},
        {"last_by_subj": "mg..x"},
        {"next_by_subj": "mg.2"},
        {"next_by_subj": "mg.2", "seq": 3},
        {"next_by_subj": "mg.2", "seq": 10},
        {"next_by_subj": "mg.2", "seq": 99},
        {"next_by_subj": "mg.*", "seq": 4},
        {"next_by_subj": "none"},
        {"seq": 3, "last_by_subj": "mg.1"},
        {"next_by_subj": "mg.1", "last_by_subj": "mg.1"},
        {"batch": 3, "seq": 1},
        {"max_bytes": 300, "seq": 1},
        {"multi_last": ["mg.1"]},
        {"multi_last": ["mg.1"], "seq": 3},
        {"up_to_seq": 4, "seq": 3},
        {"start_time": "2001-01-01T00:00:00Z"},
        {"start_time": "2001-01-01T00:00:00Z", "seq": 3},
        {"start_time": "2001-01-01T00:00:00Z", "last_by_subj": "mg.1"},
        {"start_time": "2001-01-01T00:00:00Z", "next_by_subj": "mg.3"},
        {"start_time": "2201-01-01T00:00:00Z"},
        {"start_time": "yesterday"},
        {"nonsense": 1, "seq": 1},
        {},
        None,
        "{",
        "[]",
        "null",
        "7",
    ):
        await side.api(get, body)
    at_three = third["message"]["time"]
    await side.api(get, {"start_time": at_three}, label="msg get from the third's time")
    await side.api(get, {"start_time": at_three, "next_by_subj": "mg.1"}, label="msg get next from the third's time")
    await side.api("STREAM.MSG.GET.NOSUCH", {"seq": 1})
    await side.api("STREAM.MSG.GET.NOSUCH")


@scenario
async def message_get_empty(side: Side) -> None:
    """STREAM.MSG.GET on a stream without messages."""
    await side.create("NIL", subjects=["nil"])
    await side.api("STREAM.MSG.GET.NIL", {"seq": 1})
    await side.api("STREAM.MSG.GET.NIL", {"last_by_subj": "nil"})
    await side.api("STREAM.MSG.GET.NIL", {"last_by_subj": ">"})
    await side.api("STREAM.MSG.GET.NIL", {"start_time": "2001-01-01T00:00:00Z"})
    await side.api("STREAM.PURGE.NIL")
    await side.info("NIL")


@scenario
async def message_delete(side: Side) -> None:
    """STREAM.MSG.DELETE at the front, in the middle, at the end, twice; what the state says each time."""
    await _filled(side, "MD", allow_direct=True)
    delete = "STREAM.MSG.DELETE.MD"
    for body in ({"seq": 5}, {"seq": 5}, {"seq": 1}, {"seq": 2, "no_erase": True}, {"seq": 10}, {"seq": 7}):
        await side.api(delete, body)
        await side.info("MD", {"deleted_details": True}, label=f"info after {body}")
    refused: tuple[Body, ...] = (
        {"seq": 0},
        {"seq": 99},
        {"seq": -1},
        {"seq": "1"},
        {"no_erase": True},
        {"nonsense": 1},
        {},
        None,
        "{",
        "null",
    )
    for wrong in refused:
        await side.api(delete, wrong)
    await side.get("MD", {"seq": 5})
    await side.batch("MD", {"seq": 1, "batch": 20})
    for seq in (3, 4, 6, 8, 9):
        await side.api(delete, {"seq": seq})
    await side.info("MD", {"subjects_filter": ">", "deleted_details": True}, label="info when all are deleted")
    await side.publish("md.x", "goes on")
    await side.info("MD", {"deleted_details": True}, label="info after one more")
    await side.api("STREAM.MSG.DELETE.NOSUCH", {"seq": 1})
    await side.api("STREAM.MSG.DELETE.NOSUCH")
    for storage in ("file", "memory"):
        await side.create("NEW", subjects=["new"], storage=storage)
        for seq in (0, 1):
            await side.api("STREAM.MSG.DELETE.NEW", {"seq": seq}, label=f"{seq} of nothing in {storage}")
        await side.api("STREAM.DELETE.NEW", label=f"delete the one in {storage}")


@scenario
async def purge_all(side: Side) -> None:
    """A purge without conditions, and of what is already empty."""
    await _filled(side, "PA", allow_direct=True)
    await side.api("STREAM.PURGE.PA")
    await side.info("PA", {"subjects_filter": ">"})
    await side.api("STREAM.PURGE.PA", "{}")
    await side.publish("pa.1", "goes on")
    await side.info("PA", label="info after one more")
    await side.get("PA", {"seq": 11})
    await side.get("PA", {"seq": 3})
    await side.api("STREAM.PURGE.NOSUCH")
    await side.api("STREAM.PURGE.PA", "{")
    await side.api("STREAM.PURGE.PA", {"nonsense": 1})
    await side.api("STREAM.PURGE.PA", {"seq": "x"})
    await side.api("STREAM.PURGE.PA", {"seq": 5, "keep": 2})
    await side.api("STREAM.PURGE.PA", {"keep": -1})


@scenario
async def purge_parts(side: Side) -> None:
    """Purges by sequence, by number kept and by subject, each on fresh messages."""
    bodies: tuple[dict[str, Any], ...] = (
        {"seq": 4},
        {"seq": 1},
        {"seq": 0},
        {"seq": 10},
        {"seq": 11},
        {"seq": 99},
        {"keep": 3},
        {"keep": 0},
        {"keep": 10},
        {"keep": 99},
        {"filter": "{}.1"},
        {"filter": "{}.*"},
        {"filter": ">"},
        {"filter": "none"},
        {"filter": ""},
        {"filter": "{}..x"},
        {"filter": "{}.1", "seq": 6},
        {"filter": "{}.1", "keep": 1},
        {"filter": "{}.1", "keep": 9},
        {"filter": "{}.*", "seq": 5},
        {"filter": "{}.>", "keep": 2},
        {"filter": "none", "keep": 2},
    )
    for number, body in enumerate(bodies):
        name = f"PP{number}"
        prefix = await _filled(side, name)
        if "filter" in body:
            body["filter"] = body["filter"].format(prefix)
        await side.api(f"STREAM.PURGE.{name}", body)
        await side.info(name, {"subjects_filter": ">", "deleted_details": True})


@scenario
async def purge_after_holes(side: Side) -> None:
    """Purges that meet deleted messages, and the last message."""
    await _filled(side, "PH", allow_direct=True)
    for seq in (2, 3, 6, 10):
        await side.api("STREAM.MSG.DELETE.PH", {"seq": seq})
    await side.api("STREAM.PURGE.PH", {"seq": 4})
    await side.info("PH", {"deleted_details": True}, label="info after purge below 4")
    await side.api("STREAM.PURGE.PH", {"keep": 3})
    await side.info("PH", {"deleted_details": True}, label="info after keep 3")
    await side.api("STREAM.PURGE.PH", {"filter": "ph.1"})
    await side.info("PH", {"deleted_details": True}, label="info after ph.1")
    await side.batch("PH", {"seq": 1, "batch": 20})
    await side.api("STREAM.PURGE.PH")
    await side.info("PH", {"deleted_details": True}, label="info after all")
    await side.publish("ph.1", "goes on", headers=[("Nats-Expected-Last-Sequence", "10")])
