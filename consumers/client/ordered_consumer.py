"""An ordered consumer: every matching message once and in order, by ever new consumers at the server."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from nats.js import api
from nats.nuid import NUID

from consumers.client import consumer_calls
from consumers.client.api_call import Api
from consumers.client.config import ConsumerConfig, ConsumerInfo
from consumers.client.consumer_calls import CreateAction
from consumers.client.consumption import Callback, Consumption, OnWarning, log_warning
from consumers.client.errors import (
    ConsumerDeleted,
    ConsumerNotFound,
    HeartbeatMissed,
    JetStreamError,
    PullNotServed,
    UsageError,
)
from consumers.client.inbox import CLOSE_SECONDS
from consumers.client.message import Message
from consumers.client.names import checked
from consumers.client.ordered_state import OrderedState, Verdict, start_fields
from consumers.client.pull import DEFAULT_EXPIRES, MIN_EXPIRES, ConsumeOptions, PullPlan

INACTIVE_SECONDS = 300.0
DEFAULTS = ConsumeOptions()


@dataclass(frozen=True, slots=True)
class OrderedOptions:
    """The messages to read, and where to begin."""

    filter_subjects: Sequence[str] = ()
    deliver_policy: api.DeliverPolicy = api.DeliverPolicy.ALL
    opt_start_seq: int | None = None
    opt_start_time: datetime | None = None
    headers_only: bool = False
    inactive_threshold: float = INACTIVE_SECONDS
    """Seconds without a request after which the server may delete the consumer."""
    metadata: dict[str, str] | None = None


class OrderedSource:
    """The succession of the server's consumers under one ordered consumer."""

    def __init__(self, calls: Api, stream: str, options: OrderedOptions) -> None:
        self._calls = calls
        self._stream = stream
        self._options = options
        self._token = NUID().next().decode()
        self._busy = False
        self._made = ""
        self._making: asyncio.Task[ConsumerInfo] | None = None
        self.state = OrderedState()

    @property
    def next_subject(self) -> str:
        """The subject that pulls are sent to now."""
        return self._calls.subject(f"CONSUMER.MSG.NEXT.{self._stream}.{self.state.name}")

    async def prepare(self) -> None:
        """Create the first consumer, behind the last message handed over."""
        if self._busy:
            raise UsageError("an ordered consumer serves one reader at a time")
        self._busy = True
        self.state.rewind()
        try:
            await self.recover()
        except BaseException:
            await self.close()
            raise

    def accept(self, message: Message) -> Verdict:
        """Return the verdict on a message that has arrived."""
        return self.state.take(message.metadata)

    def heartbeat(self, last_consumer: int | None) -> JetStreamError | None:
        """Return the gap that a heartbeat reveals, if any."""
        return self.state.gap if self.state.heartbeat(last_consumer) else None

    def handed(self, message: Message) -> None:
        """Record that a message was handed over to the program."""
        self.state.handed(message.metadata)

    def mends(self, error: JetStreamError) -> bool:
        """Whether :meth:`recover` mends this error."""
        return isinstance(error, ConsumerDeleted | PullNotServed | HeartbeatMissed)

    def abandon(self) -> JetStreamError | None:
        """Give up the consumer; return the gap, if there was one."""
        self.state.abandoned()
        gap, self.state.gap = self.state.gap, None
        return gap

    async def recover(self) -> None:
        """Create a new consumer behind the last message accepted.

        A cancellation leaves the request running for :meth:`close`: nats-server handles consumer requests concurrently,
        so a deletion sent before the creation's reply may be handled first.
        """
        await self._delete_made()
        name = f"{self._token}_{self.state.serial + 1}"
        self._made = name
        creation = consumer_calls.create(self._calls, self._stream, self._config(name), CreateAction.CREATE)
        self._making = asyncio.create_task(creation)  # noqa: TID251  # outlives its caller
        await asyncio.shield(self._making)
        self.state.started(name)

    async def close(self) -> None:
        """Delete the server's consumer if that can be done at once; otherwise it expires."""
        self.state.abandoned()
        await self._delete_made()
        self._busy = False

    async def _delete_made(self) -> None:
        made, self._made = self._made, ""
        making, self._making = self._making, None
        if made and self._calls.client.is_connected:
            with suppress(JetStreamError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    if making:
                        with suppress(JetStreamError):
                            await making
                    await consumer_calls.delete(self._calls, self._stream, made)
        elif making:
            making.cancel()

    def _config(self, name: str) -> ConsumerConfig:
        options = self._options
        filters = list(options.filter_subjects)
        start = start_fields(
            self.state.start, options.deliver_policy.value, options.opt_start_seq, options.opt_start_time
        )
        config = ConsumerConfig(
            name=name,
            ack_policy=api.AckPolicy.NONE,
            max_deliver=1,
            filter_subject=filters[0] if len(filters) == 1 else None,
            filter_subjects=filters if len(filters) > 1 else None,
            headers_only=options.headers_only or None,
            inactive_threshold=options.inactive_threshold,
            num_replicas=1,
            mem_storage=True,
            metadata=options.metadata,
        )
        return config.evolve(**start)


class OrderedConsumer:
    """A stream read in order, by one reader at a time; the next reader begins behind the last message handed over."""

    def __init__(self, calls: Api, stream: str, options: OrderedOptions) -> None:
        self._calls = calls
        self.stream = checked(stream, "stream")
        self._source = OrderedSource(calls, stream, options)

    @property
    def last_seq(self) -> int:
        """Stream sequence of the last message handed over; 0 before the first."""
        return self._source.state.handed_seq

    async def info(self) -> ConsumerInfo:
        """Ask for the server's present consumer; raises ConsumerNotFound between two readers."""
        name = self._source.state.name
        if not name:
            raise ConsumerNotFound(404, 10014, "nobody is reading")
        return await consumer_calls.info(self._calls, self.stream, name)

    def consume(
        self,
        callback: Callback | None = None,
        *,
        options: ConsumeOptions = DEFAULTS,
        on_warning: OnWarning = log_warning,
    ) -> Consumption:
        """Consume all messages from here on; ``on_warning`` gets the errors that it recovers from."""
        return self._consumption(options.plan(), callback, on_warning)

    async def fetch(self, max_messages: int, *, expires: float = DEFAULT_EXPIRES) -> list[Message]:
        """Fetch the next messages, for at most ``expires`` seconds."""
        if max_messages < 1 or expires <= 0:
            raise UsageError("max_messages is at least 1 and expires more than 0")
        options = ConsumeOptions(max_messages=max_messages, expires=max(expires, MIN_EXPIRES), threshold_messages=0)
        messages: list[Message] = []
        async with self._consumption(options.plan(total=max_messages), None, log_warning) as consumption:
            with suppress(TimeoutError):
                async with asyncio.timeout(expires):
                    while len(messages) < max_messages:
                        messages.append(await anext(consumption))
        return messages

    async def next(self, *, expires: float = DEFAULT_EXPIRES) -> Message | None:
        """Fetch the next message; None if none arrives within ``expires`` seconds."""
        messages = await self.fetch(1, expires=expires)
        return messages[0] if messages else None

    def _consumption(self, plan: PullPlan, callback: Callback | None, on_warning: OnWarning) -> Consumption:
        return Consumption(self._calls, self._source, plan, callback=callback, on_warning=on_warning)
