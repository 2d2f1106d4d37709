"""The gateway's replies with messages of streams, and about their past: Direct Get, STREAM.MSG.GET, STREAM.INFO.

A reply from memory leaves with the gathering group; a read of files begins when that group is durable, off the event
loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from api.core.effects import BegunTransfer
from api.jetstream.api_call import AskedHistory, AskedLasts, AskedVersions, NeedMessage, NeedPast, StartedReply
from api.jetstream.responses import msg_get_reply
from api.responder.direct_responder import DirectResponder, Read, Sink
from conf.limits import READ_QUEUE_MAX
from delta_store.config import api_errors
from delta_store.reading.past_streams import PastStream
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.store_reader import StoreReader
from delta_store.values.read_errors import NoSuchCut, NoSuchStream, PastHorizon, ReadError
from delta_store.values.records import RowColumns
from delta_store.values.stream_message import StreamMessage
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

_WORKERS: Final = 2


class StoredRead:
    """A request whose reply needs a message from a file, or the past."""

    __slots__ = ("reply", "wanted")

    def __init__(self, wanted: NeedMessage | NeedPast, reply: bytes) -> None:
        self.wanted = wanted
        self.reply = reply


class GatewayReads:
    """Replies from memory, or reads that :meth:`submit` finishes."""

    def __init__(self, reader: StoreReader, sink: Sink, *, concurrency: int, drain_seconds: float) -> None:
        self._reader = reader
        self._sink = sink
        self._direct = DirectResponder(reader, sink, concurrency=concurrency, drain_seconds=drain_seconds)
        self._stored: asyncio.Queue[StoredRead] = asyncio.Queue(READ_QUEUE_MAX)
        self.begin: Callable[[BegunTransfer], None] = lambda _: None
        """Begins a transfer of a past point; set by who carries transfers out."""

    def direct(self, request: WireMessage) -> bytes | Read | None:
        """Return the frames of a Direct Get's reply, or the read that is left; None for no reply."""
        return self._direct.answer(request)

    def stored(self, wanted: NeedMessage | NeedPast, reply: bytes) -> bytes | StoredRead:
        """Return the frame of a STREAM.MSG.GET's reply, or the read that is left; of the past it always is."""
        if isinstance(wanted, NeedPast):
            return StoredRead(wanted, reply)
        found = self._reader.payloads.run_now(*wanted.plan)
        return self._frame(wanted, found, reply) if found else StoredRead(wanted, reply)

    def keep(self, rows: RowColumns, payload_bytes: int) -> None:
        """Rows are durable: keep their payloads at hand."""
        self._reader.payloads.stored(rows, payload_bytes=payload_bytes)

    def submit(self, read: Read | StoredRead) -> None:
        """Finish a read whose state is durable by now."""
        if isinstance(read, Read):
            self._direct.submit(read)
            return
        answer = self.stored(read.wanted, read.reply)
        if isinstance(answer, bytes):
            self._sink.send_runs(answer)
            return
        # Too many wait already: no reply, so that the client tries again.
        with suppress(asyncio.QueueFull):
            self._stored.put_nowait(read)

    async def run(self) -> None:
        """Finish reads until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._direct.run())
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            read = await self._stored.get()
            # No reply to a failed read: the client tries again, and must not take damage for a missing message.
            with suppress(ReadError, ReadsBusy, TimeoutError):
                wanted = read.wanted
                if isinstance(wanted, NeedPast):
                    await self._reply_of_past(wanted, read.reply)
                else:
                    found = await self._reader.read(wanted.plan)
                    self._sink.send_runs(self._frame(wanted, found, read.reply))

    async def _reply_of_past(self, wanted: NeedPast, subject: bytes) -> None:
        answer = await self._of_past(wanted)
        if isinstance(answer, StartedReply):
            self.begin(BegunTransfer(answer.work, encode_message(subject, answer.reply)))
        else:
            self._sink.send_runs(encode_message(subject, answer))

    async def _of_past(self, wanted: NeedPast) -> bytes | StartedReply:
        """Return the reply to a request about the past."""
        try:
            asked, pasts = wanted.asked, list[PastStream]()
            if isinstance(asked, AskedHistory):
                reply = wanted.reply(await self._reader.history(asked.stream))
            elif isinstance(asked, AskedVersions):
                stream, point, before, most = asked
                reply = wanted.reply(await self._reader.versions(stream, point, before=before, most=most))
            elif isinstance(asked, AskedLasts):
                reply = wanted.reply(await self._reader.lasts(*asked))
            else:
                pasts = [await self._reader.past_stream(asked.stream, point) for point in asked.points]
                reply = wanted.reply([past.state if past.existed else None for past in pasts])
            if isinstance(reply, bytes):
                return reply
            if isinstance(reply, StartedReply):
                return reply._replace(work=reply.work._replace(past=pasts[0]))
            return self._reply(reply, await self._reader.read_then(pasts[0], reply.plan.seqs))
        except PastHorizon as error:
            return wanted.refused(api_errors.past_horizon(str(error)))
        except NoSuchStream:
            return wanted.refused(api_errors.STREAM_NOT_FOUND.error)
        except NoSuchCut as error:
            return wanted.refused(api_errors.no_such_cut(error.cut))

    def _frame(self, wanted: NeedMessage, found: Sequence[StreamMessage], reply: bytes) -> bytes:
        return encode_message(reply, self._reply(wanted, found))

    def _reply(self, wanted: NeedMessage, found: Sequence[StreamMessage]) -> bytes:
        message = found[0] if found else None
        return msg_get_reply(message, no_hdr=wanted.no_hdr, most=self._sink.payload_max)
