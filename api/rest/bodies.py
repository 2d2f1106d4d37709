"""The JSON bodies of the REST API."""

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

from pydantic import BaseModel, Field

from delta_store.dialect.times import format_time
from delta_store.streams.stream_state import StreamState
from delta_store.values.header_fields import header_fields
from delta_store.values.stream_message import StreamMessage


class MessageBody(BaseModel):
    """A stored message."""

    stream: str
    subject: str
    seq: int
    time: str = Field(description="RFC 3339, UTC, nanoseconds", examples=["2026-01-02T03:04:05.000000006Z"])
    headers: dict[str, list[str]] = Field(description="Empty when the message has none")
    data: str = Field(description="The payload in base64")
    text: str | None = Field(None, description="The payload as text, left out unless it is UTF-8")


class StateBody(BaseModel):
    """The live messages of a stream in numbers."""

    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_time: str | None = Field(description="Null when no message is live")
    last_time: str | None = Field(description="Null when there never was a message")
    num_subjects: int
    num_deleted: int


class StreamBody(BaseModel):
    """A stream: its configuration as the JetStream API gives it, and its state."""

    name: str
    created: str
    config: dict[str, Any]
    state: StateBody
    subjects: dict[str, int] | None = Field(None, description="Live messages by subject, when asked for")


class StreamsBody(BaseModel):
    """One page of streams, ordered by name."""

    streams: list[StreamBody]
    next_cursor: str | None = Field(description="Give it as ``cursor`` to get the next page; null on the last one")


class MultiLastBody(BaseModel):
    """The last message of each matching subject, ascending by sequence."""

    stream: str
    up_to_seq: int = Field(description="The point that the answer shows: give it again to ask about the same point")
    messages: list[MessageBody]
    next_cursor: int | None = Field(description="Give it as ``cursor``, with the point, to get the next page")


class HealthBody(BaseModel):
    """What this process shows."""

    status: str = Field(examples=["ok", "stale"])
    streams: int
    journal_version: int
    settled_version: int
    age_seconds: float


class ReadyBody(BaseModel):
    """Whether streams can be read here, and how settling is."""

    status: str = Field(examples=["ready"])
    settle_state: str = Field(examples=["settling", "starting", "failing", "not running"])
    unsettled_rows: int | None = Field(description="Null when the journal's log can't be read")
    unsettled_bytes: int | None
    unsettled_files: int | None
    unsettled_seconds: float = Field(description="Age of the oldest row that is not settled")


def message_fields(stream: str, message: StreamMessage) -> dict[str, Any]:
    """Return the fields of a :class:`MessageBody`, without validation."""
    fields: dict[str, Any] = {
        "stream": stream,
        "subject": message.subject,
        "seq": message.seq,
        "time": format_time(message.ts_ns),
        "headers": header_fields(message.headers),
        "data": b64encode(message.data).decode(),
    }
    with suppress(UnicodeDecodeError):
        fields["text"] = message.data.decode()
    return fields


def message_line(stream: str, message: StreamMessage) -> bytes:
    """Return a message as one line of NDJSON."""
    return json.dumps(message_fields(stream, message), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def stream_body(state: StreamState, subjects: dict[str, int] | None = None) -> StreamBody:
    """Return the body of a stream as of now."""
    index = state.index
    return StreamBody(
        name=state.config.name,
        created=format_time(state.created_ns),
        config=state.config.as_json(),
        state=StateBody(
            messages=index.msgs,
            bytes=index.bytes,
            first_seq=index.first_seq,
            last_seq=index.last_seq,
            first_time=format_time(index.first_ts) if index.msgs else None,
            last_time=format_time(index.last_ts) if index.last_ts else None,
            num_subjects=index.num_subjects,
            num_deleted=index.num_deleted,
        ),
        subjects=subjects,
    )
