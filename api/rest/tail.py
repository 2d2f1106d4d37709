"""The live tail of a stream as server-sent events: each message once it is committed, from a place on.

An event's id is the message's place, its sequence and the stream's incarnation, so a client that comes back with
``Last-Event-ID`` goes on where it was, or begins anew with a stream that was made again meanwhile.
Nothing is queued for a client: the next messages are read when it has taken the last ones.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import BaseModel, Field

from api.direct.direct_plan import direct_step
from api.process.first_of import first_of
from api.rest import problems
from api.rest.bodies import message_line
from api.rest.descriptions import SUBJECTS, TIME, answer
from api.rest.lasting_answer import LastingResponse
from api.rest.negotiation import serves
from api.rest.parameters import (
    FILTER,
    HEADER_FILTER,
    HeaderFilter,
    StreamName,
    exclusive,
    subject_filter,
    time_ns,
)
from api.rest.services import Services
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import HTTP_TAILS_MAX, SEQUENCE_MAX, TAIL_HEARTBEAT_SECONDS
from delta_store.index.matching import iter_matching
from delta_store.reading.read_plan import ReadPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values.stream_message import StreamMessage

EVENTS: Final = "text/event-stream"
_EVENT: Final = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
    "required": ["data"],
}
"""One event of the stream."""
_TAIL: Final = {
    **answer({EVENTS: {"schema": _EVENT}}),
    **problems.responses(404, 503),
}
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_RETRY: Final = b"retry: 1000\n\n"
_HEARTBEAT: Final = b": nothing new\n\n"
_DELETED: Final = b"event: deleted\ndata: {}\n\n"
_DAY: Final = 86_400.0
_PLACE: Final = r"^[0-9]{1,19}(-[0-9]{1,19})?$"
"""A sequence, and the incarnation of its stream."""


class _Asked(BaseModel):
    """The parameters of a tail."""

    from_seq: int | None = Field(None, ge=0, le=SEQUENCE_MAX, description="Inclusive; without a start, new ones only")
    from_time: str | None = Field(None, description="RFC 3339, inclusive", json_schema_extra=TIME)
    subject: list[str] | None = Field(None, description=FILTER, json_schema_extra=SUBJECTS)
    header: list[str] | None = Field(None, description=HEADER_FILTER)
    seconds: float | None = Field(None, gt=0, le=_DAY, description="End after so long; without it, never")


class _TailPlace:
    """The place of one client in a stream."""

    def __init__(self, store: RestStore, state: StreamState, asked: _Asked, after: str | None) -> None:
        """Raises :class:`problems.Refused` for parameters that can't be."""
        self._store = store
        self._name, self._stream_id = state.config.name, state.stream_id
        self._subjects = None if asked.subject is None else subject_filter(asked.subject)
        self._headers = HeaderFilter(asked.header or ())
        self._next = self._start(state, asked, after)

    @staticmethod
    def _start(state: StreamState, asked: _Asked, after: str | None) -> int:
        exclusive(from_seq=asked.from_seq, from_time=asked.from_time)
        if after is not None:
            seq, _, stream_id = after.partition("-")
            if int(seq) > SEQUENCE_MAX:
                raise problems.bad_request(f"Last-Event-ID: {seq} is above {SEQUENCE_MAX}")
            return int(seq) + 1 if stream_id in ("", str(state.stream_id)) else 0
        if asked.from_time is not None:
            return state.index.seq_at_time(time_ns(asked.from_time))
        return state.index.last_seq + 1 if asked.from_seq is None else asked.from_seq

    @property
    def state(self) -> StreamState | None:
        """The stream; None once it is deleted."""
        state = self._store.catalog.streams.get(self._name)
        return state if state is not None and state.stream_id == self._stream_id else None

    async def read(self, state: StreamState) -> tuple[Sequence[StreamMessage], bool]:
        """Return the next messages, and whether more may be there already."""
        most, last = direct_step(state.index), state.index.last_seq
        seqs = list(islice(iter_matching(state.index, self._subjects, self._next), most))
        more = len(seqs) == most
        self._next = seqs[-1] + 1 if more else max(self._next, last + 1)
        found = await self._store.reader.read(ReadPlan(self._name, self._stream_id, seqs)) if seqs else []
        return [message for message in found if self._headers.matches(message.headers)], more


def routes(store: RestStore, services: Services) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])
    open_tails = 0

    def closed() -> None:
        nonlocal open_tails
        open_tails -= 1

    @router.get("/messages/tail", response_class=Response, responses=_TAIL, dependencies=[Depends(serves(EVENTS))])
    async def tail(
        name: StreamName,
        asked: Annotated[_Asked, Query()],
        last_event_id: Annotated[str | None, Header(pattern=_PLACE, description="Go on behind this one")] = None,
    ) -> Response:
        """Messages as server-sent events as soon as they are committed: ``id`` is the place, ``data`` the JSON.

        Reconnecting with ``Last-Event-ID``, as browsers do, goes on where it was: an ``id``, or a sequence. In a stream
        that was deleted and made again it begins with the first message. ``event: deleted`` ends it with its stream.
        """
        nonlocal open_tails
        state = await find_stream(store, name)
        place = _TailPlace(store, state, asked, last_event_id)
        if open_tails >= HTTP_TAILS_MAX:
            raise problems.Refused(503, problems.BUSY, f"there are {HTTP_TAILS_MAX} tails already")
        open_tails += 1
        return LastingResponse(_events(store, name, place, services.stopping, asked.seconds), closed, EVENTS, _HEADERS)

    return router


async def _events(
    store: RestStore, name: str, place: _TailPlace, stopping: asyncio.Event, seconds: float | None
) -> AsyncIterator[bytes]:
    """Yield events until the stream is deleted, the process ends or the time is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + (seconds if seconds is not None else _DAY * 365)
    yield _RETRY
    while not stopping.is_set():
        version, state = store.journal_version, place.state
        if state is None:
            yield _DELETED
            return
        messages, more = await place.read(state)
        left = max(0.0, end - loop.time())
        wait = min(TAIL_HEARTBEAT_SECONDS, left)
        if messages:
            yield b"".join(_event(name, state.stream_id, message) for message in messages)
        elif not more and not await _news(store, version, stopping, wait):
            if wait == left:
                return
            yield _HEARTBEAT
        if not left:
            return


def _event(stream: str, stream_id: int, message: StreamMessage) -> bytes:
    return b"id: %d-%d\ndata: %s\n" % (message.seq, stream_id, message_line(stream, message))


async def _news(store: RestStore, version: int, stopping: asyncio.Event, seconds: float) -> bool:
    """Wait until there is another version, or the process ends; return False if neither comes in time."""
    try:
        async with asyncio.timeout(seconds):
            await first_of(store.changed(version), stopping.wait())
    except TimeoutError:
        return False
    return True
