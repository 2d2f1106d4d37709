"""The gateway's work on whole streams: backups that are sent, restores that are taken in, the past made use of."""

import asyncio
from collections.abc import Sequence
from typing import Final

from api.core.effects import BegunTransfer
from api.gateway.past_desk import PastDesk
from api.gateway.restore_receiver import RestoreReceiver
from api.gateway.snapshot_sender import SnapshotSender, TransferLink
from api.gateway.view_desk import ViewDesk
from api.jetstream.api_call import ViewWork
from api.jetstream.backup_api import StreamSnapshot, StreamUpload
from ingest.protocol.wire_protocol import WireMessage

_PREFIX: Final = b"$JS.SNAPSHOT."
_ACKS: Final = b"$JS.SNAPSHOT.ACK."


class Transfers:
    """The transfers under way, and their messages."""

    def __init__(
        self,
        snapshots: SnapshotSender,
        restores: RestoreReceiver,
        past: PastDesk,
        views: ViewDesk,
        link: TransferLink,
    ) -> None:
        self._snapshots = snapshots
        self._restores = restores
        self._past = past
        self._views = views
        self._link = link
        self._begun: asyncio.Queue[BegunTransfer] = asyncio.Queue()
        self._running = 0

    def begin(self, begun: BegunTransfer) -> None:
        """Begin a transfer, whose reply may leave now."""
        self._running += 1
        if isinstance(begun.work, StreamUpload):
            self._restores.listen(begun.work)
        if begun.reply:
            self._link.send_runs(begun.reply)
        self._begun.put_nowait(begun)

    def take(self, run: list[WireMessage]) -> Sequence[WireMessage]:
        """Take the messages of transfers; return the others."""
        if not self._running:
            return run
        mine = [message for message in run if message.subject.startswith(_PREFIX)]
        if not mine:
            return run
        for message in mine:
            (self._snapshots if message.subject.startswith(_ACKS) else self._restores).take(message)
        return [message for message in run if not message.subject.startswith(_PREFIX)]

    async def run(self) -> None:
        """Carry out transfers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                begun = await self._begun.get()
                tasks.create_task(self._carry_out(begun))

    async def _carry_out(self, begun: BegunTransfer) -> None:
        try:
            match begun.work:
                case StreamSnapshot() as snapshot:
                    await self._snapshots.send(snapshot)
                case StreamUpload() as upload:
                    await self._restores.receive(upload)
                case ViewWork() as awaited:
                    await self._views.carry_out(awaited, begun.answer_to)
                case work:
                    await self._past.carry_out(work, begun.answer_to)
        finally:
            self._running -= 1
