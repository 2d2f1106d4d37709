"""The entry point: streams, and consumers by the names of stream and consumer (ADR-37)."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from nats.aio.client import Client
from nats.js import api

from consumers.client import consumer_calls
from consumers.client.api_call import DEFAULT_PREFIX, DEFAULT_TIMEOUT, Api
from consumers.client.consumer import Consumer
from consumers.client.consumer_calls import CreateAction
from consumers.client.errors import UsageError
from consumers.client.names import checked
from consumers.client.stream import Stream, create_consumer


class JetStreamContext:
    """JetStream over a connected nats-py client, which the caller closes.

    ``domain`` selects the JetStream of that domain, ``prefix`` one imported under other subjects; ``timeout`` is that
    of a request, in seconds.
    """

    def __init__(
        self,
        client: Client,
        *,
        prefix: str = DEFAULT_PREFIX,
        domain: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if domain is not None:
            if prefix != DEFAULT_PREFIX:
                raise UsageError("prefix and domain exclude each other")
            prefix = f"$JS.{checked(domain, 'domain')}.API"
        self._calls = Api(client, prefix=prefix, timeout=timeout)

    async def ask(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask an endpoint of the server that has no method here; ``verb`` is its subject behind the prefix."""
        return await self._calls.call(verb, body)

    async def account_info(self) -> api.AccountInfo:
        """Ask for the account's usage and limits."""
        info: api.AccountInfo = api.AccountInfo.from_response(await self._calls.call("INFO"))
        return info

    async def add_stream(self, config: api.StreamConfig) -> Stream:
        """Create a stream, or return the one with this name and configuration; raises AlreadyExists if it differs."""
        return await self._put_stream("CREATE", config)

    async def update_stream(self, config: api.StreamConfig) -> Stream:
        """Update a stream's configuration; raises StreamNotFound."""
        return await self._put_stream("UPDATE", config)

    async def get_stream(self, name: str) -> Stream:
        """Look up a stream; raises StreamNotFound."""
        answer = await self._calls.call(f"STREAM.INFO.{checked(name, 'stream')}")
        return Stream(self._calls, api.StreamInfo.from_response(answer))

    async def delete_stream(self, name: str) -> None:
        """Delete a stream with its messages and consumers; raises StreamNotFound."""
        await self._calls.call(f"STREAM.DELETE.{checked(name, 'stream')}")

    async def list_streams(self, *, subject: str | None = None) -> AsyncIterator[api.StreamInfo]:
        """Yield all streams with their state, or those with subjects that match a filter."""
        async for item in self._calls.pages("STREAM.LIST", "streams", _filter(subject)):
            yield api.StreamInfo.from_response(item)

    async def stream_names(self, *, subject: str | None = None) -> AsyncIterator[str]:
        """Yield the names of all streams, or of those with subjects that match a filter."""
        async for name in self._calls.pages("STREAM.NAMES", "streams", _filter(subject)):
            yield name

    async def get_consumer(self, stream: str, name: str) -> Consumer:
        """Look up a consumer; raises StreamNotFound, ConsumerNotFound."""
        return Consumer(self._calls, stream, name, await consumer_calls.info(self._calls, stream, name))

    async def create_consumer(self, stream: str, config: api.ConsumerConfig) -> Consumer:
        """Create a consumer; raises AlreadyExists if one of that name differs."""
        return await create_consumer(self._calls, stream, config, CreateAction.CREATE)

    async def update_consumer(self, stream: str, config: api.ConsumerConfig) -> Consumer:
        """Update a consumer's configuration; raises ConsumerNotFound."""
        return await create_consumer(self._calls, stream, config, CreateAction.UPDATE)

    async def create_or_update_consumer(self, stream: str, config: api.ConsumerConfig) -> Consumer:
        """Create a consumer, or update the one of that name."""
        return await create_consumer(self._calls, stream, config, CreateAction.EITHER)

    async def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer; raises ConsumerNotFound."""
        await consumer_calls.delete(self._calls, stream, name)

    async def _put_stream(self, verb: str, config: api.StreamConfig) -> Stream:
        name = checked(config.name or "", "stream")
        answer = await self._calls.call(f"STREAM.{verb}.{name}", config.as_dict())
        return Stream(self._calls, api.StreamInfo.from_response(answer))


def _filter(subject: str | None) -> dict[str, str]:
    return {"subject": subject} if subject is not None else {}
