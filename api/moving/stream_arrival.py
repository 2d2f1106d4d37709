"""A stream that was read elsewhere, stored by a server's restore: shown whole, or not at all."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final

from api.moving.moved_config import moved_consumer
from api.moving.stream_reading import StreamReading
from consumers.client import backups
from consumers.client.api_call import Api
from delta_store.archive import s2_frames
from delta_store.archive.archived import ArchivedConsumer
from delta_store.archive.entries import CONSUMER_PREFIX, END, MAGIC, STATE_NAME, ArchiveEntry, encode
from delta_store.archive.message_entries import encode_run
from delta_store.dialect.json_writer import write_json
from delta_store.values.stream_message import MessageRun

_CHUNK_BYTES: Final = 128 * 1024
_SPARE_BYTES: Final = 4 * 1024
"""Of a server's largest message, what is no payload."""


async def store(
    api: Api, reading: StreamReading, config: dict[str, Any], *, seen: Callable[[MessageRun], None]
) -> dict[str, Any]:
    """Store a stream by this configuration, return its information; ``seen`` is called with its messages as they leave.

    Raises ``JetStreamError`` or :class:`BadArchive`: then nothing of it is there.
    """
    last_seq = reading.state.last_seq
    consumers = list(filter(None, (moved_consumer(one, last_seq=last_seq) for one in reading.consumers)))
    first_seq, _, messages, _ = reading.state
    counts = {"messages": messages, "consumer_count": len(consumers)}
    state: dict[str, Any] = {"first_seq": first_seq, "last_seq": last_seq, **counts}
    most = min(_CHUNK_BYTES, api.client.max_payload - _SPARE_BYTES)
    parts = _cut(_archive(state, consumers, reading.runs, seen), most)
    return await backups.restore(api, {"config": config, "state": state}, parts)


async def _archive(
    state: dict[str, Any],
    consumers: Iterable[ArchivedConsumer],
    runs: AsyncIterator[MessageRun],
    seen: Callable[[MessageRun], None],
) -> AsyncIterator[bytes]:
    entries = [ArchiveEntry(STATE_NAME, 0, 0, b"", write_json(state))]
    entries += [ArchiveEntry(CONSUMER_PREFIX + one.name, 0, 0, b"", one.content) for one in consumers]
    yield s2_frames.BEGIN + s2_frames.encode(MAGIC + b"".join(map(encode, entries)))
    async for run in runs:
        yield s2_frames.encode(encode_run(run))
        seen(run)
    yield s2_frames.encode(encode(END))


async def _cut(parts: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Cut an archive into chunks of at most one size."""
    held = bytearray()
    async for part in parts:
        held += part
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)
