"""The taking in of restores: chunks of an archive become a stream, whole or not at all (ADR-63)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from api.core.gateway_core import GatewayCore
from api.core.stream_restore import StreamRestore
from api.gateway.gateway_log import report
from api.gateway.snapshot_sender import TransferSurroundings
from api.gateway.stream_landing import StreamLanding
from api.jetstream import transfer_advisories
from api.jetstream.backup_api import StreamUpload, restore_refused, restored
from conf.limits import (
    FIRST_SEQ_MAX,
    RESTORE_GROUP_BYTES,
    RESTORE_GROUP_MESSAGES,
    TRANSFER_SILENCE_SECONDS,
)
from delta_store.archive.archive_checker import ArchiveChecker
from delta_store.archive.archived import Item
from delta_store.archive.bad_archive import BadArchive
from delta_store.archive.entry_run import EntryRun
from delta_store.config.api_errors import ApiRefusal, restore_failed
from delta_store.values import subjects
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

_CHUNKS_MAX: Final = 64
_STEP_ITEMS: Final = 4
"""Runs of messages that are stored at a time: chunks are acked between."""
_AHEAD_MAX: Final = 16
"""Chunks that are acked before they are worked off: the nats CLI sends the next one when it has the ack."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """What is read of an archive and not stored yet: a commit costs the same for few messages as for many."""

    items: list[Item] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0

    def add(self, item: Item) -> None:
        """Add what follows."""
        self.items.append(item)
        if isinstance(item, EntryRun):
            self.messages += item.messages
            self.bytes += int(item.sizes.sum())

    @property
    def is_enough(self) -> bool:
        """Whether it is to be stored now."""
        return self.messages >= RESTORE_GROUP_MESSAGES or self.bytes >= RESTORE_GROUP_BYTES

    def taken(self) -> list[Item]:
        """Return it all, and begin anew."""
        items, self.items, self.messages, self.bytes = self.items, [], 0, 0
        return items


@dataclass(slots=True, eq=False)
class _Upload:
    """One restore under way."""

    work: StreamUpload
    checker: ArchiveChecker
    chunks: asyncio.Queue[tuple[WireMessage, bool]] = field(default_factory=lambda: asyncio.Queue(_CHUNKS_MAX))
    """What has come and is not worked off, and whether it is acked."""
    waiting: _Waiting = field(default_factory=_Waiting)
    stream: StreamRestore | None = None
    refused: ApiRefusal | None = None
    size: int = 0


class RestoreReceiver:
    """The restores under way, by the subjects that their chunks come to."""

    def __init__(
        self, core: GatewayCore, around: TransferSurroundings, landing: StreamLanding, changed: Callable[[], None]
    ) -> None:
        """``changed`` is called when the gathering group, or the catalog, has changed."""
        self._core = core
        self._around = around
        self._landing = landing
        self._changed = changed
        self._uploads: dict[bytes, _Upload] = {}

    def listen(self, work: StreamUpload) -> None:
        """Take chunks from here on, before the reply that names their subject leaves."""
        checker = ArchiveChecker(
            work.config.name,
            message_bytes_max=work.message_bytes_max,
            sequence_max=FIRST_SEQ_MAX,
            valid_subject=subjects.literal,
        )
        upload = self._uploads[work.deliver_subject.encode()] = _Upload(work, checker)
        if work.state is not None:
            upload.stream = StreamRestore(self._core.catalog, self._core.gathering, work.config, work.state)
        self._around.subjects.listen_to(work.deliver_subject)

    def take(self, message: WireMessage) -> None:
        """Take a chunk; one that comes before earlier ones are worked off, and does not wait for a reply, is lost."""
        upload = self._uploads.get(message.subject)
        if upload is None:
            return
        acks_now = bool(message.reply and message.payload) and upload.chunks.qsize() < _AHEAD_MAX
        with suppress(asyncio.QueueFull):
            upload.chunks.put_nowait((message, acks_now))
            if acks_now:
                self._around.link.send_runs(encode_message(message.reply, b""))

    async def receive(self, work: StreamUpload) -> None:
        """Take a restore in until it ends."""
        upload = self._uploads[work.deliver_subject.encode()]
        clock, tell = self._around.clock, self._around.tell
        start_ns = clock.now_ns()
        tell(transfer_advisories.restore_begun(work.config.name))
        try:
            reply = await self._take_in(upload)
            end_ns = clock.now_ns()
            if reply is not None:
                tell(
                    transfer_advisories.restore_ended(
                        work.config.name, start_ns=start_ns, end_ns=end_ns, size=upload.size
                    )
                )
                await self._end(upload, reply)
        finally:
            self._around.subjects.stop_listening(work.deliver_subject)
            del self._uploads[work.deliver_subject.encode()]
            await self._leave(upload)

    async def _take_in(self, upload: _Upload) -> bytes | None:
        """Take chunks in; return the subject of the last reply, None where the sender fell silent."""
        while True:
            try:
                async with asyncio.timeout(TRANSFER_SILENCE_SECONDS):
                    chunk, is_acked = await upload.chunks.get()
            except TimeoutError:
                report("restore failed", f"stream {upload.work.config.name}: its sender is silent")
                return None
            if not chunk.reply:
                upload.refused = restore_failed("a chunk without a reply subject")
                return b""
            if not chunk.payload:
                return chunk.reply
            upload.size += len(chunk.payload)
            if upload.refused is None:
                upload.refused = await self._apply(upload, chunk.payload)
            if not is_acked:
                self._around.link.send_runs(encode_message(chunk.reply, b""))

    async def _apply(self, upload: _Upload, chunk: bytes) -> ApiRefusal | None:
        """Apply what a chunk completes; return why it is refused, None where it is not."""
        try:
            # A thread would keep the loop waiting for the interpreter lock.
            for item in upload.checker.feed(chunk):
                if upload.stream is None:
                    upload.stream = self._begun(upload)
                upload.waiting.add(item)
                if upload.waiting.is_enough:
                    await self._store(upload)
                await asyncio.sleep(0)
            if upload.checker.ended:
                await self._store(upload)
        except BadArchive as bad:
            return restore_failed(str(bad))
        except ApiRefusal as refused:
            return refused
        return None

    def _begun(self, upload: _Upload) -> StreamRestore:
        """Begin a stream. Raises ``ApiRefusal``."""
        is_tar = upload.checker.is_tar
        return StreamRestore.begun(
            self._core.catalog,
            self._core.gathering,
            upload.work.config,
            now_ns=self._around.clock.now_ns(),
            has_deleted=is_tar,
            resume="" if is_tar else upload.work.resume,
        )

    async def _leave(self, upload: _Upload) -> None:
        """Leave nothing of a stream that was not shown, or what is there of one that its sender may go on with."""
        stream, upload.stream = upload.stream, None
        if stream is None:
            return
        if stream.may_go_on and upload.refused is None:
            stream.park(self._around.clock.now_ns())
        else:
            await self._landing.drop(stream)

    async def _store(self, upload: _Upload) -> None:
        """Store what waits. Raises :class:`BadArchive` or ``ApiRefusal``."""
        await self._landing.room()
        if upload.stream is not None:
            items = upload.waiting.taken()
            for start in range(0, len(items), _STEP_ITEMS):
                upload.stream.take(items[start : start + _STEP_ITEMS], self._around.clock.now_ns())
                await asyncio.sleep(0)
        self._changed()

    async def _end(self, upload: _Upload, reply: bytes) -> None:
        """Show the stream, if its archive is whole, and reply."""
        core, clock = self._core, self._around.clock
        stream = upload.stream
        if upload.refused is None and (stream is None or not upload.checker.ended):
            await self._leave(upload)
            stream, upload.refused = None, restore_failed("unexpected EOF")
        answer = None
        if stream is not None and upload.refused is None:
            try:
                await self._landing.show(stream)
            except ApiRefusal as refused:
                upload.refused = restore_failed(str(refused))
            else:
                upload.stream = None
                consumers = len(stream.state.consumers)
                answer = restored(stream.state, consumers=consumers, now_ns=clock.now_ns())
        await self._leave(upload)
        if upload.refused is not None:
            report("restore failed", f"stream {upload.work.config.name}: {upload.refused}")
            answer = restore_refused(upload.refused)
        if reply and answer is not None:
            core.gathering.group.replies.append(encode_message(reply, answer))
        self._changed()
