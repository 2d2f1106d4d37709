"""A stream: its messages, and its consumers."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

from nats.js import api

from consumers.client import consumer_calls
from consumers.client.api_call import Api
from consumers.client.config import ConsumerInfo
from consumers.client.consumer import Consumer
from consumers.client.consumer_calls import CreateAction
from consumers.client.direct_get import batch_query, last_query, one_query
from consumers.client.direct_reader import DirectBatch, read_one
from consumers.client.errors import UsageError
from consumers.client.names import checked
from consumers.client.ordered_consumer import OrderedConsumer, OrderedOptions
from consumers.client.stored_message import StoredMessage, from_json

EVERYTHING = OrderedOptions()


class Stream:
    """A stream's handle, made by the context."""

    def __init__(self, calls: Api, info: api.StreamInfo) -> None:
        self._calls = calls
        self.name = checked(info.config.name or "", "stream")
        self.cached_info = info
        """The server's last report."""

    async def info(self, *, subjects_filter: str | None = None, deleted_details: bool = False) -> api.StreamInfo:
        """Ask for configuration and state; with ``subjects_filter``, also for messages by subject that matches."""
        body: dict[str, Any] = {"deleted_details": True} if deleted_details else {}
        if subjects_filter is not None:
            body["subjects_filter"] = subjects_filter
        subjects: dict[str, int] = {}
        while True:
            answer = await self._calls.call(f"STREAM.INFO.{self.name}", body)
            page = answer["state"].get("subjects") or {}
            subjects |= page
            if not page or len(subjects) >= answer.get("total", 0):
                break
            body["offset"] = len(subjects)
        answer["state"]["subjects"] = subjects if subjects_filter is not None else None
        self.cached_info = api.StreamInfo.from_response(answer)
        return self.cached_info

    async def purge(self, *, filter: str | None = None, seq: int | None = None, keep: int | None = None) -> int:  # noqa: A002  # the API's own word
        """Remove messages: all, or those that match, or those below ``seq``, or all but the last ``keep``.

        Returns the number of messages removed.
        """
        if seq is not None and keep is not None:
            raise UsageError("seq and keep exclude each other")
        fields = {"filter": filter, "seq": seq, "keep": keep}
        body = {name: value for name, value in fields.items() if value is not None}
        answer = await self._calls.call(f"STREAM.PURGE.{self.name}", body)
        return int(answer.get("purged", 0))

    async def delete_msg(self, seq: int, *, erase: bool = True) -> None:
        """Remove one message; ``erase`` also overwrites its content."""
        await self._calls.call(f"STREAM.MSG.DELETE.{self.name}", {"seq": seq} | ({} if erase else {"no_erase": True}))

    async def get_msg(  # the request's fields, by name
        self,
        seq: int | None = None,
        *,
        last_for: str | None = None,
        next_for: str | None = None,
        start_time: datetime | None = None,
        direct: bool | None = None,
        as_of: str | None = None,
    ) -> StoredMessage:
        """Read one message: the one at ``seq``, the last of a subject, or the next of it from ``seq`` or a time on.

        ``direct`` asks any server with a copy (Direct Get; raises NothingFound), otherwise the stream's leader (raises
        MessageNotFound), which has every acknowledged message; by default Direct Get if the stream allows it. Silt
        answers as of a past point: a sequence, a time, or an age such as ``15m``.
        """
        query = one_query(seq, last_for, next_for, start_time, as_of=as_of)
        if direct is None:
            direct = bool(self.cached_info.config.allow_direct)
        if direct:
            return await read_one(self._calls, self.name, query)
        answer = await self._calls.call_raw(f"STREAM.MSG.GET.{self.name}", query.body)
        return from_json(self.name, answer["message"])

    def get_batch(  # the request's fields, by name
        self,
        batch: int,
        *,
        seq: int | None = None,
        subject: str | None = None,
        start_time: datetime | None = None,
        max_bytes: int | None = None,
        as_of: str | None = None,
    ) -> DirectBatch:
        """Read up to ``batch`` messages from a sequence or time on, or from the first; all, or those of a filter.

        ``max_bytes`` ends the batch early; without, it is read in pages. Raises NothingFound if no message matches.
        Silt answers as of a past point: a sequence or a time (an age would be another point for each page).
        """
        query = batch_query(batch, seq=seq, subject=subject, start_time=start_time, max_bytes=max_bytes, as_of=as_of)
        return DirectBatch(self._calls, self.name, query)

    def get_last_msgs_for(
        self,
        subjects: Sequence[str],
        *,
        up_to_seq: int | None = None,
        up_to_time: datetime | None = None,
        as_of: str | None = None,
        batch: int | None = None,
        max_subjects: int | None = None,
    ) -> DirectBatch:
        """Read each subject's last message, by sequence, as of now, a sequence (inclusive) or a time (exclusive).

        All pages are one view of the stream. Raises TooManySubjects above 1024; Silt answers with up to
        ``max_subjects`` where a sequence or time is given, and as of any past point, ``as_of`` (but not an age).
        """
        query = last_query(
            subjects,
            up_to_seq=up_to_seq,
            up_to_time=up_to_time,
            as_of=as_of,
            batch=batch,
            max_subjects=max_subjects,
        )
        return DirectBatch(self._calls, self.name, query)

    async def get_consumer(self, name: str) -> Consumer:
        """Look up a consumer; raises ConsumerNotFound."""
        return Consumer(self._calls, self.name, name, await consumer_calls.info(self._calls, self.name, name))

    async def create_consumer(self, config: api.ConsumerConfig) -> Consumer:
        """Create a consumer; raises AlreadyExists if one of that name differs."""
        return await create_consumer(self._calls, self.name, config, CreateAction.CREATE)

    async def update_consumer(self, config: api.ConsumerConfig) -> Consumer:
        """Update a consumer's configuration; raises ConsumerNotFound."""
        return await create_consumer(self._calls, self.name, config, CreateAction.UPDATE)

    async def create_or_update_consumer(self, config: api.ConsumerConfig) -> Consumer:
        """Create a consumer, or update the one of that name."""
        return await create_consumer(self._calls, self.name, config, CreateAction.EITHER)

    async def delete_consumer(self, name: str) -> None:
        """Delete a consumer; raises ConsumerNotFound."""
        await consumer_calls.delete(self._calls, self.name, name)

    def list_consumers(self) -> AsyncIterator[ConsumerInfo]:
        """Yield all consumers with their state."""
        return consumer_calls.infos(self._calls, self.name)

    def consumer_names(self) -> AsyncIterator[str]:
        """Yield the names of all consumers."""
        return consumer_calls.names(self._calls, self.name)

    def ordered_consumer(self, options: OrderedOptions = EVERYTHING) -> OrderedConsumer:
        """Return an ordered consumer; nothing is created at the server before it is read."""
        return OrderedConsumer(self._calls, self.name, options)


async def create_consumer(calls: Api, stream: str, config: api.ConsumerConfig, action: CreateAction) -> Consumer:
    """Create or update a consumer; return its handle."""
    info = await consumer_calls.create(calls, stream, config, action)
    return Consumer(calls, stream, info.name, info)
