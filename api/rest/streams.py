"""Routes of streams, and of this process's health."""

from bisect import bisect_right
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response

from api.rest import problems
from api.rest.access import Action
from api.rest.bodies import HealthBody, StreamBody, StreamsBody, stream_body
from api.rest.descriptions import SUBJECT, answer
from api.rest.door import principal_of
from api.rest.freshness import UNCHANGED, tag_of_version, unchanged
from api.rest.negotiation import JSON, serves
from api.rest.parameters import AsOfPoint, StreamName
from api.rest.store import RestStore
from conf.limits import LIST_PAGE, SUBJECT_DETAILS_PAGE
from conf.settings import Settings
from delta_store.index.matching import subjects_matching
from delta_store.reading.past_streams import PastStream
from delta_store.streams.stream_state import StreamState
from delta_store.values.as_of import NotAPoint
from delta_store.values.subjects import SubjectFilter, valid

_STALE: dict[int | str, dict[str, Any]] = {503: {"model": HealthBody, "description": "It does not follow the tables"}}
_BY_KEY = {"Vary": "Authorization"}
_COUNTED = "Count live messages by subject, for this filter"
_OF_FIRST = {"name": "$response.body#/streams/0/name"}
_STREAMS = answer(
    headers=("ETag", "Link"),
    links=dict.fromkeys(("stream_info", "messages", "message", "last", "multi_last"), _OF_FIRST),
)


def routes(store: RestStore, settings: Settings) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(dependencies=[Depends(serves(JSON))])

    @router.get("/healthz", tags=["process"], responses={**problems.responses(), **_STALE})
    async def health(response: Response) -> HealthBody:
        """Whether this process follows the tables; 503 when it has not looked at them for too long."""
        stale = store.opened and store.age_seconds > settings.reads.timeout_seconds
        response.status_code = 503 if stale else 200
        status: Literal["ok", "opening", "stale"] = "stale" if stale else "ok" if store.opened else "opening"
        return HealthBody(
            status=status,
            streams=len(store.catalog.streams),
            journal_version=store.journal_version,
            settled_version=store.settled_version,
            age_seconds=store.age_seconds,
        )

    @router.get(
        "/v1/streams",
        response_model=StreamsBody,
        tags=["streams"],
        responses={**problems.responses(503), **UNCHANGED, **_STREAMS},
    )
    async def list_streams(
        request: Request,
        response: Response,
        cursor: Annotated[str | None, Query(description="``next_cursor`` of the page before")] = None,
        limit: Annotated[int, Query(ge=1, le=LIST_PAGE)] = LIST_PAGE,
    ) -> StreamsBody | Response:
        """The streams that the key opens, ordered by name; ``Link: <…>; rel="next"`` names the next page, if any."""
        tag = tag_of_version(store.journal_version)
        if (same := unchanged(request, tag, _BY_KEY)) is not None:
            return same
        principal = principal_of(request)
        names = sorted(name for name in store.catalog.streams if principal.may(Action.READ, name))
        start = bisect_right(names, cursor) if cursor is not None else 0
        page = names[start : start + limit]
        response.headers.update({"ETag": tag, **_BY_KEY})
        following = page[-1] if start + limit < len(names) else None
        if following is not None:
            url = f"/v1/streams?cursor={quote(following, safe='')}&limit={limit}"
            response.headers["Link"] = f'<{url}>; rel="next"'
        return StreamsBody(streams=[stream_body(store.catalog.streams[name]) for name in page], next_cursor=following)

    @router.get(
        "/v1/streams/{name}",
        response_model=StreamBody,
        tags=["streams"],
        responses={**problems.responses(404, 410, 413, 503), **UNCHANGED, **answer(headers=("ETag",))},
    )
    async def stream_info(
        request: Request,
        response: Response,
        name: StreamName,
        subjects: Annotated[str | None, Query(description=_COUNTED, json_schema_extra=SUBJECT)] = None,
        as_of: AsOfPoint = None,
    ) -> StreamBody | Response:
        """One stream; with ``subjects`` the number of live messages of each matching subject.

        As of a past point: its configuration and its messages as they were then.
        """
        state = await find_stream(store, name) if as_of is None else (await stream_then(store, name, as_of)).state
        tag = tag_of_version(store.journal_version)
        if as_of is None and (same := unchanged(request, tag)) is not None:
            return same
        response.headers.update({"ETag": tag} if as_of is None else {})
        return stream_body(state, None if subjects is None else _counts(state, subjects))

    return router


async def find_stream(store: RestStore, name: str) -> StreamState:
    """Return the stream, after a refresh if it is unknown. Raises :class:`problems.Refused`."""
    state = store.catalog.streams.get(name)
    if state is None:
        await store.refresh()
        state = store.catalog.streams.get(name)
    if state is None:
        raise problems.stream_not_found()
    return state


async def stream_then(store: RestStore, name: str, as_of: str) -> PastStream:
    """Return the stream as it stood at a point. Raises :class:`problems.Refused`, also where there was none then."""
    past = await past_stream(store, name, as_of)
    if not past.existed:
        raise problems.no_stream_then(name)
    return past


async def past_stream(store: RestStore, name: str, point: str | None) -> PastStream:
    """Return the stream at a point, None is now. Raises :class:`problems.Refused`."""
    state = await find_stream(store, name)
    try:
        return await store.reader.past_stream(state.name, point)
    except NotAPoint as error:
        raise problems.bad_request(str(error)) from None


def _counts(state: StreamState, subjects: str) -> dict[str, int]:
    if not valid(subjects):
        raise problems.bad_request("subjects: not a valid subject filter")
    counts = subjects_matching(state.index, SubjectFilter((subjects,)))
    if len(counts) > SUBJECT_DETAILS_PAGE:
        raise problems.Refused(413, problems.TOO_MANY_SUBJECTS, f"more than {SUBJECT_DETAILS_PAGE} subjects match")
    return dict(sorted(counts.items()))
