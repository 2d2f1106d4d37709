"""Answers that are tables of messages, in the format that the client asks for."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from fastapi import Path, Request

from api.formats.encoding import Encoder, encoder
from api.formats.table_format import TableFormat
from api.rest.bodies import message_line
from api.rest.negotiation import negotiate
from api.rest.store import RestStore
from delta_store.reading.read_plan import ReadPlan
from delta_store.values.stream_message import StreamMessage

RANGE_FORMATS: Final = (TableFormat.NDJSON, TableFormat.CSV, TableFormat.ARROW, TableFormat.PARQUET)


class Extension(StrEnum):
    """The extensions that stand for a format in a path, where a header can't be set."""

    NDJSON = "ndjson"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"

    @property
    def table_format(self) -> TableFormat:
        """The format."""
        return TableFormat(self.value)


InPath = Annotated[Extension, Path(description="The format, whatever ``Accept`` says")]


def chosen_format(request: Request, formats: Sequence[TableFormat]) -> TableFormat:
    """Return the format that the client prefers; raises a 406 problem if it accepts none."""
    by_type = {kind.media_type: kind for kind in formats}
    return by_type[negotiate(request, tuple(by_type))]


class _MessageLines:
    """NDJSON with the fields of the JSON answers: ``text`` is left out where there is none."""

    def __init__(self, stream: str) -> None:
        self._stream = stream

    def add(self, messages: Sequence[StreamMessage]) -> bytes:
        return b"".join(message_line(self._stream, message) for message in messages)

    def end(self) -> bytes:
        return b""


class _MessageTable:
    """Any other format, by way of Arrow."""

    def __init__(self, stream: str, kind: TableFormat) -> None:
        from api.rest.message_batches import SCHEMA

        self._stream = stream
        self._encoder: Encoder = encoder(kind, SCHEMA)

    def add(self, messages: Sequence[StreamMessage]) -> bytes:
        from api.rest.message_batches import message_batch

        return self._encoder.add(message_batch(self._stream, messages))

    def end(self) -> bytes:
        return self._encoder.end()


def _table(kind: TableFormat, stream: str) -> _MessageLines | _MessageTable:
    return _MessageLines(stream) if kind is TableFormat.NDJSON else _MessageTable(stream, kind)


async def streamed(
    store: RestStore, stream: str, kind: TableFormat, first: Sequence[StreamMessage], steps: Iterator[ReadPlan]
) -> AsyncIterator[bytes]:
    """Yield a page; ``first`` was read before, so that its errors could still become a status."""
    table = _table(kind, stream)
    yield await asyncio.to_thread(table.add, first)
    for step in steps:
        yield await asyncio.to_thread(table.add, await store.reader.read(step))
    yield await asyncio.to_thread(table.end)


def encoded(stream: str, kind: TableFormat, messages: Sequence[StreamMessage]) -> bytes:
    """Return messages that are in memory as a table."""
    table = _table(kind, stream)
    return table.add(messages) + table.end()


def described(formats: Iterable[TableFormat]) -> dict[str, Any]:
    """Return the OpenAPI description of the formats' content."""
    return {kind.media_type: {"schema": _SCHEMAS.get(kind, _BINARY)} for kind in formats}


_BINARY: Final = {"type": "string", "format": "binary"}
_SCHEMAS: Final[dict[TableFormat, dict[str, Any]]] = {
    TableFormat.NDJSON: {"$ref": "#/components/schemas/MessageBody"},
    TableFormat.CSV: {"type": "string"},
}
