"""The routes that make something of a stream's past: branch, rewind, undelete. The gateway does the work."""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.rest import problems
from api.rest.access import Action
from api.rest.door import principal_of
from api.rest.negotiation import JSON, serves
from api.rest.parameters import StreamName
from api.rest.publisher import Publisher
from api.rest.request_body import read_body
from api.rest.services import Services
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import HTTP_QUESTION_BYTES_MAX, PAST_WORK_ANSWER_SECONDS
from delta_store.values.point_shape import AS_OF

_POINT: Final = "A sequence, a time (RFC 3339), an age (``15m``) or ``cut:NAME``"
_POINTS: Final = [4711, "2026-01-31T12:00:00Z", "15m"]


class _PastForm(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class BranchForm(_PastForm):
    """The new stream, and the point at which the one in the path is what it shall be."""

    name: str = Field(min_length=1, description="Of the new stream", examples=["ORDERS-THEN"])
    as_of: int | str | None = Field(None, description=f"{_POINT}; without, now", examples=_POINTS)
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields of its configuration that are to be others, as in the JetStream API",
        examples=[{"subjects": ["then.>"]}],
    )
    consumers: bool = Field(False, description="Whether the durable consumers come along")


class RewindForm(_PastForm):
    """The point to stand at."""

    as_of: int | str = Field(description=_POINT, examples=_POINTS)
    force: bool = Field(False, description="Although consumers have seen what came after it")


class UndeleteForm(_PastForm):
    """Messages of a point: sequences or a subject, or both."""

    as_of: int | str = Field(description=f"When they were there. {_POINT}", examples=_POINTS)
    seqs: list[str] = Field(default_factory=list, description="Sequences and ranges of them", examples=[["17", "5-9"]])
    subject: str = Field("", description="Subject filter", examples=["orders.new"])


class BranchBody(BaseModel):
    """The new stream as it stands."""

    stream: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int


class RewindBody(BaseModel):
    """What the rewind has changed."""

    stream: str
    removed: int = Field(description="Messages that came after the point")
    restored: int = Field(description="Messages that had left the stream, now with new sequences")
    rewritten: int = Field(description="Messages that were behind those, now with new sequences")
    last_seq: int
    consumers: list[str] = Field(description="Those that have seen what came after the point")


class UndeleteBody(BaseModel):
    """What came back."""

    stream: str
    restored: int = Field(description="Messages, the last ones of the stream now")
    last_seq: int


Form = TypeVar("Form", bound=_PastForm)
_REFUSALS: Final = problems.responses(404, 409, 410, 413, 429, 501, 503, 504, 507)


def routes(store: RestStore, services: Services) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["streams"], dependencies=[Depends(serves(JSON))])

    async def asked(request: Request, name: str, form: type[Form]) -> tuple[Publisher, Form]:
        if services.publisher is None:
            raise problems.no_publisher()
        await find_stream(store, name)
        return services.publisher, _read(await read_body(request, HTTP_QUESTION_BYTES_MAX), form)

    @router.post("/branch", status_code=201, responses=_REFUSALS, openapi_extra=_body_of(BranchForm))
    async def branch(request: Request, response: Response, name: StreamName) -> BranchBody:
        """Make a new, independent stream that stands as this one stood; the answer comes when it is whole and durable.

        The key needs the scope ``admin`` for both.
        """
        gateway, form = await asked(request, name, BranchForm)
        if not principal_of(request).may(Action.ADMIN, form.name):
            raise problems.forbidden(f"the key lacks the scope admin:{form.name}")
        body: dict[str, Any] = {"name": form.name, "config": form.config, "consumers": form.consumers}
        if form.as_of is not None:
            body[AS_OF] = form.as_of
        made = await _done(gateway, f"STREAM.BRANCH.{name}", body)
        response.headers["Location"] = f"/v1/streams/{quote(form.name, safe='')}"
        return BranchBody(stream=form.name, **_chosen(made["state"], BranchBody))

    @router.post("/rewind", responses=_REFUSALS, openapi_extra=_body_of(RewindForm))
    async def rewind(request: Request, name: StreamName) -> RewindBody:
        """Make the stream stand as it stood, by one commit that can itself be rewound."""
        gateway, form = await asked(request, name, RewindForm)
        done = await _done(gateway, f"STREAM.REWIND.{name}", {AS_OF: form.as_of, "force": form.force})
        return RewindBody(stream=name, **_chosen(done, RewindBody))

    @router.post("/undelete", responses=_REFUSALS, openapi_extra=_body_of(UndeleteForm))
    async def undelete(request: Request, name: StreamName) -> UndeleteBody:
        """Bring back messages that limits, deletes or purges have removed, as new ones behind all others."""
        gateway, form = await asked(request, name, UndeleteForm)
        body = {AS_OF: form.as_of, "seqs": form.seqs, "filter": form.subject}
        done = await _done(gateway, f"STREAM.UNDELETE.{name}", body)
        return UndeleteBody(stream=name, **_chosen(done, UndeleteBody))

    return router


async def _done(gateway: Publisher, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return await gateway.ask(verb, body, seconds=PAST_WORK_ANSWER_SECONDS)


def _body_of(form: type[BaseModel]) -> dict[str, Any]:
    schema = form.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"content": {JSON: {"schema": schema}}, "required": True}}


def _read(body: bytes, form: type[Form]) -> Form:
    try:
        return form.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors()[0]
        raise problems.bad_request(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise problems.bad_request("the body is not JSON") from None


def _chosen(reply: Mapping[str, Any], body: type[BaseModel]) -> dict[str, Any]:
    return {name: reply[name] for name in body.model_fields if name in reply}
