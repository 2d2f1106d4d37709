"""One subscription for the replies to a series of requests, and a signal to await with a timeout."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from consumers.client.api_call import nats_errors
from consumers.client.errors import JetStreamError

CLOSE_SECONDS = 2.0


class Signal:
    """An event that one task awaits; set while nobody waits, it ends the next wait at once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """End the present or the next wait."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait until set, for at most ``seconds``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._event.clear()


class Inbox:
    """A subscription on ``<unique>.*``. ``receive`` is called with each message and the number of its request.

    The number is 0 for a stream's messages, which arrive under their own subject. ``receive`` must not block.
    """

    def __init__(self, client: Client, receive: Callable[[int, Msg], None]) -> None:
        self._client = client
        self._receive = receive
        self._prefix = client.new_inbox() + "."
        self._subscription: Subscription | None = None
        self._draining: asyncio.Task[None] | None = None

    def reply(self, number: int) -> str:
        """Return the reply subject of request ``number``."""
        return f"{self._prefix}{number}"

    async def open(self) -> None:
        """Subscribe."""
        with nats_errors("subscribing"):
            self._subscription = await self._client.subscribe(f"{self._prefix}*", cb=self._received)

    async def _received(self, message: Msg) -> None:
        subject = message.subject
        number = subject[len(self._prefix) :] if subject.startswith(self._prefix) else ""
        self._receive(int(number) if number.isascii() and number.isdigit() else 0, message)

    async def drain(self, timeout: float) -> None:
        """Unsubscribe, and return when every message that the server had sent before has been received.

        Without a connection nothing more can arrive, so it only unsubscribes. Cancelled, it leaves the draining to a
        task that :meth:`close` waits for: nats-py's connection does not survive a PONG whose waiter was cancelled.
        """
        if not self._client.is_connected:
            await self.close()
            return
        if self._subscription is not None:
            with nats_errors("draining"):
                self._draining = asyncio.create_task(_drained(self._subscription))  # noqa: TID251  # outlives its caller
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self._draining)
                self._draining = self._subscription = None

    async def close(self) -> None:
        """Unsubscribe now and drop messages on their way; silent if the connection is gone."""
        subscription, self._subscription = self._subscription, None
        draining, self._draining = self._draining, None
        if draining is not None:
            await asyncio.wait({draining}, timeout=CLOSE_SECONDS)
        elif subscription is not None:
            with suppress(JetStreamError), nats_errors("unsubscribing"):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await subscription.unsubscribe()


async def _drained(subscription: Subscription) -> None:
    await subscription.drain()  # type: ignore[no-untyped-call]  # nats-py left it bare
