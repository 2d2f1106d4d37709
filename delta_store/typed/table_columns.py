"""The columns that a typed table and its dead letters have beside the payload's; persisted, they never change. Pure."""

from typing import Final

import pyarrow as pa

from delta_store.typed.column_types import Record, Scalar, TypedColumn, arrow_type

DAY: Final = "stored_on"
"""The partition: the day, UTC, on which the message was stored."""
_PLACE: Final = (
    TypedColumn("subject", Scalar.STRING),
    TypedColumn("seq", Scalar.LONG),
    TypedColumn("time", Scalar.TIMESTAMP),
    TypedColumn("msg_id", Scalar.STRING),
)
OWN_NAMES: Final = (*(column.name for column in _PLACE), DAY)
"""A field of a payload with one of these names gets an underscore behind it."""
STATISTICS: Final = ("subject", "seq", "time", "msg_id")
"""Columns with statistics: payloads have none, as in ``messages``."""
REJECTS: Final = Record((*_PLACE, TypedColumn("reason", Scalar.STRING), TypedColumn("payload", Scalar.BINARY)))
"""The columns of a row of dead letters, without the partition's."""


def row_of(payload: Record) -> Record:
    """Return the columns of a row, without the partition's."""
    return Record((*_PLACE, *payload.columns))


def with_day(row: Record) -> Record:
    """Return the columns of the table: a row's, and the partition's."""
    return Record((*row.columns, TypedColumn(DAY, Scalar.DATE)))


def without_own(table: Record) -> Record:
    """Return the columns of the payload in a table."""
    return Record(tuple(column for column in table.columns if column.name not in OWN_NAMES))


def arrow_schema(row: Record) -> pa.Schema:
    """Return the Arrow schema of rows."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in row.columns])
