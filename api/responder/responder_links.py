"""A Direct Get responder on NATS: serves a share of the requests from tables that another process writes.

Requests arrive over the client link, or over the leaf link if the hub lets them cross; replies leave on the leaf link.
"""

import asyncio
import random
import secrets
from dataclasses import dataclass
from typing import Final

from api.responder.direct_responder import QUEUE_GROUP, DirectResponder
from api.responder.hub_links import client_link, leaf_link
from conf.settings import Settings
from delta_store.reading.store_reader import StoreReader
from ingest.links.link_log import report_link
from ingest.protocol.wire_protocol import WireMessage

CLIENT_QUEUE_GROUP: Final = b"silt-direct"
"""Queue group on client links, as nats-server refuses its own group, ``_sys_``, to a client."""


@dataclass(frozen=True, slots=True)
class ResponderOptions:
    """The addresses and the domain to serve."""

    nats: str
    leaf: str
    domain: str
    api_over_leaf: bool

    @property
    def subject(self) -> str:
        """Subject of the requests served."""
        return f"$JS.{self.domain}.API.DIRECT.GET.>" if self.domain else "$JS.API.DIRECT.GET.>"


class ResponderLinks:
    """The links and the responder behind them."""

    def __init__(self, options: ResponderOptions, settings: Settings, reader: StoreReader) -> None:
        name = f"silt-responder-{secrets.token_hex(4)}"
        jitter = random.Random()  # noqa: S311  # spreads reconnects, no secret
        self._leaf = leaf_link(options, settings, name, jitter, (self._receive, report_link("leaf")))
        subject = options.subject.encode()
        self._client = client_link(options, settings, name, jitter, self._receive)
        if self._client is None:
            self._leaf.subscribe(subject, QUEUE_GROUP)
        else:
            self._client.subscribe(subject, CLIENT_QUEUE_GROUP)
        self._responder = DirectResponder(
            reader,
            self._leaf,
            concurrency=settings.reads.concurrency_max,
            drain_seconds=settings.reads.timeout_seconds,
        )

    async def run(self) -> None:
        """Attach, and serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._leaf.run())
            tasks.create_task(self._responder.run())
            if self._client is not None:
                tasks.create_task(self._client.run())

    async def attached(self) -> None:
        """Wait until the links are attached."""
        await self._leaf.attached.wait()
        if self._client is not None:
            await self._client.attached.wait()

    def _receive(self, messages: list[WireMessage]) -> None:
        self._responder.respond(messages)
