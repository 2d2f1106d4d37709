"""Direct Get over a connection: single messages, and batches as async iterators."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from nats.aio.msg import Msg

from consumers.client.api_call import Api, nats_errors
from consumers.client.direct_get import DirectPages, DirectQuery, EndOfBatch, refused
from consumers.client.errors import NoResponders, RequestTimeout, UsageError
from consumers.client.inbox import Inbox, Signal
from consumers.client.names import checked_subject
from consumers.client.stored_message import StoredMessage, from_direct, is_stored

NOT_SERVED = "nobody serves Direct Get for this stream: it does not exist, or allow_direct is off"


async def read_one(calls: Api, stream: str, query: DirectQuery) -> StoredMessage:
    """Read one message; raises NothingFound when none matches, NoResponders when the stream does not allow it.

    For the last message of a literal subject the request's subject ends with it, so that permissions can name it.
    """
    verb, body = f"DIRECT.GET.{stream}", query.body
    if query.as_of is None and query.last_by_subj is not None and not {"*", ">"} & set(query.last_by_subj.split(".")):
        verb, body = f"{verb}.{checked_subject(query.last_by_subj)}", b""
    try:
        with nats_errors("Direct Get"):
            reply = await calls.client.request(calls.subject(verb), body, timeout=calls.timeout)
    except NoResponders as error:
        raise NoResponders(NOT_SERVED) from error
    if reply.headers is not None and is_stored(reply.headers):
        return from_direct(reply.headers, reply.data)
    raise refused(reply.headers)


class DirectBatch:
    """An async iterator over the messages of a batch; ``async with`` ends it when the loop is left early."""

    def __init__(self, calls: Api, stream: str, query: DirectQuery) -> None:
        self._calls = calls
        self._subject = calls.subject(f"DIRECT.GET.{stream}")
        self._pages = DirectPages(query)
        self._page = 0
        self._replies: deque[Msg] = deque()
        self._arrived = Signal()
        self._inbox = Inbox(calls.client, self._receive)

    @property
    def end(self) -> EndOfBatch | None:
        """The server's report at the end; None before."""
        return self._pages.end

    async def all(self) -> list[StoredMessage]:
        """Read all messages."""
        return [message async for message in self]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inbox.close()

    async def __aiter__(self) -> AsyncIterator[StoredMessage]:
        if self._page:
            raise UsageError("a batch is for one iteration")
        try:
            await self._inbox.open()
            while self._pages.end is None:
                await self._ask()
                while isinstance(item := await self._next(), StoredMessage):
                    yield item
        finally:
            await self._inbox.close()

    async def _ask(self) -> None:
        self._page += 1
        with nats_errors("Direct Get"):
            body = self._pages.request.body
            await self._calls.client.publish(self._subject, body, reply=self._inbox.reply(self._page))

    async def _next(self) -> StoredMessage | EndOfBatch:
        deadline = asyncio.get_running_loop().time() + self._calls.timeout
        while not self._replies:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise RequestTimeout("Direct Get: a batch without its end")
            await self._arrived.wait(left)
        reply = self._replies.popleft()
        return self._pages.reply(reply.headers, reply.data)

    def _receive(self, number: int, raw: Msg) -> None:
        if number == self._page:
            self._replies.append(raw)
            self._arrived.set()
