"""Rows of ``removed``: which messages are not live any more, and from which sequence on. Pure.

A row is an eviction by a later message of the subject, or a range of a REMOVE row; what lies below the stream's first
sequence has none. It is needed while its messages are in ``messages``. When cleanup has deleted them it is given a time
to go: after a while, for whoever has pinned tables before; one that erases, when no past version has the messages.
"""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.values.records import Kind, Position
from delta_store.values.schemas import REMOVED_COLUMNS, REMOVED_SCHEMA

EVICTED: Final = "evicted"
"""The reason of a message that a later one of its subject replaced."""
MESSAGE_COLUMNS: Final = ("stream_id", "seq", "evicts", "ts_ns")
EVENT_COLUMNS: Final = ("stream_id", "seq", "event_no", "kind", "ts_ns", "data")
STATISTICS: Final = tuple(name for name in REMOVED_SCHEMA.names if name not in ("erase", "reason"))
NUMBERED: Final = tuple(column.name for column in REMOVED_COLUMNS if column.delta_type == "long")
_KEY: Final = ("stream_id", "low", "high", "at_seq")
_NO_POSITION: Final = Position(0, 0, 0)


def evictions(stream: str, messages: pa.Table, *, version: int, above: Position = _NO_POSITION) -> pa.Table:
    """Return what the messages above a position, with :data:`MESSAGE_COLUMNS`, have evicted."""
    ids, seqs, evicts = (messages[name].to_numpy() for name in MESSAGE_COLUMNS[:3])
    new = (ids > above.stream_id) | ((ids == above.stream_id) & (seqs > above.seq))
    chosen = messages.filter(pa.array(new & (evicts > 0)))
    one, at = chosen["evicts"], chosen["seq"]
    repeated = partial(pa.repeat, size=len(chosen))
    return _rows(
        stream=repeated(stream),
        stream_id=chosen["stream_id"],
        low=one,
        high=one,
        at_seq=at,
        ts_ns=chosen["ts_ns"],
        erase=repeated(False),
        reason=repeated(EVICTED),
        version=repeated(version),
        until_ns=repeated(0),
    )


def removals(stream: str, events: pa.Table, *, version: int, above: Position = _NO_POSITION) -> pa.Table:
    """Return the ranges of the REMOVE rows above a position, among rows with :data:`EVENT_COLUMNS`."""
    found = []
    for stream_id, seq, event_no, kind, ts_ns, data in zip(
        *(events[name].to_pylist() for name in EVENT_COLUMNS), strict=True
    ):
        if kind != Kind.REMOVE or Position(stream_id, seq, event_no) <= above:
            continue
        said = json.loads(data)
        for low, high in said["ranges"]:
            values = (stream, stream_id, low, high, seq + 1, ts_ns, said["erase"], said["reason"], version, 0)
            found.append(dict(zip(REMOVED_SCHEMA.names, values, strict=True)))
    return pa.Table.from_pylist(found, schema=REMOVED_SCHEMA)


def none() -> pa.Table:
    """Return no rows."""
    return REMOVED_SCHEMA.empty_table()


def unknown(rows: pa.Table, known: pa.Table) -> pa.Table:
    """Leave out the rows that are known already."""
    if not len(known) or not len(rows):
        return rows
    places = set(_keys(known))
    return rows.filter(pa.array([key not in places for key in _keys(rows)], pa.bool_()))


def split(rows: pa.Table, *, applied: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the rows that the newest ``messages`` needs, those that only past versions need, and the others.

    All that was not live at version ``applied`` has been deleted.
    """
    over = pc.less_equal(rows["version"], applied)
    return rows.filter(pc.invert(over)), *(
        rows.filter(pc.and_(over, chosen)) for chosen in (rows["erase"], pc.invert(rows["erase"]))
    )


def until(rows: pa.Table, until_ns: int) -> pa.Table:
    """Return the rows with a time to go."""
    place = rows.schema.get_field_index("until_ns")
    times = pa.array(np.full(len(rows), until_ns, np.int64))
    return rows.set_column(place, REMOVED_SCHEMA.field(place), times)


def joined(parts: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of several tables as one."""
    return pa.concat_tables([none(), *parts]).combine_chunks()


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows in the order in which a reader looks for them, by stream and sequence."""
    return rows.sort_by([("stream", "ascending"), ("low", "ascending")])


def _rows(**columns: Any) -> pa.Table:
    return pa.table(columns, schema=REMOVED_SCHEMA)


def _keys(rows: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in _KEY), strict=True))
