"""Errors of the REST API: RFC 9457 problem details with JetStream's stable ``err_code``.

One table maps errors to statuses. Codes below 20000 are JetStream's, the others Silt's, where JetStream has no error.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from api.rest.lasting_answer import ClientGone
from api.rest.sql_frames import SqlFailure
from delta_store.reading.read_threads import ReadsBusy
from delta_store.stores.opening_progress import OpeningProgress
from delta_store.values.read_errors import (
    DamagedData,
    FileGone,
    NoSuchCut,
    NoSuchStream,
    PastHorizon,
    ReadError,
    ReadErrorKind,
    StoreAway,
    TooMany,
)

MEDIA_TYPE = "application/problem+json"
BAD_REQUEST = 10003
STREAM_NOT_FOUND = 10059
NO_MESSAGE_FOUND = 10037
PAST_HORIZON = 20001
TOO_MANY_SUBJECTS = 20002
DAMAGED = 20003
BUSY = 20004
UNAUTHORIZED = 20005
FORBIDDEN = 20006
WRONG_HOST = 20007
OPENING = 20008
TOO_LARGE = 20009
NO_PUBLISHER = 20010
NO_GATEWAY = 20011
UNANSWERED = 20012
SQL_INVALID = 20013
SQL_REFUSED = 20014
SQL_LIMIT = 20015
NO_SQL = 20016
NO_SUCH_CUT = 20102
OTHER_STREAM = 10060
OTHER = 20000


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(examples=["urn:silt:error:10059"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["stream not found"])
    err_code: int = Field(examples=[STREAM_NOT_FOUND], description="Stable; JetStream's own where it has one")


class Refused(Exception):
    """A refusal of a request, answered with a problem."""

    def __init__(self, status: int, err_code: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.err_code, self.detail = status, err_code, detail
        self.headers = dict(headers or {})


def stream_not_found() -> Refused:
    """Return the refusal for an unknown stream."""
    return Refused(404, STREAM_NOT_FOUND, "stream not found")


def no_stream_then(name: str) -> Refused:
    """Return the refusal for a point before the stream was created."""
    return Refused(404, STREAM_NOT_FOUND, f"there was no stream {name!r} at that point")


def still_opening(progress: OpeningProgress) -> Refused:
    """Return the refusal while the store is not open."""
    return Refused(503, OPENING, f"{progress}: streams and messages can't be read yet")


def no_message_found() -> Refused:
    """Return the refusal for a message that does not exist."""
    return Refused(404, NO_MESSAGE_FOUND, "no message found")


def bad_request(detail: str) -> Refused:
    """Return the refusal of a request that contradicts itself or can't be parsed."""
    return Refused(400, BAD_REQUEST, detail)


def unauthorized(detail: str, challenge: str) -> Refused:
    """Return the refusal without a valid key."""
    return Refused(401, UNAUTHORIZED, detail, {"WWW-Authenticate": challenge})


def forbidden(detail: str) -> Refused:
    """Return the refusal of a key without the scope."""
    return Refused(403, FORBIDDEN, detail)


def wrong_host() -> Refused:
    """Return the refusal of a request for another host."""
    return Refused(421, WRONG_HOST, "the Host header names no host of this server (setting http.allowed_hosts)")


def no_publisher() -> Refused:
    """Return the refusal of a publish where no NATS server is known."""
    detail = "this server knows no NATS server to publish through: set nats.url or http.publish_context_file"
    return Refused(501, NO_PUBLISHER, detail)


def unanswered() -> Refused:
    """Return the refusal of a publish whose outcome is not known."""
    detail = "no acknowledgement came in time: the message may be stored; publish it again with the same Nats-Msg-Id"
    return Refused(504, UNANSWERED, detail)


def unfinished() -> Refused:
    """Return the refusal of a branch, rewind or undelete whose end did not come in time."""
    detail = "it is not done yet, and goes on: look at the stream before you ask again"
    return Refused(504, UNANSWERED, detail)


_REQUESTS: dict[int, int] = {10058: 409, 10065: 409, 10130: 409, 20103: 409, 10047: 507, 10077: 507}
"""Statuses of the JetStream API's errors, by ``err_code``: a name or subject that is taken is a conflict."""


def refused_request(code: int, err_code: int, description: str) -> Refused:
    """Return the refusal for an error of the JetStream API, which has 400 and 500 alike for what can't be done."""
    status = _REQUESTS.get(err_code, code if code in (404, 410, 429, 503) else 400)
    return Refused(status, PAST_HORIZON if status == HTTPStatus.GONE else err_code, description)


