"""Runs Direct Get: what is in memory is answered on the spot, everything else by workers off the loop.

Two callers. The gateway calls :meth:`DirectResponder.answer` as requests come, sends or holds back the frames with its
group, and hands what is left over to :meth:`submit` once the group is durable. A read-only responder calls
:meth:`respond`, as all that it knows is durable. Any number of responders share the requests by queue group.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from api.direct.direct_get import (
    NOT_FOUND,
    PAST_HORIZON,
    TOO_MANY_RESULTS,
    One,
    Past,
    Series,
    no_responders_frame,
    one_frame,
    past_series,
    plan,
    status_frame,
)
from api.direct.direct_request import parse_body, parse_subject, status_block
from conf.limits import READ_QUEUE_MAX
from delta_store.reading.payloads import Payloads
from delta_store.reading.point_in_time import PointInTime
from delta_store.reading.read_threads import ReadsBusy, ReadThreads
from delta_store.streams.catalog import Catalog
from delta_store.streams.copies_here import direct_server
from delta_store.values.read_errors import DamagedData, NoSuchStream, PastHorizon, ReadError, TooMany
from delta_store.values.stream_message import StreamMessage
from ingest.protocol.payload_limit import TOO_LARGE, first_oversize

QUEUE_GROUP: Final = b"_sys_"
SUBJECT: Final = b"$JS.API.DIRECT.GET.>"
_MARK: Final = b".API.DIRECT.GET."
_INLINE_STEPS: Final = 4
"""Steps that one request may take on the spot; the rest of a large batch takes turns with others."""
BUSY: Final = status_block("503 Service Unavailable")


class Request(Protocol):
    """A message as links give it; b"" stands for what is absent."""

    @property
    def subject(self) -> bytes:
        """``$JS.API.DIRECT.GET.…``, with a domain's prefix or without."""

    @property
    def reply(self) -> bytes:
        """Where the answer goes."""

    @property
    def header(self) -> bytes:
        """The raw header block."""

    @property
    def payload(self) -> bytes:
        """The JSON body, if any."""


class Store(Protocol):
    """What requests are answered from; the catalog may be replaced as a whole."""

    @property
    def catalog(self) -> Catalog:
        """The live streams."""

    @property
    def payloads(self) -> Payloads:
        """Their messages."""

    @property
    def past(self) -> PointInTime:
        """What they held before."""


class Sink(Protocol):
    """Where encoded frames go, in order; the leaf link is one."""

    @property
    def payload_max(self) -> int:
        """Bytes of header and payload that one message may have."""

    def send_runs(self, *runs: bytes) -> bool:
        """Take frames, those of a run all to one subject; False when they were not taken."""

    async def drain(self, timeout: float) -> None:
        """Wait until more may be sent."""


@dataclass(slots=True)
class Read:
    """An answer that could not be given on the spot: ``frames`` are its beginning."""

    reply: bytes
    plan: One | Series | Past
    frames: bytes = b""
    seqs: list[int] = field(default_factory=list)
    """Handed out by the series and not sent yet."""


class _SinkClosed(Exception):
    """Frames were not taken: the rest of the answer would only confuse."""


