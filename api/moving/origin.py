"""The JetStream that streams come from."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, Self

from api.moving.consumer_positions import consumer_infos, told_consumer, waits
from api.moving.moved_config import moved_consumer
from api.moving.single_reading import read_singly
from api.moving.stream_reading import StreamReading, read_archive
from consumers.client.api_call import Api
from consumers.client.errors import MessageNotFound, NoResponders, StreamNotFound
from delta_store.archive.archived import ArchivedConsumer

ARCHIVE_LEVEL: Final = 5
"""API level of servers that back streams up entry by entry (ADR-63)."""


class NotMoved(RuntimeError):
    """What can't be done, and what can."""


class Origin:
    """A JetStream, with how its streams are read."""

    def __init__(self, api: Api, level: int) -> None:
        self.api = api
        self.level = level

    @classmethod
    async def at(cls, api: Api, address: str) -> Self:
        """Ask a server what it is. Raises :class:`NotMoved` where it has no JetStream."""
        try:
            answer = await api.call("INFO")
        except NoResponders:
            raise NotMoved(
                f"nobody answers {api.prefix} at {address}: give --domain if its JetStream has one, "
                "or --from-context with the login of its account"
            ) from None
        level: int = (answer.get("api") or {}).get("level", 0)
        return cls(api, level)

    async def names(self) -> list[str]:
        """Return the names of all streams."""
        return [name async for name in self.api.pages("STREAM.NAMES", "streams")]

    async def info(self, stream: str) -> Mapping[str, Any]:
        """Return a stream's information. Raises :class:`NotMoved` where there is none."""
        try:
            return await self.api.call(f"STREAM.INFO.{stream}")
        except StreamNotFound:
            raise NotMoved(
                f"there is no stream {stream!r} at the origin; "
                "nats stream ls there lists those that there are, --all takes them all"
            ) from None

    async def has_more(self, stream: str, seq: int) -> bool:
        """Return whether there is a message behind a sequence."""
        with suppress(MessageNotFound):
            await self.api.call(f"STREAM.MSG.GET.{stream}", {"seq": seq + 1, "next_by_subj": ">"})
            return True
        return False

    def read(self, stream: str, *, consumers: bool = True) -> AbstractAsyncContextManager[StreamReading]:
        """Begin to read a stream as it stands now."""
        read = read_archive if self.level >= ARCHIVE_LEVEL else read_singly
        return read(self.api, stream, consumers=consumers)

    async def positions(self, stream: str, *, last_seq: int) -> list[ArchivedConsumer]:
        """Return the consumers in a stream that ends with ``last_seq``.

        Which messages wait for their acks only a backup tells: before API level 5 all behind the ack floor are
        delivered again.
        """
        infos = await consumer_infos(self.api, stream)
        found = list(map(told_consumer, infos))
        if self.level >= ARCHIVE_LEVEL and any(map(waits, infos)):
            async with read_archive(self.api, stream, begin=True) as reading:
                found = list(reading.consumers)
        return list(filter(None, (moved_consumer(one, last_seq=last_seq) for one in found)))
