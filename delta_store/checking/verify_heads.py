"""Verification of ``heads`` and ``removed``: their logs and files, and what they say against the rows of ``messages``.

Both are derived, so whatever is found can be made good. Reads only, and may run beside a settle job: ``heads`` is
pinned before ``messages``, which may be ahead.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conf.data_location import DataLocation
from delta_store.beside.beside_table import read_state
from delta_store.checking.beside_log import read_verified, seen_of
from delta_store.entries import head_rows
from delta_store.entries.beside_entry import BesideState
from delta_store.entries.findings import Finding, Seen, Severity, finding
from delta_store.entries.head_rows import HeadRow
from delta_store.heads.stored_rows import read_rows
from delta_store.reading.settled import SettledTable
from delta_store.reading.state_at import END, Columns, Cut, EventRow, cut_at, live_at, merged
from delta_store.storage.storage import Storage
from delta_store.values.read_errors import DamagedData, FileGone
from delta_store.values.schemas import HEADS_FOLDER, HEADS_SCHEMA, MESSAGES_FOLDER, REMOVED_FOLDER, REMOVED_SCHEMA

_SCHEMAS = {HEADS_FOLDER: HEADS_SCHEMA, REMOVED_FOLDER: REMOVED_SCHEMA}
_MESSAGE = ("stream_id", "seq", "evicts")
_EVENT = ("stream_id", *EventRow._fields)


class HeadsLook(NamedTuple):
    """The outcome of verifying both tables."""

    seen: tuple[Seen, ...]
    """Empty where they were not made yet."""
    findings: tuple[Finding, ...]


class _Read(NamedTuple):
    """A table that was read whole."""

    state: BesideState
    rows: pa.Table


def look_at_heads(data: DataLocation) -> HeadsLook:
    """Verify both tables. Raises ``StorageError`` where they can't be read at all."""
    found: list[Finding] = []
    tables = {name: read_verified(data, name, found, partial(_read, name=name)) for name in _SCHEMAS}
    states = {name: one.state for name, one in tables.items() if one is not None}
    seen = [seen_of(name, state) for name, state in states.items() if state.version >= 0]
    heads, removed = tables[HEADS_FOLDER], tables[REMOVED_FOLDER]
    if heads is not None and removed is not None:
        found += _against_rows(data, head_rows.newest(heads.rows), removed.rows)
    return HeadsLook(tuple(seen), tuple(found))


def _read(storage: Storage, name: str) -> _Read:
    state = read_state(storage)
    return _Read(state, read_rows(storage, state.files.values(), _SCHEMAS[name]))


def _against_rows(data: DataLocation, heads: Mapping[str, HeadRow], removed: pa.Table) -> Iterator[Finding]:
    """Find streams of which both tables show another state than the rows."""
    settled = SettledTable(data.table(MESSAGES_FOLDER), storage_options=data.options)
    try:
        marks = settled.refresh().watermarks
        for stream, head in sorted(heads.items()):
            mark = marks.get(stream)
            if mark is None or mark.position < head.position:
                what = f"it has stream {stream!r} up to sequence {head.watermark}, messages does not"
                yield finding(Severity.REPAIRABLE, HEADS_FOLDER, "", what)
            elif head.config is not None and mark.stream_id == head.stream_id:
                yield from _against_stream(settled, head, removed)
    except (DamagedData, FileGone):  # found, or deleted meanwhile, in messages
        return


def _against_stream(settled: SettledTable, head: HeadRow, removed: pa.Table) -> Iterator[Finding]:
    files = settled.snapshot.of_stream(head.stream)
    rows = _of(head, settled.columns([file for file in files if file.has_messages], _MESSAGE))
    if rows is None:
        return
    events = _of(head, settled.columns([file for file in files if file.events_only], _EVENT))
    seqs = rows["seq"].to_numpy()
    inside = seqs <= head.watermark
    seqs, evicts = seqs[inside], rows["evicts"].to_numpy()[inside]
    happened = [] if events is None else _events(events, head)
    recorded = cut_at(END, first_seq=head.first_seq, events=happened)
    mine = removed.filter(
        pc.and_(pc.equal(removed["stream_id"], head.stream_id), pc.less_equal(removed["version"], head.version))
    )
    named = merged(zip(mine["low"].to_pylist(), mine["high"].to_pylist(), strict=True))
    by_rows = live_at(Columns(seqs, evicts), recorded)
    by_tables = live_at(Columns(seqs, np.zeros_like(seqs)), Cut(END, head.first_seq, named))
    if len(other := seqs[by_rows != by_tables]):
        what = f"sequence {other.min()} of stream {head.stream!r} is live by it, or by messages, but not by both"
        yield finding(Severity.REPAIRABLE, REMOVED_FOLDER, "", what)


def _of(head: HeadRow, rows: pa.Table | None) -> pa.Table | None:
    return None if rows is None else rows.filter(pc.equal(rows["stream_id"], head.stream_id))


def _events(rows: pa.Table, head: HeadRow) -> list[EventRow]:
    """Return the events up to the head."""
    values = zip(*(rows[name].to_pylist() for name in EventRow._fields), strict=True)
    return [one for one in map(EventRow._make, values) if one[:2] <= (head.watermark, head.event_no)]
