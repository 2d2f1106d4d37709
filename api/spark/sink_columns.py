"""The columns that a sink takes, and rows as messages with their ids. Pure."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from api.spark.read_options import OptionError

MSG_ID: Final = "Nats-Msg-Id"
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
_DIGEST_BYTES: Final = 10
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


class MessageIds:
    """The ids of a task's messages: ``<prefix>-<digest of the row>-<its number among equal rows>``.

    A task that is repeated gives the same rows the same ids, in whatever order they come. Remembers each digest.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: dict[bytes, int] = {}

    def next(self, subject: str, data: bytes, fields: Mapping[str, str]) -> str:
        """Return the id of the next message."""
        digest = blake2b(subject.encode(), digest_size=_DIGEST_BYTES)
        for part in (data, *(text.encode() for field in fields.items() for text in field)):
            digest.update(len(part).to_bytes(8) + part)
        found = digest.digest()
        number = self._seen[found] = self._seen.get(found, 0) + 1
        return f"{self._prefix}-{found.hex()}-{number}"


def outgoing(columns: SinkColumns, batch: Any, ids: MessageIds) -> Iterator[Outgoing]:
    """Iterate over an Arrow batch's rows as messages; ids are those of ``msg_id``, else of the header, else ``ids``.

    Raises ``ValueError`` for a row without a subject.
    """
    rows = batch.num_rows
    subjects = [columns.subject] * rows if columns.subject is not None else batch.column("subject").to_pylist()
    headers = batch.column("headers").to_pylist() if columns.headers else [None] * rows
    own_ids = batch.column("msg_id").to_pylist() if columns.msg_id else [None] * rows
    payloads = batch.column("data").to_pylist()
    for subject, data, fields, own_id in zip(subjects, payloads, headers, own_ids, strict=True):
        if not subject:
            raise ValueError("a row has no subject")
        payload = data.encode() if isinstance(data, str) else data or b""
        sent = _fields(fields)
        if own_id:
            sent[MSG_ID] = own_id
        elif MSG_ID not in sent:
            sent[MSG_ID] = ids.next(subject, payload, sent)
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
