"""The gateway's links, attached from the start of the process.

At first :mod:`api.gateway.gateway_opening` receives their messages and refuses them, then the gateway.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress

from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_subjects import LinkSubjects
from api.responder.hub_links import client_link, leaf_link
from conf.limits import HUB_ANSWER_SECONDS
from conf.settings import Settings
from ingest.links.behind_interest import BehindInterest
from ingest.links.link_log import report_link
from ingest.links.link_session import OnMessages
from ingest.protocol.link import LinkError, LinkStatus, OnStatus
from ingest.protocol.wire_protocol import WireMessage


class GatewayLinks:
    """The leaf link, the client link where there is one, and their subscriptions."""

    def __init__(self, options: GatewayOptions, settings: Settings) -> None:
        name = f"silt-gateway-{secrets.token_hex(4)}"
        jitter = random.Random()  # noqa: S311  # spreads reconnects, no secret
        self.receive: OnMessages = lambda _run: None
        """The receiver of messages, in each link's order."""
        self.on_leaf_status: OnStatus = lambda _status: None
        """The receiver of the leaf link's status."""
        self.leaf = leaf_link(options, settings, name, jitter, (self._receive, self._leaf_status))
        self._requests = BehindInterest(self.leaf, self._receive)
        self.client = self._requests.client = client_link(options, settings, name, jitter, self._requests.take)
        self.subjects = LinkSubjects(self.leaf, self.client, options.domain)
        self._allowed = True

    def allow(self, allowed: bool) -> None:  # noqa: FBT001  # a state, told as it is
        """Leave the hub, and stay away until it is allowed to come back; it may be called again and again."""
        if allowed != self._allowed:
            self._allowed = allowed
            self.leaf.attachment.allow(allowed)
            if self.client is not None:
                self.client.attachment.allow(allowed)

    async def run(self) -> None:
        """Attach and stay attached until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.leaf.run())
            if self.client is not None:
                tasks.create_task(self.client.run())
                tasks.create_task(self._requests.run())

    async def heard(self) -> None:
        """Wait until both links are attached and requests arrive: frames leave behind all subscriptions from now on."""
        await self._attached(self.client.flush if self.client is not None else None)

    async def reachable(self) -> None:
        """Wait until both links are attached and their servers have processed all subscriptions made so far."""
        await self._attached(self.flush)

    async def _attached(self, flush: Callable[[float], Awaitable[None]] | None) -> None:
        while True:
            await self.leaf.attached.wait()
            if self.client is not None:
                await self.client.attached.wait()
            if flush is None:
                return
            with suppress(LinkError, TimeoutError):
                await flush(HUB_ANSWER_SECONDS)
                return

    async def flush(self, timeout_seconds: float) -> None:
        """Wait until the attached links' servers have processed all frames. Raises ``LinkError``, ``TimeoutError``."""
        if self.client is not None and self.client.attached.is_set():
            await self.client.flush(timeout_seconds)
        if self.leaf.attached.is_set():
            await self.leaf.flush(timeout_seconds)

    def _receive(self, run: list[WireMessage]) -> None:
        self.receive(run)

    def _leaf_status(self, status: LinkStatus) -> None:
        report_link("leaf")(status)
        self.on_leaf_status(status)
