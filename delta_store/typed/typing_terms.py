"""The terms of a stream's typed table, which its metadata names; and which changes of them a table can follow. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.column_types import Record, record_of, schema_string, sql_type
from delta_store.typed.payload_decoder import PayloadDecoder
from delta_store.typed.table_columns import OWN_NAMES
from delta_store.typed.typing_keys import CHOICES, INFER, MESSAGE, SCHEMA, TABLE, VALIDATE

_DECODERS_KEPT: Final = 256
_PROTOBUF: Final = "protobuf:"


class TypingTerms(NamedTuple):
    """What a stream's metadata says of its typed table."""

    schema: str
    latest: bool = False
    """Whether a message replaces the row of its subject."""
    rejects: bool = False
    """Whether a message that does not fit is not stored."""

    @property
    def infers(self) -> bool:
        """Whether the columns follow from the payloads."""
        return is_inferred(self.schema)

    def of_table(self, columns: Record) -> Self:
        """Return the terms by which a table with these columns goes on."""
        return self._replace(schema=inferred(columns)) if self.infers else self


def terms_in(text: str) -> TypingTerms | None:
    """Return the terms in the text of :func:`own_metadata`, as :func:`terms_of`."""
    return terms_of(json.loads(text)) if text else None


def terms_of(metadata: Mapping[str, str]) -> TypingTerms | None:
    """Return the terms of a stream, None without a typed table; raise ``BadSchema`` for what can't be."""
    for key, choices in CHOICES.items():
        if key in metadata and metadata[key] not in choices:
            raise BadSchema(f"{key} is {' or '.join(choices)}, not {metadata[key]!r}")
    if SCHEMA not in metadata:
        if unused := sorted({MESSAGE, *CHOICES} & metadata.keys()):
            raise BadSchema(f"{unused[0]} needs {SCHEMA}, which the stream's metadata does not have")
        return None
    terms = TypingTerms(schema_in(metadata), metadata.get(TABLE) == "latest", metadata.get(VALIDATE) == "reject")
    if terms.infers and terms.schema != INFER:
        raise BadSchema(f"{SCHEMA} is {INFER} alone, without columns")
    if terms.infers and terms.rejects:
        raise BadSchema(f"{VALIDATE}=reject needs a schema to check by, not {SCHEMA}={INFER}")
    decoder_of(terms.schema)
    return terms


def is_inferred(schema: str) -> bool:
    """Whether the columns of a schema follow from the payloads."""
    return schema == INFER or schema.startswith(f"{INFER}:")


def inferred(columns: Record) -> str:
    """Return the schema of a table whose columns were inferred, and are these so far."""
    return f"{INFER}:{schema_string(columns)}"


def columns_in(schema: str) -> Record:
    """Return the columns in an inferred schema."""
    said = schema.removeprefix(INFER).removeprefix(":")
    return record_of(said) if said else Record(())


def schema_in(metadata: Mapping[str, str]) -> str:
    """Return the schema in metadata, in one text that tells its kind; empty without one."""
    schema, message = metadata.get(SCHEMA, "").strip(), metadata.get(MESSAGE)
    return schema if message is None else f"{_PROTOBUF}{message}:{schema}"


@lru_cache(maxsize=_DECODERS_KEPT)
def decoder_of(schema: str) -> PayloadDecoder:
    """Return the decoder of a schema; raise ``BadSchema``."""
    from delta_store.typed.inferred_schema import InferredDecoder
    from delta_store.typed.json_schema import JsonDecoder

    if is_inferred(schema):
        return InferredDecoder(columns_in(schema), taken=OWN_NAMES)
    if schema.startswith(_PROTOBUF):
        _, message, descriptors = schema.split(":", 2)
        with _having("protobuf", "a Protobuf schema"):
            from delta_store.typed.protobuf_schema import ProtobufDecoder
        return ProtobufDecoder(descriptors, message, taken=OWN_NAMES)
    said = _parsed(schema)
    if said.get("type") == "record" and isinstance(said.get("fields"), list):
        with _having("avro", "an Avro schema"):
            from delta_store.typed.avro_schema import AvroDecoder
        return AvroDecoder(said, taken=OWN_NAMES)
    return JsonDecoder(said, taken=OWN_NAMES)


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise BadSchema(f"the schema is no JSON, nor {INFER}: {error}; of Protobuf it needs {MESSAGE}") from None
    if not isinstance(found, dict):
        raise BadSchema("the schema is no JSON object")
    return found


@contextmanager
def _having(extra: str, what: str) -> Iterator[None]:
    """Say what to install where a library is missing."""
    try:
        yield
    except ImportError as error:
        raise BadSchema(f"{what} needs a package that is not installed here: pip install 'silt[{extra}]'") from error


def check_change(old: str, new: str) -> None:
    """Raise ``BadSchema`` for a schema to which a table can't go on: only optional columns may be added."""
    if INFER in (old, new):  # the table's columns are not known here: it is made anew unless it can go on
        return
    before, after = decoder_of(old), decoder_of(new)
    fault = _fault(before.record, after)
    if fault is not None:
        raise BadSchema(
            f"{SCHEMA} can't change so: {fault}. Add optional columns only; or take {SCHEMA} away and then set the "
            "other one, which makes the table anew out of the stream's messages"
        )


def _fault(old: Record, after: PayloadDecoder) -> str | None:
    new = {column.name: column.type for column in after.record.columns}
    for column in old.columns:
        if column.name not in new:
            return f"column {column.name!r} is gone"
        if new[column.name] != column.type:
            return f"column {column.name!r} turns from {sql_type(column.type)} into {sql_type(new[column.name])}"
    added = new.keys() - {column.name for column in old.columns}
    if must := sorted(added & after.required):
        return f"the new column {must[0]!r} is required, which older messages do not have"
    return None


def goes_on(old: Record, new: Record) -> bool:
    """Whether a table with the columns ``old`` may go on with ``new``: with the same, or with more."""
    after = {column.name: column.type for column in new.columns}
    return all(after.get(column.name) == column.type for column in old.columns)


def widened(columns: Record, payloads: Iterable[bytes]) -> Record:
    """Return inferred columns that hold these payloads as well."""
    from delta_store.typed.inferred_schema import InferredDecoder

    return InferredDecoder(columns, taken=OWN_NAMES).widened(payloads)
