"""The execution of Direct Get: replies from memory at once, all others by workers off the loop.

Two callers. The gateway calls :meth:`DirectResponder.answer` on each request, sends or holds back the frames with its
group, and passes the rest to :meth:`submit` when the group is durable. A read-only responder calls :meth:`respond`, as
all its state is durable. Any number of responders share the requests by queue group.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

from api.direct.direct_frames import (
    NO_SUCH_CUT,
    NOT_FOUND,
    TOO_MANY_RESULTS,
    PageFrames,
    no_responders_frame,
    nothing,
    one_frame,
    past_horizon_block,
    status_frame,
)
from api.direct.direct_plan import Lasts, multi_page, plan
from api.direct.direct_request import DirectRequest, parse_body, parse_subject, status_block
from conf.limits import READ_QUEUE_MAX
from delta_store.reading.read_plan import PagePlan, PastPlan, ReadPlan
from delta_store.reading.read_threads import ReadsBusy
from delta_store.reading.store_reader import StoreReader
from delta_store.streams.copies_here import direct_server
from delta_store.streams.stream_state import StreamState
from delta_store.values.read_errors import NoSuchCut, NoSuchStream, PastHorizon, ReadError, StoreAway, TooMany
from delta_store.values.stream_message import StreamMessage
from ingest.protocol.payload_limit import TOO_LARGE, first_oversize

QUEUE_GROUP: Final = b"_sys_"
SUBJECT: Final = b"$JS.API.DIRECT.GET.>"
_MARK: Final = b".API.DIRECT.GET."
_INLINE_STEPS: Final = 4
"""Steps of one request done at once; the rest of a large batch takes turns with others."""
BUSY: Final = status_block("503 Service Unavailable")


ReadStep = Callable[[ReadPlan], Awaitable[list[StreamMessage]]]


class Request(Protocol):
    """A link's message; absent parts are empty."""

    @property
    def subject(self) -> bytes:
        """``$JS.API.DIRECT.GET.…``, with a domain's prefix or without."""

    @property
    def reply(self) -> bytes:
        """The reply subject."""

    @property
    def header(self) -> bytes:
        """The raw header block."""

    @property
    def payload(self) -> bytes:
        """The JSON body, if any."""


class Sink(Protocol):
    """A receiver of encoded frames, in order, such as the leaf link."""

    @property
    def payload_max(self) -> int:
        """Most bytes of header and payload in one message."""

    def send_runs(self, *runs: bytes) -> bool:
        """Send frames, each run to one subject; return False if they were not sent."""

    async def drain(self, timeout: float) -> None:
        """Wait until more may be sent. Raises ``TimeoutError``."""


class _Rest(NamedTuple):
    """The rest of a page: ``frames`` are encoded, ``steps`` are still to be read."""

    page: PageFrames
    steps: Iterator[ReadPlan]
    frames: bytes = b""


class _Then(NamedTuple):
    """A request for a stream as it stood: what answers it is planned once its state has been read."""

    stream: str


@dataclass(frozen=True, slots=True)
class Read:
    """A reply that needs reads."""

    reply: bytes
    asked: DirectRequest
    left: ReadPlan | _Rest | PastPlan | _Then


class _SinkClosed(Exception):
    """Frames were not sent, so the rest of the reply is dropped."""


def _planned(state: StreamState, asked: DirectRequest) -> ReadPlan | PagePlan | PastPlan | _Then | bytes:
    """Return what is to be read for a reply, or the header block of one without messages."""
    if asked.as_of:
        return _Then(state.name)
    try:
        return plan(state, asked) or nothing(asked)
    except TooMany:
        return TOO_MANY_RESULTS


