"""A stream that was read elsewhere, stored by a server's restore: shown whole, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, NamedTuple

from api.moving.moved_config import moved_consumer
from api.moving.range_checksums import up_to
from api.moving.stream_reading import StreamReading
from consumers.client import backups
from consumers.client.api_call import Api
from consumers.client.errors import ApiError
from delta_store.archive import s2_frames
from delta_store.archive.archived import ArchivedConsumer
from delta_store.archive.entries import (
    CONSUMER_PREFIX,
    END,
    MAGIC,
    RESUME,
    RESUMED,
    STATE_NAME,
    ArchiveEntry,
    encode,
)
from delta_store.archive.message_entries import encode_run
from delta_store.dialect.json_writer import write_json
from delta_store.values.stream_message import MessageRun

_INVALID_JSON: Final = 10025
_QUIET_SECONDS: Final = 1.0
_CHUNK_BYTES: Final = 128 * 1024
_SPARE_BYTES: Final = 4 * 1024
"""Of a server's largest message, what is no payload."""


class Arrival(NamedTuple):
    """How a stream is to be stored."""

    config: dict[str, Any]
    word: str
    """By which a server that knows such words goes on, if an earlier try with the same one broke off."""
    seen: Callable[[MessageRun], None]
    """Is called with the stream's messages as they leave, or are there already."""


async def store(api: Api, reading: StreamReading, arrival: Arrival) -> tuple[dict[str, Any], int]:
    """Store a stream; return its information, and behind which sequence an earlier try was gone on with, 0 for none.

    Raises ``JetStreamError`` or :class:`BadArchive`: then nobody sees anything of it.
    """
    config = arrival.config
    last_seq = reading.state.last_seq
    consumers = list(filter(None, (moved_consumer(one, last_seq=last_seq) for one in reading.consumers)))
    first_seq, _, messages, _ = reading.state
    counts = {"messages": messages, "consumer_count": len(consumers)}
    state: dict[str, Any] = {"first_seq": first_seq, "last_seq": last_seq, **counts}
    most = min(_CHUNK_BYTES, api.client.max_payload - _SPARE_BYTES)
    begun = await _begun(api, {"config": config, "state": state}, arrival.word)
    there: int = begun.get(RESUMED, 0)
    parts = _cut(_archive(state, consumers, _behind(reading.runs, there, arrival.seen)), most)
    return await backups.send_archive(api, begun["deliver_subject"], parts), there


async def _begun(api: Api, meta: dict[str, Any], word: str) -> dict[str, Any]:
    """Ask to go on; a nats-server knows no such requests, and refuses their field."""
    try:
        return await backups.begin_restore(api, {**meta, RESUME: word})
    except ApiError as refused:
        if refused.err_code != _INVALID_JSON:
            raise
    return await backups.begin_restore(api, meta)


async def _behind(
    runs: AsyncIterator[MessageRun], there: int, seen: Callable[[MessageRun], None]
) -> AsyncIterator[MessageRun]:
    """Iterate over the messages behind a sequence; empty runs stand for those before."""
    async for run in runs:
        seen(run)
        yield run if not there or run.seqs[0] > there else run[up_to(run, there) :]


async def _archive(
    state: dict[str, Any],
    consumers: Iterable[ArchivedConsumer],
    runs: AsyncIterator[MessageRun],
) -> AsyncIterator[bytes]:
    entries = [ArchiveEntry(STATE_NAME, 0, 0, b"", write_json(state))]
    entries += [ArchiveEntry(CONSUMER_PREFIX + one.name, 0, 0, b"", one.content) for one in consumers]
    yield s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, entries)))
    async for run in runs:
        yield s2_frames.encode(encode_run(run)) if len(run) else s2_frames.PADDING
    yield s2_frames.encode(encode(END))


async def _cut(parts: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Cut an archive into chunks of at most one size, and smaller ones before a server takes silence for the end."""
    held, loop = bytearray(), asyncio.get_running_loop()
    sent = loop.time()
    async for part in parts:
        held += part
        while len(held) >= size or (held and loop.time() - sent > _QUIET_SECONDS):
            yield bytes(held[:size])
            del held[:size]
            sent = loop.time()
    if held:
        yield bytes(held)
