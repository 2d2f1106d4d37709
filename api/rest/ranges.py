"""Ranges of messages: the plan of a page, and where the next one begins."""

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from api.direct.direct_plan import direct_step
from api.formats.table_format import TableFormat
from api.rest import problems
from api.rest.descriptions import SUBJECTS, TIME, answer
from api.rest.freshness import UNCHANGED, tag_of_range, unchanged
from api.rest.message_tables import RANGE_FORMATS, InPath, chosen_format, described, streamed
from api.rest.negotiation import serves
from api.rest.parameters import (
    FILTER,
    HEADER_FILTER,
    HeaderFilter,
    StreamName,
    exclusive,
    next_link,
    subject_filter,
    time_ns,
)
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import HEADER_FILTER_MESSAGES_MAX, SEQUENCE_MAX
from conf.settings import Settings
from delta_store.index.matching import iter_matching
from delta_store.reading.read_plan import PagePlan
from delta_store.streams.stream_state import StreamState

_RANGE: Final = {
    **answer(described(RANGE_FORMATS), headers=("ETag", "Link")),
    **problems.responses(404, 503),
    **UNCHANGED,
}
_PAGE: Final = 1000


class _Range(BaseModel):
    """The parameters of a range."""

    from_seq: int | None = Field(None, ge=0, le=SEQUENCE_MAX, description="Inclusive")
    to_seq: int | None = Field(None, ge=0, le=SEQUENCE_MAX, description="Inclusive")
    from_time: str | None = Field(None, description="RFC 3339, inclusive", json_schema_extra=TIME)
    to_time: str | None = Field(None, description="RFC 3339, exclusive", json_schema_extra=TIME)
    subject: list[str] | None = Field(None, description=FILTER, json_schema_extra=SUBJECTS)
    header: list[str] | None = Field(None, description=HEADER_FILTER)
    limit: int = Field(_PAGE, ge=1)


class _Page(NamedTuple):
    """The sequences of a page, and where to look for the next one's; None if this is the last."""

    seqs: Sequence[int]
    following: int | None


def routes(store: RestStore, settings: Settings) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])
    most = settings.http.rows_max
    kept: dict[str, Any] = {"response_class": StreamingResponse, "responses": _RANGE}

    class Asked(_Range):
        """The parameters of a range under these settings."""

        limit: int = Field(min(_PAGE, most), ge=1, le=most, description="Messages in a page")

    @router.get("/messages", dependencies=[Depends(serves(*(kind.media_type for kind in RANGE_FORMATS)))], **kept)
    async def messages(request: Request, name: StreamName, asked: Annotated[Asked, Query()]) -> Response:
        """Live messages within bounds of sequence or time, as NDJSON, CSV, Arrow's IPC stream or Parquet.

        ``Link: <…>; rel="next"`` names the next page when there is one. With ``header`` a page may be short.
        """
        return await _answer(store, request, name, asked, chosen_format(request, RANGE_FORMATS))

    @router.get("/messages.{extension}", **kept)
    async def messages_as(
        request: Request, name: StreamName, extension: InPath, asked: Annotated[Asked, Query()]
    ) -> Response:
        """The same in the format that the path names."""
        return await _answer(store, request, name, asked, extension.table_format)

    return router


async def _answer(store: RestStore, request: Request, name: str, asked: _Range, kind: TableFormat) -> Response:
    exclusive(from_seq=asked.from_seq, from_time=asked.from_time)
    exclusive(to_seq=asked.to_seq, to_time=asked.to_time)
    headers = None if asked.header is None else HeaderFilter(asked.header)
    state = await find_stream(store, name)
    page = _page(state, asked, scanned=None if headers is None else HEADER_FILTER_MESSAGES_MAX)
    if headers is not None:
        page = await _with_headers(store, state, page, headers, asked.limit)
    plan = PagePlan(name, state.stream_id, page.seqs, asked.limit, direct_step(state.index))
    said = {"ETag": tag_of_range(plan.stream_id, page.seqs, page.following), "Vary": "Accept"}
    if page.following is not None:
        given = asked.model_dump(include={"to_seq", "to_time", "subject", "header", "limit"})
        said |= next_link(request.url.path, from_seq=page.following, **given)
    if (same := unchanged(request, said["ETag"], said)) is not None:
        return same
    steps = plan.steps()
    first = next(steps, None)
    found = await store.reader.read(first) if first is not None else []
    return StreamingResponse(streamed(store, name, kind, found, steps), media_type=kind.media_type, headers=said)


def _page(state: StreamState, asked: _Range, *, scanned: int | None) -> _Page:
    """Return the sequences within the bounds: at most the limit, or ``scanned`` if they are still to be chosen from."""
    index = state.index
    wanted = None if asked.subject is None else subject_filter(asked.subject)
    start = index.seq_at_time(time_ns(asked.from_time)) if asked.from_time is not None else asked.from_seq or 0
    last = SEQUENCE_MAX if asked.to_seq is None else asked.to_seq
    if asked.to_time is not None:
        last = index.seq_at_time(time_ns(asked.to_time)) - 1
    most = asked.limit if scanned is None else scanned
    seqs = list(islice(takewhile(last.__ge__, iter_matching(index, wanted, start)), most + 1))
    return _Page(seqs[:most], seqs[most] if len(seqs) > most else None)


async def _with_headers(store: RestStore, state: StreamState, page: _Page, headers: HeaderFilter, limit: int) -> _Page:
    """Return those of a page whose headers match, up to the limit: read twice, but never held together."""
    chosen: list[int] = []
    plan = PagePlan(state.config.name, state.stream_id, page.seqs, len(page.seqs), direct_step(state.index))
    for step in plan.steps():
        for message in await store.reader.read(step):
            if headers.matches(message.headers):
                if len(chosen) == limit:
                    return _Page(chosen, message.seq)
                chosen.append(message.seq)
    return _Page(chosen, page.following)
