"""The consumers of a stream as a server tells of them, and how they are paused and put in their places."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import starmap
from typing import Any, Final

from api.moving.moved_config import Json
from consumers.client.api_call import Api
from consumers.client.errors import ConsumerNotFound
from delta_store.archive.archived import ArchivedConsumer

FOREVER: Final = "2200-01-01T00:00:00Z"
_PLACE: Final = ("consumer_seq", "stream_seq")


async def consumer_infos(api: Api, stream: str) -> list[Json]:
    """Return the information of a stream's consumers."""
    return [one async for one in api.pages(f"CONSUMER.LIST.{stream}", "consumers")]


def told_consumer(info: Mapping[str, Any]) -> ArchivedConsumer:
    """Return a consumer where its information says that it is, or at its ack floor where messages wait for acks."""
    floor = {key: info["ack_floor"].get(key, 0) for key in _PLACE}
    delivered = {key: info["delivered"].get(key, 0) for key in _PLACE}
    if waits(info):
        delivered = floor
    elif info["config"].get("ack_policy", "none") != "none":
        floor = delivered
    shown = {"config": info["config"], "state": {"delivered": delivered, "ack_floor": floor}}
    return ArchivedConsumer(info["name"], json.dumps(shown).encode())


async def pause(api: Api, stream: str, until: Mapping[str, str]) -> None:
    """Pause consumers until a time each; an empty one resumes. One that is gone by now is left out."""

    async def pause_one(name: str, time: str) -> None:
        with suppress(ConsumerNotFound):
            await api.call(f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": time} if time else None)

    await asyncio.gather(*starmap(pause_one, until.items()))


async def put(api: Api, stream: str, consumers: Iterable[ArchivedConsumer], pauses: Mapping[str, str]) -> int:
    """Put consumers in their places at Silt; ``pauses`` are those that they had. Returns their number."""
    calls = []
    for one in consumers:
        shown = json.loads(one.content)
        shown["config"].pop("pause_until", None)
        if until := pauses.get(one.name):
            shown["config"]["pause_until"] = until
        calls.append(api.call(f"CONSUMER.RESTORE.{stream}.{one.name}", shown))
    await asyncio.gather(*calls)
    return len(calls)


def waits(info: Mapping[str, Any]) -> bool:
    """Whether messages wait for their acks."""
    return bool(info.get("num_ack_pending"))
