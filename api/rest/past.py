"""What has changed between two points of a stream, and which versions of the table hold them."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.rest import problems
from api.rest.descriptions import SUBJECT
from api.rest.negotiation import JSON, serves
from api.rest.parameters import AsOfPoint, StreamName, subject_filter
from api.rest.store import RestStore
from api.rest.streams import find_stream, past_stream
from conf.limits import NAMES_PAGE, SEQUENCE_MAX, VERSIONS_PAGE
from conf.settings import Settings
from delta_store.dialect.times import format_time
from delta_store.reading.stream_diff import difference
from delta_store.values.as_of import NotAPoint
from delta_store.values.settling import Settling

Point = Annotated[str, Query(description="A sequence, a time (RFC 3339), an age, or ``cut:NAME``")]


class ChangeBody(BaseModel):
    """A subject whose last message is another one."""

    subject: str
    change: str = Field(examples=["added", "removed", "changed"])
    seq_before: int = Field(description="0 where it had none")
    seq_after: int = Field(description="0 where it has none any more")


class DiffBody(BaseModel):
    """The changes between two points, by subject."""

    stream: str
    total: int
    changes: list[ChangeBody]


class VersionBody(BaseModel):
    """A version of the table ``messages`` and what it settled of the stream."""

    version: int
    committed: str
    first_seq: int
    last_seq: int
    first_time: str
    last_time: str


class HistoryBody(BaseModel):
    """How far back a stream can be read, and what that costs."""

    stream: str
    history: int = Field(description="For how long what is over stays readable, in ns")
    own: bool = Field(description="Whether the stream's metadata says so")
    oldest_seq: int = Field(description="0 where only times are known")
    oldest_time: str = Field(description="Empty where it is not known")
    held_files: int
    held_bytes: int = Field(description="Settled files that are there for the past alone")


class VersionsBody(BaseModel):
    """Versions, newest first."""

    stream: str
    versions: list[VersionBody]


def routes(store: RestStore, settings: Settings) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["streams"], dependencies=[Depends(serves(JSON))])

    @router.get("/diff", responses=problems.responses(404, 410, 503))
    async def diff(
        name: StreamName,
        a: Point,
        b: AsOfPoint = None,
        subject: Annotated[str, Query(json_schema_extra=SUBJECT)] = ">",
        offset: Annotated[int, Query(ge=0, le=SEQUENCE_MAX)] = 0,
    ) -> DiffBody:
        """The subjects whose last message at ``a`` is not the one at ``b``, or now; 1024 from ``offset`` on."""
        wanted = subject_filter([subject])
        pasts = [await past_stream(store, name, point) for point in (a, b)]
        before, after = (past.state if past.existed else None for past in pasts)
        changes = difference(before, after, wanted)
        page = [ChangeBody(**one._asdict()) for one in changes[offset : offset + NAMES_PAGE]]
        return DiffBody(stream=name, total=len(changes), changes=page)

    @router.get("/versions", responses=problems.responses(404, 410, 503))
    async def versions(
        name: StreamName,
        as_of: AsOfPoint = None,
        before: Annotated[int | None, Query(ge=0, le=SEQUENCE_MAX, description="Only versions before it")] = None,
    ) -> VersionsBody:
        """Which versions of the table ``messages`` settled which messages, 256 at a time; or the one of a point."""
        state = await find_stream(store, name)
        try:
            found = await store.reader.versions(state.name, as_of, before=before, most=VERSIONS_PAGE)
        except NotAPoint as error:
            raise problems.bad_request(str(error)) from None
        return VersionsBody(stream=name, versions=list(map(_shown, found)))

    @router.get("/history", responses=problems.responses(404, 503))
    async def history(name: StreamName) -> HistoryBody:
        """How far back the stream can be read, and what that costs."""
        state = await find_stream(store, name)
        found = await store.reader.history(state.name)
        return HistoryBody(stream=name, **found.shown(settings.history.horizon_seconds))

    return router


def _shown(one: Settling) -> VersionBody:
    return VersionBody(
        version=one.version,
        committed=one.committed.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        first_seq=one.first_seq,
        last_seq=one.last_seq,
        first_time=format_time(one.first_ts_ns),
        last_time=format_time(one.last_ts_ns),
    )
