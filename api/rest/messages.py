"""Routes of single messages: by sequence, and the last of a subject."""

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse

from api.rest import problems
from api.rest.bodies import MessageBody, message_fields
from api.rest.descriptions import BARE, SUBJECT, answer
from api.rest.freshness import UNCHANGED, tag_of_message, unchanged
from api.rest.negotiation import BINARY, JSON, negotiate
from api.rest.parameters import AsOfPoint, StreamName, subject_filter
from api.rest.store import RestStore
from api.rest.streams import find_stream, stream_then
from conf.limits import SEQUENCE_MAX
from delta_store.dialect.times import format_time
from delta_store.index.matching import last_by_subject
from delta_store.reading.past_streams import PastStream
from delta_store.reading.read_plan import ReadPlan
from delta_store.streams.stream_state import StreamState

_ONE: Final = {
    **answer(BARE, headers=("ETag",)),
    **problems.responses(404, 410, 503),
    **UNCHANGED,
}


def routes(store: RestStore) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])

    @router.get("/messages/{seq}", response_model=MessageBody, responses=_ONE)
    async def message(
        request: Request,
        name: StreamName,
        seq: Annotated[int, Path(ge=0, le=SEQUENCE_MAX)],
        as_of: AsOfPoint = None,
    ) -> Response:
        """One message; ``Accept: application/octet-stream`` gives the bare payload, its particulars as headers."""
        if as_of is not None:
            past = await stream_then(store, name, as_of)
            return await _one(store, past.state, seq, request, past)
        state = await find_stream(store, name)
        if seq > state.index.last_seq:
            await store.refresh()
            state = await find_stream(store, name)
        return await _one(store, state, seq, request)

    @router.get("/last/{subject:path}", response_model=MessageBody, responses=_ONE)
    async def last(
        request: Request,
        name: StreamName,
        subject: Annotated[str, Path(json_schema_extra=SUBJECT)],
        as_of: AsOfPoint = None,
    ) -> Response:
        """The last message of a subject; the subject may have wildcards."""
        subject_filter([subject])
        if as_of is not None:
            past = await stream_then(store, name, as_of)
            return await _one(store, past.state, last_by_subject(past.state.index, subject), request, past)
        state = await find_stream(store, name)
        return await _one(store, state, last_by_subject(state.index, subject), request)

    return router


async def _one(
    store: RestStore, state: StreamState, seq: int, request: Request, past: PastStream | None = None
) -> Response:
    """Return a message by sequence as JSON or bare, or 304; of the past where ``state`` is of it."""
    name, stream_id = state.config.name, state.stream_id
    if not seq or state.index.subject_of(seq) is None:
        raise problems.no_message_found()
    bare = negotiate(request, (JSON, BINARY)) == BINARY
    tag, vary = tag_of_message(stream_id, seq), {"Vary": "Accept"}
    if (same := unchanged(request, tag, vary)) is not None:
        return same
    if past is None:
        found = await store.reader.read(ReadPlan(name, stream_id, (seq,)))
    else:
        found = await store.reader.read_then(past, (seq,))
    if not found:
        raise problems.no_message_found()
    headers = {"ETag": tag, **vary}
    if not bare:
        return JSONResponse(message_fields(name, found[0]), headers=headers)
    particulars = {
        "Nats-Stream": name,
        "Nats-Subject": quote(found[0].subject, safe="!#$&'*+-.^_`|~>/:;=@()[]{}?,"),
        "Nats-Sequence": str(seq),
        "Nats-Time-Stamp": format_time(found[0].ts_ns),
    }
    return Response(found[0].data, media_type=BINARY, headers=headers | particulars)
