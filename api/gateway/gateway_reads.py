"""The gateway's answers that hold stored messages: Direct Get, and STREAM.MSG.GET.

What is in memory is answered when it is asked for, with the group that gathers; what must be read from files is begun
when that group is durable, off the event loop.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

from api.jetstream.api_call import NeedMessage
from api.jetstream.responses import msg_get_reply
from api.responder.direct_responder import DirectResponder, Read, Sink
from conf.limits import READ_QUEUE_MAX
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadsBusy, ReadThreads
from delta_store.streams.catalog import Catalog
from delta_store.values.read_errors import ReadError
from delta_store.values.records import RowColumns
from delta_store.values.stream_message import StreamMessage
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage

_WORKERS: Final = 2


class StoredRead:
    """A STREAM.MSG.GET whose message has to be read from a file."""

    __slots__ = ("reply", "wanted")

    def __init__(self, wanted: NeedMessage, reply: bytes) -> None:
        self.wanted = wanted
        self.reply = reply


class ReadStore:
    """What the Direct Get responder answers from."""

    __slots__ = ("catalog", "past", "payloads")

    def __init__(self, catalog: Catalog, payloads: Payloads, past: PointInTime) -> None:
        self.catalog = catalog
        self.payloads = payloads
        self.past = past


class GatewayReads:
    """Decides reads at once; :meth:`submit` finishes those that could not be answered from memory."""

    def __init__(
        self, store: ReadStore, sink: Sink, threads: ReadThreads, *, concurrency: int, drain_seconds: float
    ) -> None:
        self._payloads = store.payloads
        self._catalog = store.catalog
        self._sink = sink
        self._threads = threads
        self._direct = DirectResponder(store, sink, threads, concurrency=concurrency, drain_seconds=drain_seconds)
        self._stored: asyncio.Queue[StoredRead] = asyncio.Queue(READ_QUEUE_MAX)

    def direct(self, request: WireMessage) -> bytes | Read | None:
        """Answer a Direct Get as far as memory goes: frames, what is left to read, or None for no answer."""
        return self._direct.answer(request)

    def stored(self, wanted: NeedMessage, reply: bytes) -> bytes | StoredRead:
        """Answer a STREAM.MSG.GET: a frame, or what is left to read."""
        message = self._payloads.now(wanted.stream, wanted.stream_id, wanted.seq)
        if message is None:
            return StoredRead(wanted, reply)
        return encode_message(reply, self._reply(wanted, message))

    def keep(self, rows: RowColumns, payload_bytes: int) -> None:
        """Rows are durable: keep their payloads at hand."""
        self._payloads.stored(rows, payload_bytes=payload_bytes)

    def submit(self, read: Read | StoredRead) -> None:
        """Finish a read whose state is durable by now."""
        if isinstance(read, Read):
            self._direct.submit(read)
            return
        answer = self.stored(read.wanted, read.reply)
        if isinstance(answer, bytes):
            self._sink.send_runs(answer)
            return
        # Too many wait already: no answer, so that the client asks again.
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
            wanted = read.wanted
            try:
                fetch = partial(self._payloads.fetch, wanted.stream, wanted.stream_id, [wanted.seq])
                found = (await self._threads.run(fetch)).get(wanted.seq)
            except (ReadError, ReadsBusy, TimeoutError):
                continue  # no answer: a client tries again, and must not take damage for a missing message
            if found is None and self._is_live(wanted):
                continue  # likewise
            self._sink.send_runs(encode_message(read.reply, self._reply(wanted, found)))

    def _reply(self, wanted: NeedMessage, message: StreamMessage | None) -> bytes:
        return msg_get_reply(message, no_hdr=wanted.no_hdr, most=self._sink.payload_max)

    def _is_live(self, wanted: NeedMessage) -> bool:
        state = self._catalog.streams.get(wanted.stream)
        return state is not None and state.stream_id == wanted.stream_id and state.index.live.sid_of(wanted.seq) >= 0
