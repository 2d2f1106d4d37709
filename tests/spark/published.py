"""Streams of any server that speaks JetStream, made and read by nats-py."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import nats
from nats.aio.client import Client
from nats.js import JetStreamContext

T = TypeVar("T")


def _asked(url: str, ask: Callable[[Client, JetStreamContext], Awaitable[T]]) -> T:
    async def main() -> T:
        client = await nats.connect(url)
        try:
            return await ask(client, client.jetstream())
        finally:
            await client.close()

    return asyncio.run(main())


def create_stream(url: str, name: str, subjects: list[str], **config: Any) -> None:
    """Create a stream."""

    async def ask(_: Client, js: JetStreamContext) -> None:
        await js.add_stream(name=name, subjects=subjects, **config)

    _asked(url, ask)


def stored(url: str, name: str) -> list[tuple[str, bytes]]:
    """Subject and payload of each message of a stream, in order."""

    async def ask(_: Client, js: JetStreamContext) -> list[tuple[str, bytes]]:
        number = (await js.stream_info(name)).state.messages
        if not number:
            return []
        reader = await js.subscribe(">", stream=name, ordered_consumer=True)
        return [(message.subject, message.data) for message in [await reader.next_msg(20) for _ in range(number)]]

    return _asked(url, ask)
