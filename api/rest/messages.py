"""Routes of messages: one, the last of a subject, a range, and the last of many subjects at a point."""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from api.direct.direct_plan import direct_step, multi_last
from api.direct.direct_request import DirectRequest
from api.rest import problems
from api.rest.bodies import MessageBody, MultiLastBody, message_fields, message_line
from api.rest.descriptions import SUBJECT, SUBJECTS, TIME, answer
from api.rest.freshness import UNCHANGED, tag_of_message, tag_of_range, tag_of_version, unchanged
from api.rest.negotiation import BINARY, JSON, NDJSON, negotiate, serves
from api.rest.store import RestStore
from api.rest.streams import StreamName, find_stream
from conf.limits import MULTI_LAST_MORE_SUBJECTS_MAX, MULTI_LAST_SUBJECTS_MAX
from conf.settings import Settings
from delta_store.dialect.times import format_time, parse_time
from delta_store.index.matching import iter_matching, last_by_subject, last_per_subject
from delta_store.reading.point_in_time import PastState
from delta_store.reading.read_plan import PagePlan, Part, PastPlan, ReadPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter, valid

_SEQ_MAX: Final = (1 << 63) - 1
Seq = Annotated[int | None, Query(ge=0, le=_SEQ_MAX)]
Time = Annotated[str | None, Query(description="RFC 3339", json_schema_extra=TIME)]
_FILTER: Final = "Subject filter; several may be given"
_ONE: Final = {
    **answer(content=BINARY, headers=("ETag",)),
    **problems.responses(404, 503),
    **UNCHANGED,
}
_RANGE: Final = {**answer(content=NDJSON, headers=("ETag", "Link")), **problems.responses(404, 503), **UNCHANGED}
_MULTI: Final = {
    **answer(headers=("ETag", "Link"), links={"message": {"seq": "$response.body#/messages/0/seq"}}),
    **problems.responses(404, 410, 413, 503),
    **UNCHANGED,
}


class _Question(BaseModel):
    """The parameters of ``multi-last``."""

    subject: list[str] = Field(description=_FILTER, json_schema_extra=SUBJECTS)
    up_to_seq: int | None = Field(None, ge=0, le=_SEQ_MAX)
    up_to_time: str | None = Field(None, description="RFC 3339", json_schema_extra=TIME)
    cursor: int = Field(0, ge=0, le=_SEQ_MAX, description="``next_cursor`` of the page before")
    limit: int = Field(MULTI_LAST_SUBJECTS_MAX, ge=1, le=MULTI_LAST_SUBJECTS_MAX, description="Messages in a page")


def routes(store: RestStore, settings: Settings) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])

    @router.get("/messages/{seq}", response_model=MessageBody, responses=_ONE)
    async def message(request: Request, name: StreamName, seq: Annotated[int, Path(ge=0, le=_SEQ_MAX)]) -> Response:
        """One message; ``Accept: application/octet-stream`` gives the bare payload, its particulars as headers."""
        state = await find_stream(store, name)
        if seq > state.index.last_seq:
            await store.refresh()
            state = await find_stream(store, name)
        return await _one(store, state, seq, request)

    @router.get("/last/{subject:path}", response_model=MessageBody, responses=_ONE)
    async def last(
        request: Request, name: StreamName, subject: Annotated[str, Path(json_schema_extra=SUBJECT)]
    ) -> Response:
        """The last message of a subject; the subject may have wildcards."""
        state = await find_stream(store, name)
        _filter([subject])
        return await _one(store, state, last_by_subject(state.index, subject), request)

    @router.get("/messages", response_class=StreamingResponse, responses=_RANGE, dependencies=[Depends(serves(NDJSON))])
    async def messages(
        request: Request,
        name: StreamName,
        from_seq: Seq = None,
        start_time: Time = None,
        subject: Annotated[list[str] | None, Query(description=_FILTER, json_schema_extra=SUBJECTS)] = None,
        limit: Annotated[int, Query(ge=1, le=settings.http.rows_max)] = min(1000, settings.http.rows_max),
    ) -> Response:
        """Live messages from a sequence or time on, one JSON object a line.

        ``Link: <…>; rel="next"`` names the next page when there is one.
        """
        if from_seq is not None and start_time is not None:
            raise problems.bad_request("from_seq and start_time exclude each other")
        wanted = None if subject is None else _filter(subject)
        state = await find_stream(store, name)
        start = state.index.seq_at_time(_time(start_time)) if start_time is not None else from_seq or 0
        seqs = list(islice(iter_matching(state.index, wanted, start), limit + 1))
        following = seqs[limit] if len(seqs) > limit else None
        page = PagePlan(name, state.stream_id, seqs[:limit], limit, direct_step(state.index))
        headers = {
            "ETag": tag_of_range(page.stream_id, seqs[:limit], following),
            **_next(name, following, limit, subject),
        }
        if (same := unchanged(request, headers["ETag"], headers)) is not None:
            return same
        steps = page.steps()
        first = next(steps, None)
        found = await store.reader.read(first) if first is not None else []
        return StreamingResponse(_lines(store, name, found, steps), media_type=NDJSON, headers=headers)

    @router.get("/multi-last", response_model=MultiLastBody, responses=_MULTI, dependencies=[Depends(serves(JSON))])
    async def multi_last(
        request: Request,
        name: StreamName,
        asked: Annotated[_Question, Query()],
    ) -> Response:
        """The last message of each matching subject, now or as of a sequence (inclusive) or a time (exclusive).

        The past is the true one: values that limits have removed since are shown, erased ones never.
        ``Link: <…>; rel="next"`` names the next page of the same point when there is one.
        """
        return await _multi_last(store, request, name, asked)

    return router


