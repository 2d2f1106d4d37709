"""Requests of the client link put behind the interest of the leaf link, as if both came over one link.

A client subscribes to its inbox, publishes, and then sends a request. Interest and messages arrive over the leaf link,
the request over the client link, so the request may arrive first, when its requester seems not to listen and nothing
seems published. So a request, and all behind it, is held until a PONG on the leaf link: everything that the hub had
before comes ahead of that. Where the links lead to different servers of a cluster, it is held until the listeners of
pulls are known too, for at most ``INTEREST_WAIT_SECONDS``.
"""

import asyncio
from contextlib import suppress

from conf.limits import INTAKE_MESSAGES_MAX, INTEREST_WAIT_SECONDS
from ingest.links.client_link import ClientLink
from ingest.links.leaf_link import LeafLink
from ingest.links.link_session import OnMessages
from ingest.protocol.link import LinkError
from ingest.protocol.wire_protocol import WireMessage

_LOOK_SECONDS = 0.002
_REQUEST = b"$JS.API."
_PULL = b".CONSUMER.MSG.NEXT."
"""Requests that are served only while their reply subject has interest; other replies are routed by the hub."""


class BehindInterest:
    """The runs of messages of the client link, handed on in order when their listeners are known."""

    def __init__(self, leaf: LeafLink, on_messages: OnMessages) -> None:
        self.client: ClientLink | None = None
        """The link that the runs come from; set after both are made."""
        self._leaf = leaf
        self._on_messages = on_messages
        self._held: list[WireMessage] = []
        self._holding = asyncio.Event()

    def take(self, run: list[WireMessage]) -> None:
        """Hand a run on: at once if nothing is held, it has no request and all its reply subjects have interest."""
        asked = any(message.subject.startswith(_REQUEST) for message in run)
        if not asked and not self._holding.is_set() and self._all_listen(run):
            self._on_messages(run)
            return
        self._held += run
        self._holding.set()
        if len(self._held) > INTAKE_MESSAGES_MAX:
            self._hand_on()

    async def run(self) -> None:
        """Hand on the held messages, until cancelled."""
        while True:
            await self._holding.wait()
            number = len(self._held)
            with suppress(LinkError, TimeoutError):
                await self._leaf.flush(INTEREST_WAIT_SECONDS)
                if self.client is not None and self._leaf.hub and self._leaf.hub.server_id != self.client.server_id:
                    await self._wait_for_listeners(number)
            self._hand_on(number)
            if not self._held:
                self._holding.clear()

    async def _wait_for_listeners(self, number: int) -> None:
        """Wait for interest in the pulls' reply subjects. Raises ``TimeoutError``."""
        async with asyncio.timeout(INTEREST_WAIT_SECONDS):
            pulls = [one for one in self._held[:number] if _PULL in one.subject]
            while not self._all_listen(pulls):  # noqa: ASYNC110  # what is awaited is the hub's doing
                await asyncio.sleep(_LOOK_SECONDS)

    def _hand_on(self, number: int = INTAKE_MESSAGES_MAX) -> None:
        run, self._held = self._held[:number], self._held[number:]
        if run:
            self._on_messages(run)

    def _all_listen(self, run: list[WireMessage]) -> bool:
        has_interest = self._leaf.interest.has_interest
        return all(not message.reply or has_interest(message.reply) for message in run)
