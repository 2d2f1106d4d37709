"""Backups and restores of whole streams, by nats-server's protocol of chunks (ADR-63): with it or with Silt."""

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from consumers.client.api_call import Api, nats_errors
from consumers.client.errors import JetStreamError, TransferFailed, api_error
from consumers.client.pull_status import read_status

SILENCE_SECONDS: Final = 15.0
"""How long a chunk, or its ack, is waited for: servers give up after five seconds."""
_DONE_SECONDS: Final = 600.0
"""How long a server may take to show what it has been sent."""
_WINDOW: Final = 16
"""Chunks that are sent before their acks."""
_DONE: Final = 204


@dataclass(frozen=True, slots=True)
class Backup:
    """A stream on its way from a server."""

    config: dict[str, Any]
    state: dict[str, Any]
    chunks: AsyncIterator[bytes]
    """The archive; ends when it is whole. Raises :class:`TransferFailed`."""
    told: Mapping[str, Any]
    """All that the server told when it began."""


@asynccontextmanager
async def backup(api: Api, stream: str, request: Mapping[str, Any]) -> AsyncIterator[Backup]:
    """Begin a backup; ``request`` has the fields of ``STREAM.SNAPSHOT`` beside ``deliver_subject``."""
    inbox = api.client.new_inbox()
    with nats_errors("STREAM.SNAPSHOT"):
        subscription = await api.client.subscribe(inbox)
    try:
        begun = await api.call(f"STREAM.SNAPSHOT.{stream}", {**request, "deliver_subject": inbox})
        yield Backup(begun["config"], begun["state"], _received(api.client, subscription), begun)
    finally:
        with nats_errors("STREAM.SNAPSHOT"):
            await subscription.unsubscribe()


async def _received(client: Client, subscription: Subscription) -> AsyncIterator[bytes]:
    while True:
        chunk = await _next(subscription)
        status = read_status(chunk.headers)
        if status.code not in (0, _DONE):
            raise TransferFailed(f"the backup ended early: {status.code} {status.description}".rstrip())
        if not chunk.data:
            return
        yield chunk.data
        if chunk.reply:
            with nats_errors("the ack of a chunk"):
                await client.publish(chunk.reply)


async def restore(api: Api, meta: Mapping[str, Any], chunks: AsyncIterable[bytes]) -> dict[str, Any]:
    """Send an archive; return the restored stream's information.

    ``meta`` has the ``config`` and ``state`` that :class:`Backup` tells. Raises ApiError, of which nothing is left.
    """
    begun = await begin_restore(api, meta)
    return await send_archive(api, begun["deliver_subject"], chunks)


async def begin_restore(api: Api, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Ask a server to take a stream in; return its reply, which names the subject for :func:`send_archive`."""
    return await api.call(f"STREAM.RESTORE.{meta['config']['name']}", meta)


async def send_archive(api: Api, subject: str, chunks: AsyncIterable[bytes]) -> dict[str, Any]:
    """Send the archive of a restore that has begun; return the stream's information. Raises as :func:`restore`."""
    client = api.client
    inbox = client.new_inbox()
    with nats_errors("STREAM.RESTORE"):
        subscription = await client.subscribe(inbox)
    try:
        waiting = 0
        async for chunk in chunks:
            if waiting == _WINDOW:
                _check(await _next(subscription))
                waiting -= 1
            with nats_errors("a chunk"):
                await client.publish(subject, chunk, reply=inbox)
            waiting += 1
        for _ in range(waiting):
            _check(await _next(subscription))
        with nats_errors("the end of the restore"):
            done = await client.request(subject, b"", timeout=_DONE_SECONDS)
        return _check(done)
    except TransferFailed:
        # An archive that ends early is refused: the server need not wait for the rest.
        with suppress(JetStreamError), nats_errors("the end of the restore"):
            await client.request(subject, b"", timeout=SILENCE_SECONDS)
        raise
    finally:
        with nats_errors("STREAM.RESTORE"):
            await subscription.unsubscribe()


async def _next(subscription: Subscription) -> Msg:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await subscription.next_msg(timeout=None)
    except TimeoutError:
        raise TransferFailed(f"nothing came for {SILENCE_SECONDS:.0f} seconds") from None


def _check(reply: Msg) -> dict[str, Any]:
    """Return what a reply says. Raises ApiError where it refuses."""
    said: dict[str, Any] = json.loads(reply.data) if reply.data else {}
    if refused := said.get("error"):
        raise api_error(refused.get("code", 0), refused.get("err_code", 0), refused.get("description", ""))
    return said
