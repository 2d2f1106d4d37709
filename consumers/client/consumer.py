"""A pull consumer: fetch, next, consume (ADR-37)."""

from datetime import datetime

from nats.js import api

from consumers.client import consumer_calls
from consumers.client.api_call import Api
from consumers.client.config import ConsumerInfo
from consumers.client.consumption import Callback, Consumption, OnWarning, log_warning
from consumers.client.fetch import Fetch
from consumers.client.message import Message
from consumers.client.names import checked
from consumers.client.pull import DEFAULT_EXPIRES, ConsumeOptions, fetch_pull
from consumers.client.pull_source import ConsumerSource

DEFAULTS = ConsumeOptions()


class Consumer:
    """A pull consumer, made by a stream or context; without ``info`` it may not exist."""

    def __init__(self, calls: Api, stream: str, name: str, info: ConsumerInfo | None = None) -> None:
        self._calls = calls
        self.stream = checked(stream, "stream")
        self.name = checked(name, "consumer")
        self.cached_info = info
        """The server's last report."""

    @property
    def _next_subject(self) -> str:
        return self._calls.subject(f"CONSUMER.MSG.NEXT.{self.stream}.{self.name}")

    async def info(self) -> ConsumerInfo:
        """Ask for the configuration and state now."""
        self.cached_info = await consumer_calls.info(self._calls, self.stream, self.name)
        return self.cached_info

    async def delete(self) -> None:
        """Delete the consumer at the server."""
        await consumer_calls.delete(self._calls, self.stream, self.name)

    async def pause(self, until: datetime) -> api.ConsumerPause:
        """Deliver nothing until ``until``."""
        return await consumer_calls.pause(self._calls, self.stream, self.name, until)

    async def resume(self) -> api.ConsumerPause:
        """End the pause."""
        return await consumer_calls.pause(self._calls, self.stream, self.name, None)

    def fetch(
        self,
        max_messages: int | None = None,
        *,
        max_bytes: int | None = None,
        expires: float = DEFAULT_EXPIRES,
        idle_heartbeat: float | None = None,
        no_wait: bool = False,
    ) -> Fetch:
        """Fetch up to so many messages or bytes within ``expires`` seconds; with ``no_wait``, those there are now.

        At least one limit is needed. The default asks for heartbeats when ``expires`` exceeds 30 s.
        """
        pull = fetch_pull(
            max_messages, max_bytes=max_bytes, expires=expires, idle_heartbeat=idle_heartbeat, no_wait=no_wait
        )
        return Fetch(self._calls, self._next_subject, pull)

    async def next(self, *, expires: float = DEFAULT_EXPIRES, idle_heartbeat: float | None = None) -> Message | None:
        """Fetch one message; None if none arrives within ``expires`` seconds."""
        messages = await self.fetch(1, expires=expires, idle_heartbeat=idle_heartbeat).all()
        return messages[0] if messages else None

    def consume(
        self,
        callback: Callback | None = None,
        *,
        options: ConsumeOptions = DEFAULTS,
        on_warning: OnWarning = log_warning,
    ) -> Consumption:
        """Consume all messages from now on, through a buffer that is kept filled; see :class:`Consumption`."""
        source = ConsumerSource(self._next_subject)
        return Consumption(self._calls, source, options.plan(), callback=callback, on_warning=on_warning)
