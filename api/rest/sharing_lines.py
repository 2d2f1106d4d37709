"""The bodies of the Delta Sharing protocol: a stream as a table, whose version is a sequence. Pure.

Protocol: delta-io/delta-sharing, PROTOCOL.md, response format ``parquet``.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from fastapi import Response
from pydantic import BaseModel

SHARE: Final = "silt"
SCHEMA: Final = "streams"
LINES: Final = "application/x-ndjson"
_STRINGS: Final = {"type": "array", "elementType": "string", "containsNull": True}
_TYPES: Final[dict[str, Any]] = {
    "subject": "string",
    "seq": "long",
    "time": "timestamp",
    "headers": {"type": "map", "keyType": "string", "valueType": _STRINGS, "valueContainsNull": True},
    "data": "binary",
    "text": "string",
}
_SCHEMA_STRING: Final = json.dumps({
    "type": "struct",
    "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _TYPES.items()],
})  # fmt: skip


class SharesBody(BaseModel):
    """Shares or schemas."""

    items: list[dict[str, str]]


class TablesBody(BaseModel):
    """One page of tables, ordered by name."""

    items: list[dict[str, str]]
    nextPageToken: str | None = None  # noqa: N815  # the protocol's name


def head_lines(stream: str, stream_id: int) -> list[dict[str, Any]]:
    """Return the lines that describe a table; a stream made anew is another table."""
    table = UUID(bytes=blake2b(f"{stream} {stream_id}".encode(), digest_size=16).digest())
    metadata = {
        "id": str(table),
        "name": stream,
        "format": {"provider": "parquet"},
        "schemaString": _SCHEMA_STRING,
        "partitionColumns": [],
        "configuration": {},
    }
    return [{"protocol": {"minReaderVersion": 1}}, {"metaData": metadata}]


def file_line(name: str, size: int, url: str, expires_ms: int) -> dict[str, Any]:
    """Return the line of a file, whose URL opens it until ``expires_ms`` (ms since 1970)."""
    file = {"url": url, "id": name, "partitionValues": {}, "size": size, "expirationTimestamp": expires_ms}
    return {"file": file}


def lines(bodies: Iterable[Mapping[str, Any]], version: int) -> Response:
    """Return an answer of JSON objects, one a line, about a version of a table."""
    text = "".join(json.dumps(body, separators=(",", ":")) + "\n" for body in bodies)
    return Response(text, media_type=LINES, headers={"Delta-Table-Version": str(version)})


def table_query(stream: str, version: int, point: str | None) -> str:
    """Return the SQL of a table at a point, a sequence or a time; None is now, without messages behind the version.

    Version 0 is before the first message.
    """
    columns = ", ".join(_TYPES)
    if point is None or not version:
        name = stream.replace('"', '""')
        return f'SELECT {columns} FROM "{name}" WHERE seq <= {version}'  # noqa: S608  # quoted
    text, at = (value.replace("'", "''") for value in (stream, point))
    return f"SELECT {columns} FROM as_of('{text}', '{at}')"  # noqa: S608  # quoted
