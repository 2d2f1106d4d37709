"""Requests of ``$JS.API`` over a nats-py connection: JSON out, JSON in, errors as this package's tree."""

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
    """Turn nats-py's errors into this package's; ``what`` names the attempt.

    A cancellation that came in the block and was lost there is raised at its end: ``asyncio.wait_for`` of Python 3.11
    loses one that comes together with the answer, and nats-py waits with it.
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
    """The connection with the API's prefix and the time that an answer may take, in seconds."""

    def __init__(self, client: Client, *, prefix: str = DEFAULT_PREFIX, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.client = client
        self.prefix = prefix
        self.timeout = timeout

    def subject(self, verb: str) -> str:
        """The subject that serves ``verb`` (``STREAM.INFO.ORDERS``)."""
        return f"{self.prefix}.{verb}"

    async def call(self, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask and give the answer's fields; raises ApiError when the server refuses, RequestError without answer."""
        return await self.call_raw(verb, json.dumps(body).encode() if body else b"")

    async def call_raw(self, verb: str, payload: bytes) -> dict[str, Any]:
        """The same with the body as it goes out."""
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
        """All items of a list that is answered in pages, under ``key`` of each."""
        offset = 0
        while True:
            answer = await self.call(verb, {**(body or {}), "offset": offset})
            items = answer.get(key) or []
            for item in items:
                yield item
            offset += len(items)
            if not items or offset >= answer.get("total", 0):
                return
