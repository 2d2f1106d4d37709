"""Common parts of the routes' OpenAPI descriptions."""

from collections.abc import Mapping
from typing import Any, Final

from api.rest.negotiation import BINARY

SUBJECT: Final[dict[str, Any]] = {"pattern": r"^(?:(?!>\.)[^ \t\n\f\r.]+\.)*[^ \t\n\f\r.]+$"}
"""The pattern of a subject filter: no empty token, no white space, ``>`` only at the end."""
SUBJECTS: Final[dict[str, Any]] = {"items": {"type": "string"} | SUBJECT}
TIME: Final[dict[str, Any]] = {"format": "date-time"}
BARE: Final[dict[str, Any]] = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
"""Content of an answer that is a payload."""
_HEADERS: Final[dict[str, Any]] = {
    "ETag": {"schema": {"type": "string"}, "description": "Give it as If-None-Match: 304 when nothing has changed"},
    "Link": {"schema": {"type": "string"}, "description": 'The next page (rel="next"), when there is one'},
    "Delta-Table-Version": {"schema": {"type": "integer"}, "description": "The sequence that the table is as of"},
    "Silt-Up-To-Seq": {"schema": {"type": "integer"}, "description": "The point that the answer shows"},
}
Responses = dict[int | str, dict[str, Any]]


def answer(
    content: Mapping[str, Any] | None = None,
    *,
    headers: tuple[str, ...] = (),
    links: Mapping[str, Mapping[str, str]] | None = None,
) -> Responses:
    """Return the description of a route's 200: media types beside JSON, headers, and links to other routes."""
    described: dict[str, Any] = {"headers": {name: _HEADERS[name] for name in headers}}
    if content is not None:
        described["content"] = dict(content)
    if links:
        described["links"] = {name: {"operationId": name, "parameters": dict(given)} for name, given in links.items()}
    return {200: described}
