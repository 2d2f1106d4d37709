"""Cuts: named points over all streams."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel, Field

from api.rest import problems
from api.rest.access import CUTS
from api.rest.negotiation import JSON, serves
from api.rest.services import Services
from api.rest.store import RestStore
from conf.limits import PUBLISH_ANSWER_SECONDS
from delta_store.dialect.times import format_time
from delta_store.streams import cuts
from delta_store.values.as_of import NotAPoint, cut_name
from delta_store.values.cut_record import CUTS as STREAM

CutName = Annotated[str, Path(description="Name of the cut", json_schema_extra={"pattern": "^[A-Za-z0-9_-]{1,64}$"})]


class CutBody(BaseModel):
    """A cut: ``cut:NAME`` names this point in any stream."""

    name: str
    time: str = Field(description="When it was taken; RFC 3339")


class CutsBody(BaseModel):
    """The cuts, oldest first."""

    cuts: list[CutBody]


def routes(store: RestStore, services: Services) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix=CUTS, tags=["cuts"], dependencies=[Depends(serves(JSON))])

    @router.get("", responses=problems.responses(503))
    async def list_cuts() -> CutsBody:
        """All cuts, oldest first."""
        await store.refresh()
        found = cuts.taken(store.catalog.streams.get(STREAM))
        return CutsBody(cuts=[CutBody(name=name, time=format_time(time_ns)) for name, time_ns in found])

    @router.put("/{name}", status_code=201, responses=problems.responses(409, 501, 503, 504, 507))
    async def take_cut(name: CutName) -> CutBody:
        """Name the point that all streams are at; the answer comes when it is durable."""
        taken = await _asked(services, f"CUT.CREATE.{_checked(name)}")
        return CutBody(name=taken["name"], time=taken["time"])

    @router.delete("/{name}", status_code=204, responses=problems.responses(404, 501, 503, 504, 507))
    async def forget_cut(name: CutName) -> None:
        """Forget a cut; what it named stays as readable as it was."""
        await _asked(services, f"CUT.DELETE.{_checked(name)}")

    return router


async def _asked(services: Services, verb: str) -> dict[str, Any]:
    if services.publisher is None:
        raise problems.no_publisher()
    return await services.publisher.ask(verb, {}, seconds=PUBLISH_ANSWER_SECONDS)


def _checked(name: str) -> str:
    try:
        return cut_name(name)
    except NotAPoint as error:
        raise problems.bad_request(str(error)) from None
