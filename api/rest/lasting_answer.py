"""Streamed answers that hold something, and waits that end with the client."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

Result = TypeVar("Result")
_LOOK_SECONDS = 0.25


class LastingResponse(StreamingResponse):
    """A streamed answer; ``release`` is called once it is over, however it ends."""

    def __init__(
        self, chunks: AsyncIterator[bytes], release: Callable[[], None], media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(chunks, media_type=media_type, headers=headers)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; it is cancelled when the client goes away."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._release()


class ClientGone(Exception):
    """The client has closed its connection: nobody waits for the answer."""


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of the work, which is cancelled when the client goes away; :class:`ClientGone` then.

    The body of the request must have been read.
    """
    gone = False
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_outcome(work))
        while not running.done():
            await asyncio.wait([running], timeout=_LOOK_SECONDS)
            if not running.done() and await request.is_disconnected():
                gone = running.cancel()
                break
    if gone:
        raise ClientGone
    result, error = running.result()
    if error is not None:
        raise error
    assert result is not None
    return result


async def _outcome(work: Coroutine[Any, Any, Result]) -> tuple[Result | None, Exception | None]:
    """Return the work's result or error: raised in a task group, it would come as a group."""
    try:
        return await work, None
    except Exception as error:  # noqa: BLE001  # raised again by the caller
        return None, error
