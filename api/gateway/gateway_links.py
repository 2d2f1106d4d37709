"""The gateway's links: they attach when the process starts, whoever takes what comes over them.

At first that is :mod:`api.gateway.gateway_opening`, which answers that nothing can be read yet, then the
gateway.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from api.gateway.gateway_options import GatewayOptions
from api.gateway.gateway_subjects import LinkSubjects
from api.responder import nats_access
from conf.limits import HUB_ANSWER_SECONDS
from conf.settings import Settings
from ingest.links.behind_interest import BehindInterest
from ingest.links.leaf_link import LeafLink, LeafOptions
from ingest.links.link_log import report_link, report_oversize
from ingest.links.link_session import OnMessages
from ingest.protocol.leaf_connect import LeafIdentity
from ingest.protocol.link import LinkError, LinkStatus, OnStatus, parse_endpoints
from ingest.protocol.wire_protocol import Message

if TYPE_CHECKING:
    from ingest.links.client_link import ClientLink


class GatewayLinks:
    """The leaf link, the client link where there is one, and the subjects that they take in."""

    def __init__(self, options: GatewayOptions, settings: Settings) -> None:
        name = f"silt-gateway-{secrets.token_hex(4)}"
        # Timing jitter of reconnects needs no unpredictable numbers.
        jitter = random.Random()  # noqa: S311
        self.receive: OnMessages = lambda _run: None
        """Who takes what comes, in the order in which a link gave it; the last one that was set."""
        self.on_leaf_status: OnStatus = lambda _status: None
        """Told how the leaf link fares; set likewise."""
        self.leaf = _leaf_link(options, settings, name, jitter, (self._receive, self._leaf_status))
        self._requests = BehindInterest(self.leaf, self._receive)
        self.client = self._requests.client = _client_link(options, settings, name, self._requests.take, jitter)
        self.subjects = LinkSubjects(self.leaf, self.client, options.domain)

    async def run(self) -> None:
        """Attach and stay attached until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.leaf.run())
            if self.client is not None:
                tasks.create_task(self.client.run())
                tasks.create_task(self._requests.run())

    async def heard(self) -> None:
        """Wait until both links are attached and requests come in: whatever leaves now is behind all subscriptions."""
        await self._attached(self.client.flush if self.client is not None else None)

    async def reachable(self) -> None:
        """Wait until both links are attached and their servers have taken all subscriptions made so far."""
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
        """Wait until the servers of attached links have taken all. Raises ``LinkError`` and ``TimeoutError``."""
        if self.client is not None and self.client.attached.is_set():
            await self.client.flush(timeout_seconds)
        if self.leaf.attached.is_set():
            await self.leaf.flush(timeout_seconds)

    def _receive(self, run: list[Message]) -> None:
        self.receive(run)

    def _leaf_status(self, status: LinkStatus) -> None:
        report_link("leaf")(status)
        self.on_leaf_status(status)


def _leaf_link(
    options: GatewayOptions, settings: Settings, name: str, jitter: random.Random, on: tuple[OnMessages, OnStatus]
) -> LeafLink:
    nats = settings.nats
    leaf_options = LeafOptions(
        parse_endpoints(options.leaf, default_port=7422),
        LeafIdentity(name, name, options.domain),
        nats_access.leaf_credentials(nats),
        nats_access.tls(nats),
        connect_timeout_seconds=nats.connect_timeout_seconds,
    )
    receive, on_status = on
    link = LeafLink(leaf_options, receive, jitter=jitter, on_status=on_status)
    link.on_oversize = report_oversize
    return link


def _client_link(
    options: GatewayOptions,
    settings: Settings,
    name: str,
    receive: Callable[[list[Message]], None],
    jitter: random.Random,
) -> "ClientLink | None":
    """None where the leaf link takes everything."""
    if options.api_over_leaf or options.domain:
        return None
    from ingest.links.client_link import ClientLink, ClientOptions

    endpoints = parse_endpoints(options.nats, default_port=4222)
    client_options = ClientOptions(
        endpoints,
        name,
        nats_access.credentials(settings.nats),
        nats_access.tls(settings.nats),
        connect_timeout_seconds=settings.nats.connect_timeout_seconds,
    )
    return ClientLink(client_options, receive, jitter=jitter, on_status=report_link("client"))
