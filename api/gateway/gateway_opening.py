"""The opening of the gateway's store, with the links attached and the API answering with the progress.

The state is built in a thread and handed over once. Until then the API answers like nats-server's without a leader:
10008, with the progress in its text. Publishes, acks and Direct Get are not subscribed to, so the hub answers at once
with no responders, or a reader answers Direct Get. A store that opens within ``OPENING_QUIET_SECONDS`` is never seen
closed.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from api.direct.direct_frames import no_responders_frame
from api.gateway.gateway_links import GatewayLinks
from api.gateway.gateway_stores import Stores
from api.jetstream.dispatch import refusal
from conf.clock import Clock
from conf.limits import OPENING_QUIET_SECONDS, OPENING_TOLD_SECONDS
from conf.log import log
from delta_store.stores.opening_progress import OpeningAbandoned, OpeningProgress
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

Open = Callable[[OpeningProgress], Stores]


class GatewayOpening:
    """One opening, and the API's replies meanwhile."""

    def __init__(self, links: GatewayLinks, *, domain: str, clock: Clock) -> None:
        self.progress = OpeningProgress()
        self.seconds = 0.0
        """Seconds that it took."""
        self._links = links
        self._domain = domain
        self._clock = clock

    async def run(self, claim: Open, executor: Executor, stop: asyncio.Event) -> Stores | None:
        """Run ``claim`` in ``executor``; return its stores, None if ``stop`` is set first. Raises its errors."""
        began = self._clock.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                telling = [tasks.create_task(self._answer()), tasks.create_task(self._tell())]
                stopping = tasks.create_task(stop.wait())
                stopping.add_done_callback(lambda _: self.progress.abandon())
                opening = asyncio.get_running_loop().run_in_executor(executor, claim, self.progress)
                await asyncio.wait((opening,))
                for task in (*telling, stopping):
                    task.cancel()
        finally:
            self.progress.abandon()
        with suppress(OpeningAbandoned):
            stores = opening.result()
            self.seconds = round(self._clock.monotonic() - began, 1)
            log.info("store open", rows=self.progress.rows_total, seconds=self.seconds)
            return stores
        return None

    async def _answer(self) -> None:
        """Subscribe to the API's requests and refuse them; print the answering line."""
        await asyncio.sleep(OPENING_QUIET_SECONDS)
        self._links.receive = self._refuse
        self._links.subjects.follow_endpoints()
        await self._links.reachable()
        say({"answering": True, "opening": str(self.progress)})

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(OPENING_TOLD_SECONDS)
            log.info("opening the store", progress=str(self.progress))

    def _refuse(self, run: list[WireMessage]) -> None:
        frames = [self._answer_to(message.subject, message.reply) for message in run if message.reply]
        self._links.leaf.send_runs(*frames)

    def _answer_to(self, subject: bytes, reply: bytes) -> bytes:
        refused = refusal(subject, self._domain, str(self.progress))
        return encode_message(reply, refused) if refused else no_responders_frame(subject, reply)


def say(told: Mapping[str, Any]) -> None:
    """Print a report to the supervisor, as JSON."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
