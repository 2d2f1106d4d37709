"""Messages as rows of a typed table and of its dead letters. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.typed.column_types import ColumnType, arrow_type
from delta_store.typed.payload_decoder import Misfit, PayloadDecoder, is_marker
from delta_store.typed.table_columns import REJECTS, arrow_schema, row_of

MESSAGE_COLUMNS: Final = ("subject", "seq", "ts_ns", "msg_id", "headers", "data")
_REASON_CHARS: Final = 1000
_NS_PER_US: Final = 1000
_UNSTORABLE: Final = (pa.ArrowException, OverflowError, ValueError, TypeError)
"""What Arrow raises for a value that a column can't hold."""


class TypedRows(NamedTuple):
    """What messages became; both in the order of the messages."""

    rows: pa.Table
    rejected: pa.Table


def typed(messages: pa.Table, decoder: PayloadDecoder) -> TypedRows:
    """Return the rows of messages, which have :data:`MESSAGE_COLUMNS`; a marker of a deletion is no row of either."""
    places, decoded, reasons = [], [], {}
    decode = decoder.decode
    columns = zip(messages["headers"].to_pylist(), messages["data"].to_pylist(), strict=True)
    for place, (headers, payload) in enumerate(columns):
        if headers and is_marker(headers):
            continue
        try:
            decoded.append(decode(payload))
            places.append(place)
        except Misfit as misfit:
            reasons[place] = str(misfit)
    values = decoder.columns(decoded)
    types = [column.type for column in decoder.record.columns]
    try:
        arrays = _arrays(values, types)
    except _UNSTORABLE:
        kept = []
        for number, row in enumerate(zip(*values, strict=True)):
            reason = _unstorable(row, decoder)
            if reason is None:
                kept.append(number)
            else:
                reasons[places[number]] = reason
        places = [places[number] for number in kept]
        arrays = _arrays([[column[number] for number in kept] for column in values], types)
    rows = pa.table([*_own(messages, places), *arrays], schema=arrow_schema(row_of(decoder.record)))
    return TypedRows(rows, _rejected(messages, dict(sorted(reasons.items()))))


def by_day(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Iterate over the rows of each day, UTC, by its name, in order of time."""
    if not rows.num_rows:
        return
    days = pc.strftime(rows["time"], "%Y-%m-%d").combine_chunks()
    for day in sorted(pc.unique(days).to_pylist()):
        yield day, rows.filter(pc.equal(days, day))


def last_of_subjects(rows: pa.Table) -> pa.Table:
    """Return the row with the highest ``seq`` of each subject, by ``seq``."""
    order = rows.take(pc.sort_indices(rows["seq"])) if rows.num_rows else rows
    subjects = order["subject"].to_pylist()
    last = {subject: place for place, subject in enumerate(subjects)}
    return order if len(last) == len(subjects) else order.take(pa.array(sorted(last.values()), pa.int64()))


def _own(messages: pa.Table, places: Sequence[int]) -> list[Any]:
    """Return the columns beside the payload's."""
    chosen = messages.take(pa.array(places, pa.int64()))
    micros = np.asarray(chosen["ts_ns"].to_numpy(), dtype=np.int64) // _NS_PER_US
    times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return [chosen["subject"], chosen["seq"], times, chosen["msg_id"]]


def _rejected(messages: pa.Table, reasons: dict[int, str]) -> pa.Table:
    places = list(reasons)
    texts = [reason[:_REASON_CHARS] for reason in reasons.values()]
    payloads = messages["data"].take(pa.array(places, pa.int64()))
    return pa.table([*_own(messages, places), pa.array(texts, pa.string()), payloads], schema=arrow_schema(REJECTS))


def _arrays(columns: Sequence[Sequence[Any]], types: Sequence[ColumnType]) -> list[pa.Array]:
    arrays = [pa.array(values, arrow_type(of)) for values, of in zip(columns, types, strict=True)]
    for array in arrays:
        if pa.types.is_timestamp(array.type):
            pc.min_max(array).as_py()  # raises for a time that is before the year 1 once it is in UTC
    return arrays


def _unstorable(row: Sequence[Any], decoder: PayloadDecoder) -> str | None:
    """Return why a table can't hold a decoded row, if so."""
    for column, value in zip(decoder.record.columns, row, strict=True):
        try:
            _arrays([[value]], [column.type])
        except _UNSTORABLE as error:
            return f"{error} - in column `{column.name}`"
    return None
