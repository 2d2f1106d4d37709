"""A fetch: the IO of one pull, around :mod:`consumers.client.fetch_state`."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from nats.aio.msg import Msg

from consumers.client.api_call import Api, nats_errors
from consumers.client.connection import LOOK_SECONDS, ConnectionState, ConnectionWatch
from consumers.client.delivery import ACK_PREFIX
from consumers.client.errors import ConnectionLost, JetStreamError, UsageError
from consumers.client.fetch_state import FetchEnd, FetchState
from consumers.client.inbox import Inbox, Signal
from consumers.client.message import Message
from consumers.client.pull import Pull
from consumers.client.pull_status import read_status


class Fetch:
    """An async iterator over the messages of one pull, which is sent when iteration begins.

    ``async with`` ends the pull at once when the loop is left early. An error of the pull is raised after the messages
    that arrived before it.
    """

    def __init__(self, api: Api, next_subject: str, pull: Pull) -> None:
        self._client = api.client
        self._subject = next_subject
        self._pull = pull
        self._state: FetchState | None = None
        self._buffer: deque[Message] = deque()
        self._arrived = Signal()
        self._inbox = Inbox(api.client, self._receive)

    @property
    def end(self) -> FetchEnd | None:
        """The reason why the fetch is over; None before."""
        return self._state.end if self._state else None

    async def all(self) -> list[Message]:
        """Fetch all messages up to the end."""
        return [message async for message in self]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inbox.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        if self._state is not None:
            raise UsageError("a fetch is for one iteration")
        clock = asyncio.get_running_loop().time
        state = self._state = FetchState(self._pull, clock())
        watch = ConnectionWatch(self._client)
        try:
            await self._inbox.open()
            with nats_errors("fetch"):
                await self._client.publish(self._subject, self._pull.body, reply=self._inbox.reply(self._pull.number))
            while state.end is None or self._buffer:
                while self._buffer:
                    yield self._buffer.popleft()
                if state.end is None:
                    await self._arrived.wait(min(LOOK_SECONDS, state.next_look(clock())))
                    state.tick(clock())
                    self._look(state, watch)
            self._raise(state.error)
        finally:
            await self._inbox.close()

    def _look(self, state: FetchState, watch: ConnectionWatch) -> None:
        link = watch.look()
        if link in {ConnectionState.DOWN, ConnectionState.RENEWED, ConnectionState.CLOSED}:
            state.fail(ConnectionLost("the connection was lost during a fetch"))

    @staticmethod
    def _raise(error: JetStreamError | None) -> None:
        if error is not None:
            raise error

    def _receive(self, number: int, raw: Msg) -> None:
        assert self._state is not None
        now = asyncio.get_running_loop().time()
        if raw.reply.startswith(ACK_PREFIX):
            self._buffer.append(Message(self._client, raw))
            self._state.received(now)
        elif number == self._pull.number:
            self._state.status(read_status(raw.headers), now)
        self._arrived.set()