_PUBLISHING: dict[int, int] = {
    10047: 507,
    10054: 413,
    10060: 412,
    10070: 412,
    10071: 412,
    10077: 507,
    10097: 413,
    10164: 412,
}
"""Statuses of PubAcks' errors, by ``err_code``: what was expected is a precondition, what is full is full."""


def refused_publish(error: Mapping[str, Any]) -> Refused:
    """Return the refusal for a PubAck's error: JetStream's own status where HTTP has none that says more."""
    code, err_code = int(error.get("code", 500)), int(error.get("err_code", OTHER))
    status = _PUBLISHING.get(err_code, code if code in (400, 404, 429, 503) else 500)
    return Refused(status, err_code, str(error.get("description", "")))


def no_sql() -> Refused:
    """Return the refusal of a query where none is answered."""
    return Refused(501, NO_SQL, "this server answers no SQL (http.sql_processes_max)")


_SQL: dict[str, tuple[int, int]] = {
    "invalid": (400, SQL_INVALID),
    "refused": (400, SQL_REFUSED),
    "timeout": (504, SQL_LIMIT),
    "memory": (413, SQL_LIMIT),
    "rows": (413, SQL_LIMIT),
    ReadErrorKind.NO_SUCH_STREAM: (400, STREAM_NOT_FOUND),
    ReadErrorKind.NO_SUCH_CUT: (400, NO_SUCH_CUT),
    ReadErrorKind.PAST_HORIZON: (410, PAST_HORIZON),
    ReadErrorKind.DAMAGED_DATA: (500, DAMAGED),
    ReadErrorKind.FILE_GONE: (503, BUSY),
    ReadErrorKind.STORE_AWAY: (503, BUSY),
}
"""Statuses of queries that failed, by kind. A stream is named by the statement: an unknown one makes it invalid."""


def sql_failure(failure: SqlFailure) -> Refused:
    """Return the refusal for a query that failed, with the engine's words."""
    status, err_code = _SQL.get(failure.kind, (500, OTHER))
    return Refused(status, err_code, failure.text)


_MEANINGS: dict[type[Exception], tuple[int, int]] = {
    NoSuchStream: (404, STREAM_NOT_FOUND),
    NoSuchCut: (404, NO_SUCH_CUT),
    PastHorizon: (410, PAST_HORIZON),
    TooMany: (413, TOO_MANY_SUBJECTS),
    DamagedData: (500, DAMAGED),
    ReadsBusy: (503, BUSY),
    TimeoutError: (503, BUSY),
    FileGone: (503, BUSY),
    StoreAway: (503, BUSY),
}


def refusal(error: Exception) -> Refused:
    """Return the refusal for a read's error."""
    if isinstance(error, Refused):
        return error
    status, err_code = next((one for kind, one in _MEANINGS.items() if isinstance(error, kind)), (500, OTHER))
    busy = status == HTTPStatus.SERVICE_UNAVAILABLE
    return Refused(status, err_code, "too busy to answer in time" if busy else str(error))


def problem(refused: Refused) -> JSONResponse:
    """Return the response of a refusal."""
    body = Problem(
        type=f"urn:silt:error:{refused.err_code}",
        title=HTTPStatus(refused.status).phrase,
        status=refused.status,
        detail=refused.detail,
        err_code=refused.err_code,
    )
    headers = refused.headers | ({"Retry-After": "1"} if refused.status == HTTPStatus.SERVICE_UNAVAILABLE else {})
    return JSONResponse(body.model_dump(), refused.status, headers, MEDIA_TYPE)


_EVERYWHERE = (400, 401, 403, 406, 421, 500)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI description of a route's problems."""
    described = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {status: {"description": HTTPStatus(status).phrase, **described} for status in (*_EVERYWHERE, *statuses)}


def install(app: FastAPI) -> None:
    """Install handlers that answer every error of the app with problem details."""

    def on_read(_request: Request, error: Exception) -> JSONResponse:
        return problem(refusal(error))

    def on_http(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        said = problem(Refused(error.status_code, OTHER, str(error.detail)))
        said.headers.update(error.headers or {})
        return said

    def on_gone(_request: Request, _error: Exception) -> JSONResponse:
        return problem(Refused(503, BUSY, "nobody waits for the answer"))

    def on_invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"][1:]))
        return problem(bad_request(f"{place}: {first['msg']}"))

    for kind in (Refused, ReadError, ReadsBusy, TimeoutError):
        app.add_exception_handler(kind, on_read)
    app.add_exception_handler(ClientGone, on_gone)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
