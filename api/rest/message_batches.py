"""Messages as Arrow record batches, with the columns that a message has as JSON."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from delta_store.values.header_fields import header_fields
from delta_store.values.stream_message import StreamMessage

SCHEMA: Final = pa.schema([
    ("stream", pa.string()),
    ("subject", pa.string()),
    ("seq", pa.int64()),
    ("time", pa.timestamp("ns", "UTC")),
    ("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
    ("data", pa.binary()),
    ("text", pa.string()),
])  # fmt: skip


def message_batch(stream: str, messages: Sequence[StreamMessage]) -> Any:
    """Return messages as a record batch; ``text`` is null where the payload is not UTF-8."""
    columns = [
        [stream] * len(messages),
        [message.subject for message in messages],
        [message.seq for message in messages],
        [message.ts_ns for message in messages],
        [list(header_fields(message.headers).items()) for message in messages],
        [message.data for message in messages],
        [_text(message.data) for message in messages],
    ]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
