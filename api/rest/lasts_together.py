"""The last message of each subject of several streams, at one instant."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.rest import problems
from api.rest.access import LASTS, Action
from api.rest.bodies import MessageBody, message_fields
from api.rest.descriptions import SUBJECTS, answer
from api.rest.door import principal_of
from api.rest.negotiation import JSON, serves
from api.rest.parameters import FILTER, AsOfPoint, next_link, subject_filter
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import MULTI_LAST_STREAMS_MAX, MULTI_LAST_SUBJECTS_MAX, SEQUENCE_MAX
from delta_store.reading.read_plan import FoundLasts, WantedLasts
from delta_store.values.as_of import NotAPoint

_PAGE_BYTES: Final = 8 * 1024 * 1024
_RESPONSES: Final = answer({}, headers=("Link",)) | problems.responses(404, 410, 413, 503)


class _SeveralQuestion(BaseModel):
    """The parameters."""

    stream: list[str] = Field(min_length=1, max_length=MULTI_LAST_STREAMS_MAX, description="Name; several may be given")
    subject: list[str] = Field([">"], description=FILTER, json_schema_extra=SUBJECTS)
    as_of: AsOfPoint = None
    after_stream: str = Field("", description="``next.stream`` of the page before")
    after_seq: int = Field(0, ge=0, le=SEQUENCE_MAX, description="``next.seq`` of the page before")
    limit: int = Field(MULTI_LAST_SUBJECTS_MAX, ge=1, le=MULTI_LAST_SUBJECTS_MAX, description="Messages in a page")


class PlaceBody(BaseModel):
    """The place of a page's last message."""

    stream: str
    seq: int


class LastsBody(BaseModel):
    """A page of messages, by stream and sequence."""

    messages: list[MessageBody]
    next: PlaceBody | None = Field(description="Give it, with the same point, to get the next page")


def routes(store: RestStore) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(tags=["messages"], dependencies=[Depends(serves(JSON))])

    @router.get(LASTS, response_model=LastsBody, responses=_RESPONSES)
    async def multi_last_of_streams(request: Request, asked: Annotated[_SeveralQuestion, Query()]) -> Response:
        """The last message of each matching subject of several streams, all of one instant: now, a time, or a cut.

        Several pages are of one instant where the point is: more than a page of now is refused.
        """
        subject_filter(asked.subject)
        for stream in asked.stream:
            if not principal_of(request).may(Action.READ, stream):
                raise problems.forbidden(f"the key lacks the scope {Action.READ}:{stream}")
            await find_stream(store, stream)
        found = await _found(store, asked)
        messages = [message_fields(stream, one) for stream, one in found.messages]
        if not found.more:
            return JSONResponse({"messages": messages, "next": None})
        if asked.as_of is None:
            detail = f"more than {len(messages)} messages are more than one answer holds: take a cut, and read as of it"
            raise problems.Refused(413, problems.TOO_MANY_SUBJECTS, detail)
        stream, last = found.messages[-1]
        after: dict[str, Any] = {"stream": stream, "seq": last.seq}
        given = asked.model_dump(exclude={"after_stream", "after_seq"})
        link = next_link(request.url.path, **given, after_stream=stream, after_seq=last.seq)
        return JSONResponse({"messages": messages, "next": after}, headers=link)

    return router


async def _found(store: RestStore, asked: _SeveralQuestion) -> FoundLasts:
    """Return the page that is asked for."""
    streams = tuple((stream, tuple(asked.subject)) for stream in sorted(set(asked.stream)))
    wanted = WantedLasts(streams, (asked.after_stream, asked.after_seq), asked.limit, _PAGE_BYTES)
    try:
        return await store.reader.lasts(wanted, asked.as_of)
    except NotAPoint as error:
        raise problems.bad_request(str(error)) from None