class DirectResponder:
    """Direct Get from a store; :meth:`run` must be running for replies that need reads."""

    def __init__(self, reader: StoreReader, sink: Sink, *, concurrency: int, drain_seconds: float) -> None:
        self._reader = reader
        self._store = reader.store
        self._payloads = reader.payloads
        self._sink = sink
        self._concurrency = concurrency
        self._drain_seconds = drain_seconds
        self._reads: asyncio.Queue[Read] = asyncio.Queue(READ_QUEUE_MAX)

    def answer(self, request: Request) -> bytes | Read | None:
        """Return the encoded replies, or the read that is left; None for a request without a reply subject."""
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
        if isinstance(asked, bytes):
            return status_frame(asked, reply)
        planned = _planned(state, asked)
        if isinstance(planned, bytes):
            return status_frame(planned, reply)
        if isinstance(planned, ReadPlan):
            message = self._payloads.now(planned.stream, planned.stream_id, planned.seqs[0])
            return self._one(asked, planned, message, reply) if message is not None else Read(reply, asked, planned)
        return self._inline(planned, asked, reply) if isinstance(planned, PagePlan) else Read(reply, asked, planned)

    def submit(self, read: Read) -> None:
        """Queue a read, whose state must be durable, for the workers; refuses with a status when too many wait."""
        try:
            self._reads.put_nowait(read)
        except asyncio.QueueFull:
            self._sink.send_runs(status_frame(BUSY, read.reply))

    def respond(self, requests: Sequence[Request]) -> None:
        """Reply to requests whose state is durable."""
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

    def _inline(self, planned: PagePlan, asked: DirectRequest, reply: bytes) -> bytes | Read:
        """Return the reply if the page is in memory and fits :data:`_INLINE_STEPS` steps, else the read left."""
        page, steps, frames = PageFrames(planned, no_hdr=asked.no_hdr), planned.steps(), list[bytes]()
        for step in islice(steps, _INLINE_STEPS):
            messages = self._payloads.run_now(*step)
            frames.append(self._frames(page, messages, reply))
            if page.full:
                break
            if len(messages) < len(step.seqs):
                rest = step._replace(seqs=step.seqs[len(messages) :])
                return Read(reply, asked, _Rest(page, chain([rest], steps), b"".join(frames)))
        else:
            following = next(steps, None)
            if following is not None:
                return Read(reply, asked, _Rest(page, chain([following], steps), b"".join(frames)))
        frames.append(status_frame(page.end(), reply))
        return b"".join(frames)

    def _one(self, asked: DirectRequest, one: ReadPlan, message: StreamMessage, reply: bytes) -> bytes:
        frame = one_frame(one.stream, message, reply, no_hdr=asked.no_hdr)
        too_large = first_oversize(frame, self._sink.payload_max) is not None
        return status_frame(TOO_LARGE, reply) if too_large else frame

    def _frames(self, page: PageFrames, messages: Sequence[StreamMessage], reply: bytes) -> bytes:
        """Return the next frames; one too large for the hub ends the page with a status."""
        frames = page.frames(messages, reply)
        over = first_oversize(frames, self._sink.payload_max)
        if over is None:
            return frames
        page.fail(TOO_LARGE)
        return frames[: over.start]

    async def _work(self) -> None:
        while True:
            read = await self._reads.get()
            try:
                await self._finish(read)
            except PastHorizon as error:
                self._sink.send_runs(status_frame(past_horizon_block(error.oldest), read.reply))
            except NoSuchCut:
                self._sink.send_runs(status_frame(NO_SUCH_CUT, read.reply))
            except TooMany:
                self._sink.send_runs(status_frame(TOO_MANY_RESULTS, read.reply))
            except NoSuchStream:
                self._sink.send_runs(no_responders_frame(b"", read.reply))
            except (StoreAway, ReadsBusy, TimeoutError):
                self._sink.send_runs(status_frame(BUSY, read.reply))
            except ReadError as error:
                self._sink.send_runs(status_frame(status_block(f"500 {error.kind.value}"), read.reply))
            except _SinkClosed:
                continue

    async def _finish(self, read: Read) -> None:
        left, reply = read.left, read.reply
        if isinstance(left, ReadPlan):
            found = await self._reader.read(left)
            await self._send(self._one(read.asked, left, found[0], reply) if found else status_frame(NOT_FOUND, reply))
        elif isinstance(left, PastPlan):
            state = await self._reader.read_past(left)
            held = {message.seq: message for message in state.messages}
            page = multi_page(Lasts(ReadPlan(left.stream, 0, list(held)), state.up_to_seq), read.asked)
            if page is None:
                await self._send(status_frame(nothing(read.asked), reply))
            else:

                async def held_of(step: ReadPlan) -> list[StreamMessage]:
                    return [held[seq] for seq in step.seqs]

                await self._finish_page(_Rest(PageFrames(page), page.steps()), reply, held_of)
        elif isinstance(left, _Then):
            await self._finish_then(left, read.asked, reply)
        else:
            await self._finish_page(left, reply, self._reader.read)

    async def _finish_then(self, then: _Then, asked: DirectRequest, reply: bytes) -> None:
        """Reply as of a past point, by the plan that the state of then gives."""
        past = await self._reader.past_stream(then.stream, asked.as_of)
        planned = plan(past.state, asked)

        async def read(step: ReadPlan) -> list[StreamMessage]:
            return await self._reader.read_then(past, step.seqs)

        if isinstance(planned, PagePlan):
            await self._finish_page(_Rest(PageFrames(planned, no_hdr=asked.no_hdr), planned.steps()), reply, read)
        elif isinstance(planned, ReadPlan) and (found := await read(planned)):
            await self._send(self._one(asked, planned, found[0], reply))
        else:
            await self._send(status_frame(nothing(asked), reply))

    async def _finish_page(self, rest: _Rest, reply: bytes, read: ReadStep) -> None:
        """Send the rest of a page, whose parts ``read`` gives."""
        await self._send(rest.frames)
        for step in rest.steps:
            messages = await read(step)
            await self._send(self._frames(rest.page, messages, reply))
            if rest.page.full:
                break
        await self._send(status_frame(rest.page.end(), reply))

    async def _send(self, frames: bytes) -> None:
        if not frames:
            return
        if not self._sink.send_runs(frames):
            raise _SinkClosed
        await self._sink.drain(self._drain_seconds)