async def _one(store: RestStore, state: StreamState, seq: int, request: Request) -> Response:
    """Return a message by sequence as JSON or bare, or 304."""
    name, stream_id = state.config.name, state.stream_id
    if not seq or state.index.subject_of(seq) is None:
        raise problems.no_message_found()
    bare = negotiate(request, (JSON, BINARY)) == BINARY
    tag, vary = tag_of_message(stream_id, seq), {"Vary": "Accept"}
    if (same := unchanged(request, tag, vary)) is not None:
        return same
    found = await store.reader.read(ReadPlan(name, stream_id, (seq,)))
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


async def _lines(
    store: RestStore, stream: str, first: Sequence[StreamMessage], steps: Iterator[ReadPlan]
) -> AsyncIterator[bytes]:
    """Yield the page as lines; the first step was read before, so that its errors could still become a status."""
    yield b"".join(message_line(stream, message) for message in first)
    for step in steps:
        yield b"".join(message_line(stream, message) for message in await store.reader.read(step))


async def _multi_last(store: RestStore, request: Request, name: str, asked: _Question) -> Response:
    if asked.up_to_seq is not None and asked.up_to_time is not None:
        raise problems.bad_request("up_to_seq and up_to_time exclude each other")
    _filter(asked.subject)
    at_ns = None if asked.up_to_time is None else _time(asked.up_to_time)
    state = await find_stream(store, name)
    if asked.up_to_seq is not None and asked.up_to_seq > state.index.last_seq:
        await store.refresh()
        state = await find_stream(store, name)
    headers = {"ETag": tag_of_version(store.journal_version)}
    if (same := unchanged(request, headers["ETag"])) is not None:
        return same
    found = await _page_at(store, state, asked, at_ns)
    body = {
        "stream": name,
        "up_to_seq": found.up_to_seq,
        "messages": [message_fields(name, one) for one in found.messages],
        "next_cursor": found.messages[-1].seq if found.more else None,
    }
    if found.more:
        point = f"up_to_seq={found.up_to_seq}" if at_ns is None else f"up_to_time={quote(str(asked.up_to_time))}"
        filters = "".join(f"&subject={quote(subject, safe='')}" for subject in asked.subject)
        url = f"{_path(name)}/multi-last?{point}&cursor={found.messages[-1].seq}&limit={asked.limit}{filters}"
        headers["Link"] = f'<{url}>; rel="next"'
    return JSONResponse(body, headers=headers)


async def _page_at(store: RestStore, state: StreamState, asked: _Question, at_ns: int | None) -> PastState:
    """Return the page of each subject's last message at the point."""
    if asked.up_to_seq == 0:
        return PastState(0, [])
    part = Part(asked.cursor, asked.limit)
    seqs: Sequence[int]
    if asked.up_to_seq is None and at_ns is None:
        point = state.index.last_seq
        seqs = last_per_subject(state.index, SubjectFilter(asked.subject))
    else:
        question = DirectRequest(
            multi_last=tuple(asked.subject),
            up_to_seq=min(asked.up_to_seq or 0, state.index.last_seq),
            up_to_time_ns=at_ns,
            max_subjects=MULTI_LAST_MORE_SUBJECTS_MAX,
        )
        planned = multi_last(state, question)
        if isinstance(planned, PastPlan):
            return await store.reader.read_past(planned._replace(limit=part))
        (_, _, seqs), point = planned
    wanted = part.of(seqs)
    messages = await store.reader.read(ReadPlan(state.config.name, state.stream_id, wanted))
    return PastState(point or state.index.last_seq, messages, more=bool(wanted) and wanted[-1] != seqs[-1])


def _next(stream: str, seq: int | None, limit: int, subjects: list[str] | None) -> dict[str, str]:
    """Return the headers with the link to the next page, if there is one."""
    if seq is None:
        return {}
    filters = "".join(f"&subject={quote(subject, safe='')}" for subject in subjects or ())
    url = f"{_path(stream)}/messages?from_seq={seq}&limit={limit}{filters}"
    return {"Link": f'<{url}>; rel="next"'}


def _path(stream: str) -> str:
    return f"/v1/streams/{quote(stream, safe='')}"


def _filter(subjects: list[str]) -> SubjectFilter:
    for subject in subjects:
        if not valid(subject):
            raise problems.bad_request("subject: not a valid subject filter")
    return SubjectFilter(subjects)


def _time(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError as error:
        raise problems.bad_request(str(error)) from None
