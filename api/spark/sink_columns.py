"""The columns that a sink takes, and rows as messages with their ids. Pure."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from api.spark.read_options import OptionError

MSG_ID: Final = "Nats-Msg-Id"
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
_TAKEN: Final = "subject STRING, data BINARY or STRING, headers MAP<STRING, STRING or ARRAY<STRING>>, msg_id STRING"


class SinkColumns(NamedTuple):
    """What the rows of a write have."""

    subject: str | None
    """Of all rows; None where a column has it."""
    headers: bool
    msg_id: bool


class Outgoing(NamedTuple):
    """A message to publish."""

    subject: str
    data: bytes
    headers: dict[str, str]


def sink_columns(schema: StructType, subject: str | None) -> SinkColumns:
    """Check the columns of a write. Raises :class:`OptionError`."""
    types = {one.name: one.dataType for one in schema.fields}
    right = {
        "subject": isinstance(types.get("subject", StringType()), StringType),
        "data": isinstance(types.get("data"), BinaryType | StringType),
        "headers": _is_headers(types.get("headers")),
        "msg_id": isinstance(types.get("msg_id", StringType()), StringType),
    }
    wrong = sorted({*(types.keys() - right.keys()), *(name for name, fits in right.items() if not fits)})
    if wrong:
        raise OptionError(f"column {wrong[0]}: a sink takes {_TAKEN}; select these")
    if ("subject" in types) == (subject is not None):
        raise OptionError("give the subject by a column or by the option subject, and not by both")
    return SinkColumns(subject, "headers" in types, "msg_id" in types)


def outgoing(columns: SinkColumns, batch: Any, *, first_row: int, prefix: str) -> Iterator[Outgoing]:
    """Iterate over an Arrow batch's rows as messages.

    An id is ``msg_id``, else the row's own header, else ``<prefix>-<row>-<digest>``: a task that is tried again gives
    the same row the same id, and rows that come in another order are not taken for others that were published.
    Raises ``ValueError`` for a row without a subject.
    """
    rows = batch.num_rows
    subjects = [columns.subject] * rows if columns.subject is not None else batch.column("subject").to_pylist()
    headers = batch.column("headers").to_pylist() if columns.headers else [None] * rows
    ids = batch.column("msg_id").to_pylist() if columns.msg_id else [None] * rows
    payloads = batch.column("data").to_pylist()
    for row, (subject, data, fields, own_id) in enumerate(
        zip(subjects, payloads, headers, ids, strict=True), first_row
    ):
        if not subject:
            raise ValueError(f"row {row} has no subject")
        payload = data.encode() if isinstance(data, str) else data or b""
        sent = _fields(fields)
        if own_id:
            sent[MSG_ID] = own_id
        elif MSG_ID not in sent:
            digest = blake2b(payload, key=subject.encode()[:64], digest_size=6).hexdigest()
            sent[MSG_ID] = f"{prefix}-{row}-{digest}"
        yield Outgoing(subject, payload, sent)


def _fields(fields: list[tuple[str, str | list[str] | None]] | None) -> dict[str, str]:
    """Return header fields for nats-py, which strips names: more values of a name stand under one with spaces."""
    sent: dict[str, str] = {}
    for name, value in fields or ():
        for place, one in enumerate([value] if isinstance(value, str) else value or ()):
            sent[name + " " * place] = one
    return sent


def _is_headers(kind: DataType | None) -> bool:
    if kind is None:
        return True
    return (
        isinstance(kind, MapType)
        and isinstance(kind.keyType, StringType)
        and isinstance(
            kind.valueType.elementType if isinstance(kind.valueType, ArrayType) else kind.valueType, StringType
        )
    )
