"""One connection to NATS for a verb: no retries, and errors that name the address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from api.process.nats_context import NatsContext
from conf.error_text import error_text

if TYPE_CHECKING:
    from nats.aio.client import Client


@asynccontextmanager
async def connected(context: NatsContext) -> "AsyncIterator[Client]":
    """Connect, and close at the end of the block. Raises ``ConnectionError`` when no server answers."""
    import nats
    from nats.errors import Error

    async def quiet(_: Exception) -> None:
        """Drop it: the caller gets the error as an exception."""

    try:
        client = await nats.connect(
            **context.connect_options(),
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0.1,
            connect_timeout=2,
            error_cb=quiet,
        )
    except (Error, OSError) as error:
        raise ConnectionError(f"no NATS server answers at {context.shown_url}: {error_text(error)}") from error
    try:
        yield client
    finally:
        await client.close()
