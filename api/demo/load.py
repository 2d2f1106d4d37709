"""Publishing through nats-py, with a bounded number of messages in flight."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from api.demo.flights import Flights
from api.demo.progress import Advance
from conf.clock import Clock

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from nats.js.api import PubAck

IN_FLIGHT = 4000
ACK_SECONDS = 30.0


class Published(NamedTuple):
    """The result of a run of publishes."""

    messages: int
    duplicates: int
    in_order: bool
    """Whether every message got the sequence of its position in the data."""
    seconds: float

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds


async def publish(
    stream: "JetStreamContext", flights: Flights, places: range, *, clock: Clock, advance: Advance
) -> Published:
    """Publish the flights at ``places`` and wait for all acknowledgements; raises if one is refused."""
    waiting: deque[tuple[int, asyncio.Future[PubAck]]] = deque()
    duplicates, in_order, done = 0, True, 0
    began = clock.monotonic()

    async def settle_one() -> None:
        nonlocal duplicates, in_order, done
        place, future = waiting.popleft()
        async with asyncio.timeout(ACK_SECONDS):
            ack = await future
        duplicates += bool(ack.duplicate)
        in_order = in_order and ack.seq == place + 1
        done += 1

    for place in places:
        future = await stream.publish_async(
            flights.subjects[place], flights.payloads[place], headers={"Nats-Msg-Id": flights.ids[place]}
        )
        waiting.append((place, future))
        if len(waiting) >= IN_FLIGHT:
            await settle_one()
            if done % 1000 == 0:
                advance(done)
    while waiting:
        await settle_one()
    advance(done)
    return Published(done, duplicates, in_order, clock.monotonic() - began)
