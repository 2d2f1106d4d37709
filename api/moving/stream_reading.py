"""A whole stream read from a server, as it stands at one moment: state, consumers, messages in order."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from consumers.client import backups
from consumers.client.api_call import Api
from delta_store.archive.archive_checker import ArchiveChecker
from delta_store.archive.archived import ArchivedConsumer, ArchivedState, Item
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun
from delta_store.values import subjects
from delta_store.values.stream_message import MessageRun

_MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
_SMALL: Final = {"chunk_size": 16 * 1024, "window_size": 32 * 1024}
"""What a server sends before its first ack: little, where no more is wanted."""
_SEQUENCE_MAX: Final = (1 << 64) - 1


class StreamReading(NamedTuple):
    """A stream on its way."""

    config: dict[str, Any]
    state: ArchivedState
    consumers: tuple[ArchivedConsumer, ...]
    runs: AsyncIterator[MessageRun]
    """To be read once; ends when the stream is whole."""


@asynccontextmanager
async def read_archive(
    api: Api, stream: str, *, consumers: bool = True, begin: bool = False
) -> AsyncIterator[StreamReading]:
    """Read a stream by its backup (API level 5), or only its ``begin``, which has state and consumers.

    Raises ``JetStreamError`` or :class:`BadArchive`.
    """
    request = ({} if consumers else {"no_consumers": True}) | (_SMALL if begin else {})
    async with backups.backup(api, stream, request) as taken:
        items = _items(stream, taken.chunks)
        state, found, first = None, [], None
        async for item in items:
            if isinstance(item, ArchivedState):
                state = item
            elif isinstance(item, ArchivedConsumer):
                found.append(item)
            elif isinstance(item, EntryRun):
                first = item
                break
        if state is None:
            raise BadArchive("the backup has no state")
        yield StreamReading(taken.config, state, tuple(found), _runs(first, items))


async def _items(stream: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[Item]:
    checker = ArchiveChecker(
        stream,
        message_bytes_max=_MESSAGE_BYTES_MAX,
        sequence_max=_SEQUENCE_MAX,
        valid_subject=subjects.literal,
    )
    async for chunk in chunks:
        for item in checker.feed(chunk):
            if checker.is_tar:
                raise BadArchive("the backup is that of a nats-server before 2.15")
            yield item
    if not checker.ended:
        raise BadArchive("the backup ended early")


async def _runs(first: EntryRun | None, items: AsyncIterator[Item]) -> AsyncIterator[MessageRun]:
    if first is not None:
        yield first.as_messages()
    async for item in items:
        if isinstance(item, EntryRun):
            yield item.as_messages()
