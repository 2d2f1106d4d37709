"""A Direct Get responder on NATS: a share of the requests, answered from tables that someone else writes.

Requests come over the client link, or over the leaf link where the hub lets them cross; answers leave on the leaf link.
"""

import asyncio
import random
import secrets
from dataclasses import dataclass
from typing import Final

from api.responder.direct_responder import QUEUE_GROUP, DirectResponder, Store
from api.responder.nats_access import credentials, leaf_credentials, tls
from conf.settings import Settings
from delta_store.reading.read_threads import ReadThreads
from ingest.links.client_link import ClientLink, ClientOptions
from ingest.links.leaf_link import LeafLink, LeafOptions
from ingest.links.link_log import report_link, report_oversize
from ingest.links.link_session import OnMessages
from ingest.protocol.leaf_connect import LeafIdentity
from ingest.protocol.link import parse_endpoints
from ingest.protocol.wire_protocol import Message

CLIENT_QUEUE_GROUP: Final = b"silt-direct"
"""Shares requests over client links: nats-server refuses a client that asks for its own group, ``_sys_``."""


@dataclass(frozen=True, slots=True)
class ResponderOptions:
    """Where to answer."""

    nats: str
    leaf: str
    domain: str
    api_over_leaf: bool

    @property
    def subject(self) -> str:
        """The requests that are answered."""
        return f"$JS.{self.domain}.API.DIRECT.GET.>" if self.domain else "$JS.API.DIRECT.GET.>"


class ResponderLinks:
    """The links and the responder behind them."""

    def __init__(self, options: ResponderOptions, settings: Settings, store: Store, threads: ReadThreads) -> None:
        name = f"silt-responder-{secrets.token_hex(4)}"
        trust = tls(settings.nats)
        timeout_seconds = settings.nats.connect_timeout_seconds
        jitter = random.Random()  # noqa: S311 - spreads reconnects, guards nothing
        self._leaf = LeafLink(
            LeafOptions(
                parse_endpoints(options.leaf, default_port=7422),
                LeafIdentity(name, name, options.domain),
                leaf_credentials(settings.nats),
                trust,
                connect_timeout_seconds=timeout_seconds,
            ),
            self._receive,
            jitter=jitter,
            on_status=report_link("leaf"),
        )
        self._leaf.on_oversize = report_oversize
        subject = options.subject.encode()
        self._client = _client_link(options, settings, name, self._receive, jitter)
        if self._client is None:
            self._leaf.subscribe(subject, QUEUE_GROUP)
        else:
            self._client.subscribe(subject, CLIENT_QUEUE_GROUP)
        self._responder = DirectResponder(
            store,
            self._leaf,
            threads,
            concurrency=settings.reads.concurrency_max,
            drain_seconds=settings.reads.timeout_seconds,
        )

    async def run(self) -> None:
        """Attach, and answer until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leaf.run())
            tasks.create_task(self._responder.run())
            if self._client is not None:
                tasks.create_task(self._client.run())

    async def attached(self) -> None:
        """Wait until requests reach us."""
        await self._leaf.attached.wait()
        if self._client is not None:
            await self._client.attached.wait()

    def _receive(self, messages: list[Message]) -> None:
        self._responder.respond(messages)


def _client_link(
    options: ResponderOptions, settings: Settings, name: str, receive: OnMessages, jitter: random.Random
) -> ClientLink | None:
    """None where the leaf link takes everything."""
    if options.api_over_leaf or options.domain:
        return None
    client = ClientOptions(
        parse_endpoints(options.nats, default_port=4222),
        name,
        credentials(settings.nats),
        tls(settings.nats),
        connect_timeout_seconds=settings.nats.connect_timeout_seconds,
    )
    return ClientLink(client, receive, jitter=jitter, on_status=report_link("client"))
