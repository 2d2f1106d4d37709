"""The last steps of a stream that was made out of sight: all its rows durable, then shown; or nothing left of it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from api.core.gateway_core import GatewayCore
from api.core.stream_restore import StreamRestore
from conf.clock import Clock
from conf.limits import COMMIT_RETRY_SECONDS, INTAKE_MESSAGES_MAX, RESTORE_WAITING_BYTES_MAX
from ingest.publishing.group import Group


class DurableMark(NamedTuple):
    """Set when the group that it was put in is durable."""

    done: asyncio.Event


class StreamLanding:
    """What restores and branches do alike."""

    def __init__(self, core: GatewayCore, clock: Clock, changed: Callable[[], None]) -> None:
        """``changed`` is called when the gathering group, or the catalog, has changed."""
        self._core = core
        self._clock = clock
        self._changed = changed

    async def durable(self) -> None:
        """Wait until all that was decided so far is durable."""
        await self._released(self._core.gathering.group)

    async def _released(self, group: Group) -> None:
        mark = DurableMark(asyncio.Event())
        group.deferred.append(mark)
        self._changed()
        await mark.done.wait()

    async def room(self) -> None:
        """Wait while too much waits to be committed. Raises ``ApiRefusal`` where nothing can be."""
        gathering = self._core.gathering
        while gathering.pending_bytes > RESTORE_WAITING_BYTES_MAX or gathering.pending_rows > INTAKE_MESSAGES_MAX:
            await self._released(gathering.in_flight or gathering.group)
        self._core.catalog.require_change()

    async def show(self, stream: StreamRestore) -> None:
        """Show a stream that has all its messages. Raises ``ApiRefusal`` where a subject is taken by now."""
        clock, registry = self._clock, self._core.consumers.registry
        stream.finish(clock.now_ns())
        await self.durable()
        stream.show(clock.now_ns())
        registry.sync_streams(clock.now_ns())
        registry.adopt(stream.state, now_ns=clock.now_ns(), rows=self._core.gathering.group.rows)

    async def drop(self, stream: StreamRestore) -> None:
        """Leave nothing of a stream."""
        while self._core.gathering.blocked is not None:  # noqa: ASYNC110  # room on a disk is no event
            await asyncio.sleep(COMMIT_RETRY_SECONDS)
        stream.drop(self._clock.now_ns())
        self._changed()
