"""A whole stream read message by message, from servers that do not back it up entry by entry.

A window of sequences is walked by several readers at once, each through its part from one message to the next, so that
gaps cost nothing. Headers come byte for byte, and streams of any retention are read without a consumer.
"""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from api.moving.consumer_positions import consumer_infos, told_consumer
from api.moving.stream_reading import StreamReading
from consumers.client.api_call import Api
from consumers.client.errors import MessageNotFound
from consumers.client.stored_message import read_time
from delta_store.archive.archived import ArchivedState
from delta_store.values.stream_message import MessageRun, StreamMessage

_READERS: Final = 32
_PART: Final = 64
"""Sequences that one reader walks through."""


@asynccontextmanager
async def read_singly(api: Api, stream: str, *, consumers: bool = True) -> AsyncIterator[StreamReading]:
    """Read a stream up to the message that is its last one now. Raises ``JetStreamError``."""
    info = await api.call(f"STREAM.INFO.{stream}")
    told = info["state"]
    infos = await consumer_infos(api, stream) if consumers else []
    first, last = told["first_seq"], told["last_seq"]
    state = ArchivedState(first, last, told["messages"], len(infos))
    yield StreamReading(info["config"], state, tuple(map(told_consumer, infos)), _runs(api, stream, first, last))


async def _runs(api: Api, stream: str, first: int, last: int) -> AsyncIterator[MessageRun]:
    start = max(1, first)
    while start <= last:
        ends = [min(start + _PART * (place + 1), last + 1) for place in range(_READERS)]
        starts = [start, *ends[:-1]]
        walks = await asyncio.gather(
            *(_walk(api, stream, begin, end) for begin, end in zip(starts, ends, strict=True) if begin < end)
        )
        found = [message for messages, _ in walks for message in messages]
        if found:
            yield MessageRun.of(found)
        start = walks[-1][1]


async def _walk(api: Api, stream: str, start: int, end: int) -> tuple[list[StreamMessage], int]:
    """Return the messages from ``start`` on, below ``end``, and where the next one is."""
    found: list[StreamMessage] = []
    while start < end:
        try:
            answer = await api.call(f"STREAM.MSG.GET.{stream}", {"seq": start, "next_by_subj": ">"})
        except MessageNotFound:
            return found, 1 << 63
        message = _message(answer["message"])
        start = message.seq + 1
        if message.seq >= end:
            return found, message.seq
        found.append(message)
    return found, start


def _message(shown: dict[str, Any]) -> StreamMessage:
    headers, data = (base64.b64decode(shown.get(part) or "") for part in ("hdrs", "data"))
    return StreamMessage(shown["subject"], shown["seq"], read_time(shown["time"]), headers or None, data)