class DirectResponder:
    """Answers Direct Get from a store; ``run`` must be running for what can't be answered on the spot."""

    def __init__(
        self, store: Store, sink: Sink, threads: ReadThreads, *, concurrency: int, drain_seconds: float
    ) -> None:
        self._store = store
        self._sink = sink
        self._threads = threads
        self._concurrency = concurrency
        self._drain_seconds = drain_seconds
        self._reads: asyncio.Queue[Read] = asyncio.Queue(READ_QUEUE_MAX)

    def answer(self, request: Request) -> bytes | Read | None:
        """The encoded replies, or what is left to be read; None for a request without a reply subject."""
        reply = request.reply
        if not reply:
            return None
        name, _, key = request.subject.partition(_MARK)[2].partition(b".")
        state = direct_server(self._store.catalog, name.decode("utf-8", "replace"))
        if state is None:
            return no_responders_frame(request.subject, reply)
        if key:
            asked = parse_subject(key.decode("utf-8", "replace"), request.header, request.payload)
        else:
            asked = parse_body(request.header, request.payload)
        planned = asked if isinstance(asked, bytes) else plan(state, asked)
        if isinstance(planned, bytes):
            return status_frame(planned, reply)
        if isinstance(planned, One):
            message = self._store.payloads.now(planned.stream, planned.stream_id, planned.seq)
            return self._one(planned, message, reply) if message is not None else Read(reply, planned)
        return self._inline(planned, reply) if isinstance(planned, Series) else Read(reply, planned)

    def submit(self, read: Read) -> None:
        """Have a read finished by the workers; it must be durable by now. Refuses with a status when too many wait."""
        try:
            self._reads.put_nowait(read)
        except asyncio.QueueFull:
            self._sink.send_runs(status_frame(BUSY, read.reply))

    def respond(self, requests: Sequence[Request]) -> None:
        """Answer requests whose state is durable."""
        frames: list[bytes] = []
        for request in requests:
            answer = self.answer(request)
            if isinstance(answer, bytes):
                frames.append(answer)
            elif answer is not None:
                self.submit(answer)
        if frames:
            self._sink.send_runs(*frames)

    async def run(self) -> None:
        """Finish reads until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._work())

    def _inline(self, series: Series, reply: bytes) -> bytes | Read:
        """As much of a series as is in memory and fits a turn."""
        frames: list[bytes] = []
        for _ in range(_INLINE_STEPS):
            if not series.open:
                break
            seqs = series.wanted(series.step)
            messages = self._store.payloads.run_now(series.stream, series.stream_id, seqs)
            frames.append(self._frames(series, messages, reply))
            if len(messages) < len(seqs) and not series.full:
                return Read(reply, series, b"".join(frames), seqs[len(messages) :])
        if series.open:
            return Read(reply, series, b"".join(frames))
        frames.append(status_frame(series.end(), reply))
        return b"".join(frames)

    def _one(self, one: One, message: StreamMessage, reply: bytes) -> bytes:
        frame = one_frame(one, message, reply)
        too_large = first_oversize(frame, self._sink.payload_max) is not None
        return status_frame(TOO_LARGE, reply) if too_large else frame

    def _frames(self, series: Series, messages: Sequence[StreamMessage], reply: bytes) -> bytes:
        """The next frames; one that the hub would not take ends the series, which then says so."""
        frames = series.frames(messages, reply)
        over = first_oversize(frames, self._sink.payload_max)
        if over is None:
            return frames
        series.fail(TOO_LARGE)
        return frames[: over.start]

    async def _work(self) -> None:
        while True:
            read = await self._reads.get()
            try:
                await self._finish(read)
            except PastHorizon:
                self._sink.send_runs(status_frame(PAST_HORIZON, read.reply))
            except TooMany:
                self._sink.send_runs(status_frame(TOO_MANY_RESULTS, read.reply))
            except NoSuchStream:
                self._sink.send_runs(no_responders_frame(b"", read.reply))
            except ReadError as error:
                self._sink.send_runs(status_frame(status_block(f"500 {error.kind.value}"), read.reply))
            except (ReadsBusy, TimeoutError):
                self._sink.send_runs(status_frame(BUSY, read.reply))
            except _SinkClosed:
                continue

    async def _finish(self, read: Read) -> None:
        planned = read.plan
        if isinstance(planned, One):
            found = await self._load(planned, [planned.seq])
            block = self._one(planned, found[0], read.reply) if found else status_frame(NOT_FOUND, read.reply)
            await self._send(block)
        elif isinstance(planned, Series):
            await self._finish_series(read, planned)
        else:
            await self._finish_past(read, planned)

    async def _finish_series(self, read: Read, series: Series) -> None:
        await self._send(read.frames)
        seqs = read.seqs
        while series.open or (seqs and not series.full):
            messages = await self._load(series, seqs or series.wanted(series.step))
            seqs = []
            await self._send(self._frames(series, messages, read.reply))
        await self._send(status_frame(series.end(), read.reply))

    async def _finish_past(self, read: Read, past: Past) -> None:
        look = partial(
            self._store.past.multi_last,
            past.stream,
            past.request.multi_last,
            up_to_seq=past.up_to_seq,
            up_to_ts_ns=past.up_to_ts_ns,
            limit=past.subjects_max,
        )
        state = await self._threads.run(look)
        held = {message.seq: message for message in state.messages}
        series = past_series(past, stream_id=0, up_to_seq=state.up_to_seq, seqs=list(held))
        if isinstance(series, bytes):
            await self._send(status_frame(series, read.reply))
            return
        while series.open:
            messages = [held[seq] for seq in series.wanted(series.step)]
            await self._send(self._frames(series, messages, read.reply))
        await self._send(status_frame(series.end(), read.reply))

    async def _load(self, planned: One | Series, seqs: Sequence[int]) -> list[StreamMessage]:
        """The messages in order; those that were removed meanwhile are left out.

        Raises ``DamagedData`` when one that is live is nowhere to be found: that must not look like "no message".
        """
        payloads, stream, stream_id = self._store.payloads, planned.stream, planned.stream_id
        near = payloads.run_now(stream, stream_id, seqs)
        rest = seqs[len(near) :]
        if not rest:
            return near
        found = await self._threads.run(partial(payloads.fetch, stream, stream_id, rest))
        state = self._store.catalog.streams.get(stream)
        if state is not None and state.stream_id == stream_id:
            for seq in rest:
                if seq not in found and state.index.subject_of(seq) is not None:
                    raise DamagedData(f"stream {stream}", f"message {seq} is in no file")
        return near + [found[seq] for seq in rest if seq in found]

    async def _send(self, frames: bytes) -> None:
        if not frames:
            return
        if not self._sink.send_runs(frames):
            raise _SinkClosed
        await self._sink.drain(self._drain_seconds)
