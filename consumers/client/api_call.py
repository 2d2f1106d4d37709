"""Requests of ``$JS.API`` over a nats-py connection, in JSON; errors as :mod:`consumers.client.errors`."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import nats.errors
from nats.aio.client import Client

from consumers.client.errors import (
    ConnectionLost,
    NoResponders,
    RequestTimeout,
    UnreadableAnswer,
    UsageError,
    api_error,
)

DEFAULT_PREFIX = "$JS.API"
DEFAULT_TIMEOUT = 5.0
_LOST = (
    nats.errors.ConnectionClosedError,
    nats.errors.ConnectionDrainingError,
    nats.errors.ConnectionReconnectingError,
    nats.errors.OutboundBufferLimitError,
    nats.errors.StaleConnectionError,
)


@contextmanager
def nats_errors(what: str) -> Iterator[None]:
    """Turn nats-py's errors into this package's; ``what`` names the request in their text.

    A cancellation lost in the block is raised at its end: nats-py waits by ``asyncio.wait_for``, which in Python 3.11
    loses one that arrives together with the answer.
    """
    task = asyncio.current_task()
    cancelling = task.cancelling() if task else 0
    try:
        yield
    except nats.errors.NoRespondersError as error:
        raise NoResponders(f"{what}: nobody serves it") from error
    except TimeoutError as error:
        raise RequestTimeout(f"{what}: no answer in time") from error
    except (*_LOST, OSError) as error:
        raise ConnectionLost(f"{what}: {error}") from error
    except nats.errors.Error as error:
        raise UsageError(f"{what}: {error}") from error
    if task and task.cancelling() > cancelling:
        raise asyncio.CancelledError


class Api:
    """A connection with the API's subject prefix and the timeout of a request, in seconds."""

    def __init__(self, client: Client, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.client = client
        self.prefix = prefix
        self.timeout = timeout

    def subject(self, verb: str) -> str:
        """Return the subject of ``verb`` (``STREAM.INFO.ORDERS``)."""
        return f"{self.prefix}.{verb}"

    async def call(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request; return its reply. Raises ApiError when the server refuses, RequestError without a reply."""
        return await self.call_raw(verb, json.dumps(body).encode() if body else b"")

    async def call_raw(self, verb: str, payload: bytes) -> dict[str, Any]:
        """Do as :meth:`call`, with an encoded body."""
        with nats_errors(verb):
            message = await self.client.request(self.subject(verb), payload, timeout=self.timeout)
        try:
            answer = json.loads(message.data)
        except ValueError as error:
            raise UnreadableAnswer(f"{verb}: not JSON") from error
        if not isinstance(answer, dict):
            raise UnreadableAnswer(f"{verb}: not an object")
        refused = answer.get("error")
        if refused:
            raise api_error(refused.get("code", 0), refused.get("err_code", 0), refused.get("description", ""))
        return answer

    async def pages(self, verb: str, key: str, body: Mapping[str, Any] | None = None) -> AsyncIterator[Any]:
        """Yield all items of a paged list; each page has them under ``key``."""
        offset = 0
        while True:
            answer = await self.call(verb, {**(body or {}), "offset": offset})
            items = answer.get(key) or []
            for item in items:
                yield item
            offset += len(items)
            if not items or offset >= answer.get("total", 0):
                return
