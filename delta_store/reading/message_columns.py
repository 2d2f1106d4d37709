"""Message rows of one incarnation of a stream as columns, and those of them that are live as its index."""

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.entries.settled_log import Int64s
from delta_store.reading.state_at import Columns, Cut, live_at
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind

COLUMNS: Final = ("stream_id", "kind", "seq", "subject", "ts_ns", "evicts", "size")
"""The columns of ``messages`` that an index is made of."""


class MessageColumns(NamedTuple):
    """Message rows, ascending by sequence, dead ones included (equal lengths)."""

    seq: Int64s
    evicts: Int64s
    ts_ns: Int64s
    size: Int64s
    subject: Int64s
    """Index into ``subjects``."""
    subjects: list[str]


def message_columns(table: Any, stream_id: int) -> MessageColumns:
    """Return the messages of one incarnation among rows with :data:`COLUMNS`, each sequence once; None has none."""
    none = np.empty(0, np.int64)
    if table is None:
        return MessageColumns(none, none, none, none, none, [])
    chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.equal(table["kind"], Kind.MESSAGE.value))
    table = table.filter(chosen).combine_chunks()
    seq, order = np.unique(table["seq"].to_numpy(), return_index=True)
    evicts, ts_ns, size = (table[name].to_numpy()[order] for name in ("evicts", "ts_ns", "size"))
    subject, subjects = _dictionary(table)
    return MessageColumns(seq, evicts, ts_ns, size, subject[order], subjects)


def with_sizes(rows: Any) -> Any:
    """Return rows with the journal's columns as a table with :data:`COLUMNS`, without their payloads."""
    subjects, headers, data = (rows[name].to_pylist() for name in ("subject", "headers", "data"))
    sizes = stored_sizes(subjects, headers, data) if subjects else np.empty(0, np.int64)
    named = pa.array(subjects, pa.string()).dictionary_encode()
    columns = {name: rows[name] for name in COLUMNS if name not in ("subject", "size")}
    return pa.table(columns | {"subject": named, "size": pa.array(sizes, pa.int64())}).select(COLUMNS)


def add_live(state: StreamState, rows: MessageColumns, cut: Cut) -> None:
    """Put the rows that are live at a cut into an empty index."""
    live = live_at(Columns(rows.seq, rows.evicts), cut)
    if live.any():
        sids = _interned(state, rows.subject[live], rows.subjects)
        state.index.append_run(rows.seq[live], sids=sids, ts_ns=rows.ts_ns[live], sizes=rows.size[live])


def _interned(state: StreamState, subject: Int64s, subjects: list[str]) -> Int64s:
    """Return the index's subject ids of live rows; subjects without live rows get none."""
    used = np.flatnonzero(np.bincount(subject, minlength=len(subjects)))
    ids = np.zeros(len(subjects), np.int64)
    ids[used] = [state.index.table.intern(subjects[place]) for place in used.tolist()]
    return ids[subject]


def _dictionary(table: Any) -> tuple[Int64s, list[str]]:
    """Return each row's subject as an index, and the subjects."""
    if not len(table):
        return np.empty(0, np.int64), []
    column = table["subject"].combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    return column.indices.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()
