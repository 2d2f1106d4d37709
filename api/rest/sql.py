"""The routes that answer SQL."""

import json
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.formats.table_format import TableFormat
from api.rest import problems
from api.rest.descriptions import answer
from api.rest.door import principal_of
from api.rest.lasting_answer import LastingResponse, unless_gone
from api.rest.message_tables import chosen_format
from api.rest.negotiation import serves
from api.rest.request_body import read_body
from api.rest.services import Services
from api.rest.sql_frames import SqlQuestion
from conf.limits import HTTP_QUESTION_BYTES_MAX, MIB
from conf.settings import HttpSettings, Settings

FORMATS: Final = (
    TableFormat.JSON,
    TableFormat.NDJSON,
    TableFormat.CSV,
    TableFormat.ARROW,
    TableFormat.PARQUET,
    TableFormat.TEXT,
)
_ROWS: Final = {"type": "array", "items": {"type": "object"}}
_STRING: Final = {"type": "string"}
_BINARY: Final = {"type": "string", "format": "binary"}
_CONTENT: Final[dict[str, Any]] = {
    kind.media_type: {"schema": _ROWS if kind is TableFormat.JSON else _BINARY if kind.is_binary else _STRING}
    for kind in FORMATS
}
_ANSWERS: Final = {**answer(_CONTENT), **problems.responses(410, 413, 501, 503, 504)}
_POSTED: Final = {**_ANSWERS, **problems.responses(413)}


class SqlExtension(StrEnum):
    """The extensions that stand for a format in the path."""

    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"
    TXT = "txt"

    @property
    def table_format(self) -> TableFormat:
        """The format."""
        return TableFormat.TEXT if self is SqlExtension.TXT else TableFormat(self.value)


class SqlBody(BaseModel):
    """A query with its parameters."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, examples=["SELECT count(*) AS messages FROM silt_streams"])
    parameters: list[Any] | dict[str, Any] = Field(
        default_factory=list, description="Values for ``?`` or ``$1`` in order, or for ``$name`` by name", examples=[[]]
    )


_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "content": {
            "application/json": {
                "schema": SqlBody.model_json_schema(ref_template="#/components/schemas/{model}"),
            },
            "application/sql": {"schema": {"type": "string", "minLength": 1}, "example": "SELECT 1 AS one"},
        },
        "required": True,
    }
}
_Query = Annotated[
    str,
    Query(
        min_length=1,
        description="One statement that only reads",
        examples=["SELECT name, messages FROM silt_streams"],
    ),
]
_Extension = Annotated[SqlExtension, Path(description="The format, whatever ``Accept`` says")]


def routes(settings: Settings, services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["sql"])
    by_accept = [Depends(serves(*(kind.media_type for kind in FORMATS)))]
    kept: dict[str, Any] = {"response_class": Response}

    async def answered(request: Request, asked: SqlBody, kind: TableFormat) -> Response:
        return await _answer(services, request, _question(asked, kind, request, settings.http))

    @router.get("/v1/sql", responses=_ANSWERS, dependencies=by_accept, **kept)
    async def sql(request: Request, query: _Query) -> Response:
        """The rows of one SQL statement, streamed: as JSON, NDJSON, CSV, Arrow's IPC stream, Parquet or text.

        Views are the streams that the key opens, ``silt_streams``, ``silt_consumers`` and the buckets.
        """
        return await answered(request, SqlBody(query=query), chosen_format(request, FORMATS))

    @router.get("/v1/sql.{extension}", responses=_ANSWERS, **kept)
    async def sql_as(request: Request, extension: _Extension, query: _Query) -> Response:
        """The same in the format that the path names."""
        return await answered(request, SqlBody(query=query), extension.table_format)

    @router.post("/v1/sql", responses=_POSTED, openapi_extra=_BODY, dependencies=by_accept, **kept)
    async def post_sql(request: Request) -> Response:
        """The same for a query in the body: as it is, or in JSON with parameters."""
        return await answered(request, await _asked(request), chosen_format(request, FORMATS))

    @router.post("/v1/sql.{extension}", responses=_POSTED, openapi_extra=_BODY, **kept)
    async def post_sql_as(request: Request, extension: _Extension) -> Response:
        """The same in the format that the path names."""
        return await answered(request, await _asked(request), extension.table_format)

    return router


async def _asked(request: Request) -> SqlBody:
    body = await read_body(request, HTTP_QUESTION_BYTES_MAX)
    try:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            return SqlBody.model_validate(json.loads(body))
        return SqlBody(query=body.decode())
    except ValidationError as error:
        first = error.errors()[0]
        raise problems.bad_request(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
    except ValueError as error:
        raise problems.bad_request(f"body: {error}") from None


def _question(asked: SqlBody, kind: TableFormat, request: Request, settings: HttpSettings) -> SqlQuestion:
    return SqlQuestion(
        asked.query,
        kind,
        principal_of(request).readable,
        asked.parameters,
        seconds=settings.sql_timeout_seconds,
        memory_bytes=settings.sql_memory_mib * MIB,
        rows=settings.sql_rows_max,
    )


async def _answer(services: Services, request: Request, question: SqlQuestion) -> Response:
    if services.sql is None:
        raise problems.no_sql()
    found = await unless_gone(request, services.sql.answer(question))
    headers = {"Vary": "Accept, Authorization"}
    return LastingResponse(found.chunks(), found.release, question.format.media_type, headers)
