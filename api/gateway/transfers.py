"""The gateway's transfers of whole streams: backups that are sent."""

import asyncio
from collections.abc import Sequence
from typing import Final

from api.gateway.snapshot_sender import SnapshotSender
from api.jetstream.backup_api import StreamSnapshot
from ingest.protocol.wire_protocol import WireMessage

_PREFIX: Final = b"$JS.SNAPSHOT."


class Transfers:
    """The transfers under way, and their messages."""

    def __init__(self, snapshots: SnapshotSender) -> None:
        self._snapshots = snapshots
        self._begun: asyncio.Queue[StreamSnapshot] = asyncio.Queue()
        self._running = 0

    def begin(self, work: StreamSnapshot) -> None:
        """Begin a transfer whose reply has left."""
        self._running += 1
        self._begun.put_nowait(work)

    def take(self, run: list[WireMessage]) -> Sequence[WireMessage]:
        """Take the messages of transfers; return the others."""
        if not self._running:
            return run
        mine = [message for message in run if message.subject.startswith(_PREFIX)]
        if not mine:
            return run
        for message in mine:
            self._snapshots.take(message)
        return [message for message in run if not message.subject.startswith(_PREFIX)]

    async def run(self) -> None:
        """Carry out transfers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._carry_out(await self._begun.get()))

    async def _carry_out(self, work: StreamSnapshot) -> None:
        try:
            await self._snapshots.send(work)
        finally:
            self._running -= 1
