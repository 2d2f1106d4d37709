"""Requests of the client link behind the interest of the leaf link, as if both had come over one.

A client listens to its inbox, publishes, and then asks. The hub tells of the listeners and gives the messages over the
leaf link, and the request over the client link, so that the request may be here first: as if nobody waited for the
answer, or not all who do, and as if nothing had been published. A request, and all behind it, is therefore held back
until the hub has answered a PING on the leaf link: its PONG comes behind what the hub knew.
Where the links lead to different servers of a cluster, which tell each other in their own time, it is held back until
the listeners of pulls are known, within limits.
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
"""What nobody gets an answer to who is not known to listen; other answers find their way at the hub."""


class BehindInterest:
    """Hands the runs of the client link on, in their order, when it is known who listens."""

    def __init__(self, leaf: LeafLink, on_messages: OnMessages) -> None:
        self.client: ClientLink | None = None
        """Where the runs come from; told after both are made."""
        self._leaf = leaf
        self._on_messages = on_messages
        self._held: list[WireMessage] = []
        self._holding = asyncio.Event()

    def take(self, run: list[WireMessage]) -> None:
        """Hand a run on, at once if nothing is held back, nothing is asked and all who wait are known to listen."""
        asked = any(message.subject.startswith(_REQUEST) for message in run)
        if not asked and not self._holding.is_set() and self._all_listen(run):
            self._on_messages(run)
            return
        self._held += run
        self._holding.set()
        if len(self._held) > INTAKE_MESSAGES_MAX:
            self._hand_on()

    async def run(self) -> None:
        """Hand on what was held back, until cancelled."""
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
        """Raises ``TimeoutError``."""
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
