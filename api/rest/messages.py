"""Routes about messages: one, the last of a subject, a range, and the last of many subjects at a point."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from api.direct_get import TOO_MANY_RESULTS, Past, Series, plan, step_of
from api.direct_request import DirectRequest
from api.go_time import format_time, parse_time
from api.rest import problems
from api.rest.bodies import MessageBody, MultiLastBody, message_fields, message_line
from api.rest.freshness import tag_of_message, tag_of_version, unchanged
from api.rest.store import RestStore
from api.rest.streams import StreamName, find_stream
from conf.limits import MULTI_LAST_SUBJECTS_MAX
from conf.settings import Settings
from delta_store.read_errors import TooMany
from delta_store.stored_message import StoredMessage
from delta_store.stream_state import StreamState
from delta_store.subjects import SubjectFilter, valid

NDJSON: Final = "application/x-ndjson"
BINARY: Final = "application/octet-stream"
_SEQ_MAX: Final = (1 << 63) - 1
Subjects = Annotated[list[str] | None, Query(description="Subject filter; several may be given")]
Seq = Annotated[int | None, Query(ge=0, le=_SEQ_MAX)]
Time = Annotated[str | None, Query(description="RFC 3339", examples=["2026-01-02T03:04:05.000000006Z"])]
_PAYLOAD: dict[int | str, dict[str, Any]] = {
    200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
}
_LINES: dict[int | str, dict[str, Any]] = {
    200: {"content": {NDJSON: {"schema": {"$ref": "#/components/schemas/MessageBody"}}}}
}


class _Range(NamedTuple):
    """A page of messages, decided before the first is read."""

    stream: str
    stream_id: int
    seqs: list[int]
    next_seq: int | None
    step: int
    """How many to read at a time."""


def routes(store: RestStore, settings: Settings) -> APIRouter:
    """The routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])

    @router.get("/messages/{seq}", response_model=MessageBody, responses={**_PAYLOAD, **problems.responses(404, 503)})
    async def message(request: Request, name: StreamName, seq: Annotated[int, Path(ge=0, le=_SEQ_MAX)]) -> Response:
        """One message; ``Accept: application/octet-stream`` gives the bare payload, its particulars as headers."""
        state = await find_stream(store, name)
        if seq > state.index.last_seq:
            await store.refresh()
            state = await find_stream(store, name)
        return await _one(store, state, seq, request)

    @router.get(
        "/last/{subject:path}", response_model=MessageBody, responses={**_PAYLOAD, **problems.responses(404, 503)}
    )
    async def last(request: Request, name: StreamName, subject: str) -> Response:
        """The last message of a subject; the subject may have wildcards."""
        state = await find_stream(store, name)
        _filter([subject])
        return await _one(store, state, state.index.last_by_subject(subject), request)

    @router.get("/messages", response_class=StreamingResponse, responses={**_LINES, **problems.responses(404, 503)})
    async def messages(
        name: StreamName,
        from_seq: Seq = None,
        start_time: Time = None,
        subject: Subjects = None,
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
        seqs = list(islice(state.index.iter_matching(wanted, start), limit + 1))
        following = seqs[limit] if len(seqs) > limit else None
        page = _Range(name, state.stream_id, seqs[:limit], following, step_of(state.index))
        first = await _load(store, page.stream, page.stream_id, page.seqs[: page.step])
        return StreamingResponse(_lines(store, page, first), media_type=NDJSON, headers=_next(page, limit, subject))

    @router.get("/multi-last", response_model=MultiLastBody, responses=problems.responses(404, 410, 413, 503))
    async def multi_last(
        request: Request,
        name: StreamName,
        subject: Annotated[list[str], Query(description="Subject filter; several may be given")],
        up_to_seq: Seq = None,
        up_to_time: Time = None,
    ) -> Response:
        """The last message of each matching subject, now or as of a sequence (inclusive) or a time (exclusive).

        The past is the true one: values that limits have removed since are shown, erased ones never.
        """
        if up_to_seq is not None and up_to_time is not None:
            raise problems.bad_request("up_to_seq and up_to_time exclude each other")
        _filter(subject)
        state = await find_stream(store, name)
        if up_to_seq is not None and up_to_seq > state.index.last_seq:
            await store.refresh()
            state = await find_stream(store, name)
        tag = tag_of_version(store.journal_version)
        if (same := unchanged(request, tag)) is not None:
            return same
        at_ns = None if up_to_time is None else _time(up_to_time)
        point, found = await _multi(store, state, subject, up_to_seq, at_ns)
        body = {"stream": name, "up_to_seq": point, "messages": [message_fields(name, one) for one in found]}
        return JSONResponse(body, headers={"ETag": tag})

    return router


async def _one(store: RestStore, state: StreamState, seq: int, request: Request) -> Response:
    """A message by sequence as JSON or bare, or 304."""
    name, stream_id = state.config.name, state.stream_id
    if not seq or state.index.subject_of(seq) is None:
        raise problems.no_message_found()
    bare = _wants_payload(request)
    tag, vary = tag_of_message(stream_id, seq), {"Vary": "Accept"}
    if (same := unchanged(request, tag, vary)) is not None:
        return same
    found = await _load(store, name, stream_id, [seq])
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


async def _load(store: RestStore, stream: str, stream_id: int, seqs: Sequence[int]) -> list[StoredMessage]:
    """The messages in order, without those that are gone meanwhile."""
    near = store.payloads.run_now(stream, stream_id, seqs)
    rest = seqs[len(near) :]
    if not rest:
        return near
    found = await store.threads.run(partial(store.payloads.fetch, stream, stream_id, rest))
    return near + [found[seq] for seq in rest if seq in found]


async def _lines(store: RestStore, page: _Range, first: list[StoredMessage]) -> AsyncIterator[bytes]:
    """The page as lines; the first chunk was read before, so that its errors could still become a status."""
    yield b"".join(message_line(page.stream, message) for message in first)
    for start in range(page.step, len(page.seqs), page.step):
        chunk = await _load(store, page.stream, page.stream_id, page.seqs[start : start + page.step])
        yield b"".join(message_line(page.stream, message) for message in chunk)


async def _multi(
    store: RestStore, state: StreamState, subjects: list[str], up_to_seq: int | None, up_to_ns: int | None
) -> tuple[int, list[StoredMessage]]:
    """The point that was answered for, and the messages."""
    if up_to_seq == 0:
        return 0, []
    point = min(up_to_seq, state.index.last_seq) if up_to_seq is not None else 0
    asked = DirectRequest(multi_last=tuple(subjects), up_to_seq=point, up_to_time_ns=up_to_ns)
    planned = plan(state, asked)
    if isinstance(planned, Series):
        seqs = planned.wanted(MULTI_LAST_SUBJECTS_MAX)
        return planned.up_to_seq or 0, await _load(store, planned.stream, planned.stream_id, seqs)
    if isinstance(planned, Past):
        look = partial(
            store.past.multi_last,
            planned.stream,
            subjects,
            up_to_seq=planned.up_to_seq,
            up_to_ts_ns=planned.up_to_ts_ns,
            limit=MULTI_LAST_SUBJECTS_MAX,
        )
        past = await store.threads.run(look)
        return past.up_to_seq, past.messages
    if planned == TOO_MANY_RESULTS:
        raise TooMany(MULTI_LAST_SUBJECTS_MAX)
    if up_to_ns is not None:
        point = max(0, state.index.seq_at_time(up_to_ns) - 1)
    return point or state.index.last_seq, []


def _next(page: _Range, limit: int, subjects: list[str] | None) -> dict[str, str]:
    """The headers that name the next page, if there is one."""
    if page.next_seq is None:
        return {}
    filters = "".join(f"&subject={quote(subject, safe='')}" for subject in subjects or ())
    url = f"/v1/streams/{quote(page.stream, safe='')}/messages?from_seq={page.next_seq}&limit={limit}{filters}"
    return {"Link": f'<{url}>; rel="next"'}


def _wants_payload(request: Request) -> bool:
    """Whether the client takes the bare payload rather than JSON."""
    accepted = request.headers.get("accept", "*/*")
    kinds = [one.partition(";")[0].strip().lower() for one in accepted.split(",")]
    for kind in kinds:
        if kind == BINARY:
            return True
        if kind in ("application/json", "application/*", "*/*"):
            return False
    raise problems.Refused(406, problems.OTHER, f"give application/json or {BINARY} in Accept")


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
