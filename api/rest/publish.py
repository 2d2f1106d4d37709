"""The route that publishes a message."""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.rest import problems
from api.rest.descriptions import SUBJECT
from api.rest.negotiation import JSON, serves
from api.rest.parameters import StreamName
from api.rest.publisher import checked_subject, headers_of_request, message_headers
from api.rest.request_body import read_body
from api.rest.services import Services
from api.rest.store import RestStore
from api.rest.streams import find_stream
from conf.limits import HTTP_PUBLISH_BYTES_MAX


class PublishBody(BaseModel):
    """A message to publish, where the subject is not in the query; ``data`` or ``text``, not both."""

    model_config = ConfigDict(extra="forbid")

    subject: str = Field(examples=["orders.new"], json_schema_extra=SUBJECT)
    text: str | None = Field(None, description="The payload as text", examples=["one apple"])
    data: str | None = Field(None, description="The payload in base64")
    headers: dict[str, str] = Field(default_factory=dict, examples=[{"Nats-Msg-Id": "1"}])


class PubAckBody(BaseModel):
    """The acknowledgement: the message is durable."""

    stream: str
    seq: int = Field(description="Its sequence; of a duplicate, that of the message stored before")
    duplicate: bool = Field(False, description="Whether a message with this Nats-Msg-Id was there already")
    domain: str | None = None
    val: str | None = Field(None, description="The counter's value, for streams that count")


_FORM: Final = {"schema": PublishBody.model_json_schema(ref_template="#/components/schemas/{model}")}
_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "description": "With ``subject`` in the query the payload, of whatever type; without, the message as JSON",
        "content": {"application/json": _FORM, "application/octet-stream": _BYTES},
        "required": True,
    }
}
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": PubAckBody, "description": "A duplicate: it had been stored before"},
    **problems.responses(404, 412, 413, 429, 501, 503, 504, 507),
}


def routes(store: RestStore, services: Services) -> APIRouter:
    """Return the routes over a store."""
    router = APIRouter(prefix="/v1/streams/{name}", tags=["messages"])

    @router.post(
        "/messages",
        status_code=201,
        response_model=PubAckBody,
        responses=_ANSWERS,
        openapi_extra=_BODY,
        dependencies=[Depends(serves(JSON))],
    )
    async def publish(
        request: Request,
        name: StreamName,
        subject: Annotated[str | None, Query(description="Of the message", json_schema_extra=SUBJECT)] = None,
    ) -> Response:
        """Publish a message; the answer comes when it is durable.

        Headers ``Nats-…`` (``Nats-Msg-Id``, ``Nats-Expected-…``, ``Nats-TTL``) are the message's; ``Silt-Header-Kind``
        becomes its ``Kind``. The form in JSON has headers of its own.
        """
        if services.publisher is None:
            raise problems.no_publisher()
        state = await find_stream(store, name)
        body = await read_body(request, HTTP_PUBLISH_BYTES_MAX)
        headers: Mapping[str, str] = headers_of_request(request.headers)
        if subject is None:
            form = _form(body)
            subject, body, headers = form.subject, _payload(form), {**headers, **form.headers}
        checked_subject(subject, state.config.subjects)
        if state.config.no_ack:
            raise problems.bad_request("the stream acknowledges nothing (no_ack): publish to it over NATS")
        ack = await services.publisher.publish(subject, body, message_headers(headers, name))
        said = PubAckBody.model_validate(ack)
        if said.duplicate:
            return JSONResponse(said.model_dump(exclude_none=True))
        place = {"Location": f"/v1/streams/{name}/messages/{said.seq}"}
        return JSONResponse(said.model_dump(exclude_none=True), 201, place)

    return router


def _form(body: bytes) -> PublishBody:
    try:
        return PublishBody.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors()[0]
        raise problems.bad_request(f"{'.'.join(map(str, first['loc'])) or 'body'}: {first['msg']}") from None
    except ValueError:
        raise problems.bad_request("give the subject in the query, or the message as JSON") from None


def _payload(form: PublishBody) -> bytes:
    if form.text is not None and form.data is not None:
        raise problems.bad_request("text and data exclude each other")
    if form.data is None:
        return (form.text or "").encode()
    try:
        return b64decode(form.data, validate=True)
    except ValueError:
        raise problems.bad_request("data: not base64") from None
