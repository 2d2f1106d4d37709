"""The last message of many subjects, now or at a point."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.direct.direct_plan import multi_last as plan_multi_last
from api.direct.direct_request import DirectRequest
from api.formats.table_format import TableFormat
from api.rest import problems
from api.rest.bodies import MultiLastBody, message_fields
from api.rest.descriptions import SUBJECTS, TIME, answer
from api.rest.freshness import UNCHANGED, tag_of_version, unchanged
from api.rest.message_tables import RANGE_FORMATS, InPath, chosen_format, described, encoded
from api.rest.negotiation import serves
from api.rest.parameters import FILTER, StreamName, exclusive, next_link, subject_filter, time_ns
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import MULTI_LAST_SUBJECTS_MAX, SEQUENCE_MAX
from delta_store.index.matching import last_per_subject
from delta_store.reading.point_in_time import PastState
from delta_store.reading.read_plan import Part, PastPlan, ReadPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values.subjects import SubjectFilter

_FORMATS: Final = (TableFormat.JSON, *RANGE_FORMATS)
_PROBLEMS: Final = {**problems.responses(404, 410, 503), **UNCHANGED}
_FOUND: Final = {"message": {"seq": "$response.body#/messages/0/seq"}}
_HEADERS: Final = ("ETag", "Link", "Silt-Up-To-Seq")


class _Question(BaseModel):
    """The parameters of ``multi-last``."""

    subject: list[str] = Field(description=FILTER, json_schema_extra=SUBJECTS)
    up_to_seq: int | None = Field(None, ge=0, le=SEQUENCE_MAX)
    up_to_time: str | None = Field(None, description="RFC 3339", json_schema_extra=TIME)
    cursor: int = Field(0, ge=0, le=SEQUENCE_MAX, description="``next_cursor`` of the page before")
    limit: int = Field(MULTI_LAST_SUBJECTS_MAX, ge=1, le=MULTI_LAST_SUBJECTS_MAX, description="Messages in a page")


def routes(store: RestStore) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])
    tables: dict[str, Any] = answer(described(RANGE_FORMATS), headers=_HEADERS)[200]

    @router.get(
        "/multi-last",
        response_model=MultiLastBody,
        responses={200: tables | {"links": answer(links=_FOUND)[200]["links"]}, **_PROBLEMS},
        dependencies=[Depends(serves(*(kind.media_type for kind in _FORMATS)))],
    )
    async def multi_last(request: Request, name: StreamName, asked: Annotated[_Question, Query()]) -> Response:
        """The last message of each matching subject, now or as of a sequence (inclusive) or a time (exclusive).

        The past is the true one: values that limits have removed since are shown, erased ones never.
        ``Link: <…>; rel="next"`` names the next page of the same point when there is one.
        """
        return await _answer(store, request, name, asked, chosen_format(request, _FORMATS))

    @router.get("/multi-last.{extension}", response_class=Response, responses={200: tables, **_PROBLEMS})
    async def multi_last_as(
        request: Request, name: StreamName, extension: InPath, asked: Annotated[_Question, Query()]
    ) -> Response:
        """The same in the format that the path names."""
        return await _answer(store, request, name, asked, extension.table_format)

    return router


async def _answer(store: RestStore, request: Request, name: str, asked: _Question, kind: TableFormat) -> Response:
    exclusive(up_to_seq=asked.up_to_seq, up_to_time=asked.up_to_time)
    subject_filter(asked.subject)
    at_ns = None if asked.up_to_time is None else time_ns(asked.up_to_time)
    state = await find_stream(store, name)
    if asked.up_to_seq is not None and asked.up_to_seq > state.index.last_seq:
        await store.refresh()
        state = await find_stream(store, name)
    said = {"ETag": tag_of_version(store.journal_version), "Vary": "Accept"}
    if (same := unchanged(request, said["ETag"], {"Vary": "Accept"})) is not None:
        return same
    found = await _page_at(store, state, asked, at_ns)
    last = found.messages[-1].seq if found.more else None
    said["Silt-Up-To-Seq"] = str(found.up_to_seq)
    if last is not None:
        point = {"up_to_seq": found.up_to_seq} if at_ns is None else {"up_to_time": asked.up_to_time}
        said |= next_link(request.url.path, **point, cursor=last, limit=asked.limit, subject=asked.subject)
    if kind is not TableFormat.JSON:
        return Response(encoded(name, kind, found.messages), media_type=kind.media_type, headers=said)
    body = {
        "stream": name,
        "up_to_seq": found.up_to_seq,
        "messages": [message_fields(name, one) for one in found.messages],
        "next_cursor": last,
    }
    return JSONResponse(body, headers=said)


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
        )
        planned = plan_multi_last(state, question, in_pages=True)
        if isinstance(planned, PastPlan):
            return await store.reader.read_past(planned._replace(limit=part))
        (_, _, seqs), point = planned
    wanted = part.of(seqs)
    messages = await store.reader.read(ReadPlan(state.config.name, state.stream_id, wanted))
    return PastState(point or state.index.last_seq, messages, more=bool(wanted) and wanted[-1] != seqs[-1])
