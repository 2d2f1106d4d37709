"""A relay between two servers, on a link to each: see :mod:`api.moving.relay`."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from api.moving.relay import Relay, RelayPrefix
from ingest.links.attachment import Access
from ingest.links.client_link import ClientLink
from ingest.protocol.wire_protocol import WireMessage

_HEARD_SECONDS: Final = 0.25
"""What a mirror is given to subscribe before its consumer begins: what came earlier would be asked for anew."""


class RelayEnds(NamedTuple):
    """The servers that a relay stands between."""

    hub: Access
    """The mirror's."""
    origin: Access
    api_prefix: str
    """The origin's own."""


class Relaying:
    """Both links and what passes between them."""

    def __init__(self, prefix: RelayPrefix, ends: RelayEnds, streams: Collection[str]) -> None:
        jitter = random.Random()  # noqa: S311  # paces retries and tells processes apart
        self._relay = relay = Relay(prefix, ends.api_prefix, streams, nonce=f"{jitter.getrandbits(64):016x}")
        self.hub = ClientLink(ends.hub, "silt-import", self._from_hub, jitter=jitter)
        self.origin = ClientLink(ends.origin, "silt-import", self._from_origin, jitter=jitter)
        self._listening: dict[str, bytes] = {}
        for subject in prefix.at_hub:
            self.hub.subscribe(subject)
        self.origin.subscribe(relay.at_origin)

    def _from_hub(self, run: list[WireMessage]) -> None:
        if frames := b"".join(map(self._relay.to_origin, run)):
            self.origin.send(frames)

    def _from_origin(self, run: list[WireMessage]) -> None:
        if frames := b"".join(map(self._relay.to_hub, run)):
            self.hub.send(frames)
        begun, self._relay.begun = self._relay.begun, []
        for stream, deliver in begun:
            asyncio.get_running_loop().call_later(_HEARD_SECONDS, partial(self._listen, stream, deliver))

    def _listen(self, stream: str, deliver: bytes) -> None:
        """Let a stream's consumer deliver, and no earlier one of it."""
        if (before := self._listening.get(stream)) is not None:
            self.origin.unsubscribe(before)
        self._listening[stream] = deliver
        self.origin.subscribe(deliver)


@asynccontextmanager
async def relaying(prefix: RelayPrefix, ends: RelayEnds, streams: Collection[str]) -> AsyncIterator[Relaying]:
    """Relay for mirrors of these streams until the block ends; links that are lost are made again."""
    both = Relaying(prefix, ends, streams)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(link.run()) for link in (both.hub, both.origin)]
        try:
            await both.hub.attached.wait()
            await both.origin.attached.wait()
            yield both
        finally:
            for task in running:
                task.cancel()
