"""Replay of rows: recorded effects are applied to the streams, nothing is decided.

Rows may come again, and rows whose messages were removed may be missing: a row at or below its stream's position is
skipped, and the effects of the rows behind stand for themselves.
"""

from collections.abc import Mapping, Sequence
from itertools import compress, pairwise

import numpy as np

from delta_store.streams.catalog import Catalog
from delta_store.streams.event_rows import read_restored, read_stream
from delta_store.streams.removal_rows import read_removal
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import CONSUMER_KINDS, Kind, Row, RowColumns
from delta_store.values.watermark import Watermark


def replay(catalog: Catalog, rows: RowColumns, *, sizes: Sequence[int] | None = None) -> None:
    """Apply rows in position order (per stream); ``sizes`` are stored sizes, for rows without their payloads.

    Raises ``ValueError`` for a row of a stream that no row has created.
    """
    starts = [place for place in range(len(rows)) if place == 0 or _breaks(rows, place)]
    for start, stop in pairwise([*starts, len(rows)]):
        if rows.kind[start] == Kind.MESSAGE:
            _apply_messages(catalog, rows, slice(start, stop), sizes)
        else:
            _apply_event(catalog, _row_at(rows, start))


def replay_row(catalog: Catalog, row: Row) -> None:
    """Replay one row."""
    rows = RowColumns()
    rows.append(row)
    replay(catalog, rows)


def restore_watermarks(catalog: Catalog, watermarks: Mapping[str, Watermark]) -> None:
    """Set the positions of streams after settled rows were replayed: the last ones may have been deleted."""
    for name, mark in watermarks.items():
        state = catalog.streams.get(name)
        if state is not None and state.stream_id == mark.stream_id:
            state.restore_position(seq=mark.seq, event_no=mark.event_no, first_seq=mark.first_seq)
        elif state is None:
            catalog.close(name, max(catalog.ended.get(name, mark.position), mark.position))


def _breaks(rows: RowColumns, place: int) -> bool:
    """Whether a row can't be applied together with the one before it."""
    return (
        rows.kind[place] != Kind.MESSAGE
        or rows.kind[place - 1] != Kind.MESSAGE
        or rows.stream[place] != rows.stream[place - 1]
        or rows.stream_id[place] != rows.stream_id[place - 1]
    )


def _apply_messages(catalog: Catalog, rows: RowColumns, part: slice, sizes: Sequence[int] | None) -> None:
    """Apply message rows of one stream; those that were applied before are skipped."""
    state = _replayed(catalog, rows.stream[part.start], rows.stream_id[part.start])
    if state is None:
        return
    index = state.index
    seqs = np.array(rows.seq[part], np.int64)
    new = (seqs > np.maximum.accumulate(np.concatenate(([index.last_seq], seqs)))[:-1]).tolist()
    mine = RowColumns(*(list(compress(getattr(rows, name)[part], new)) for name in RowColumns.__slots__))
    if not len(mine):
        return
    if sizes is None:
        counted = stored_sizes(mine.subject, mine.headers, mine.data)
    else:
        counted = np.array(list(compress(sizes[part], new)), np.int64)
    sids = np.fromiter(map(index.table.intern, mine.subject), np.int64, len(mine))
    index.append_run(np.array(mine.seq, np.int64), sids=sids, ts_ns=np.array(mine.ts_ns, np.int64), sizes=counted)
    if state.reads_content:
        for seq, headers, data, ts_ns in zip(mine.seq, mine.headers, mine.data, mine.ts_ns, strict=True):
            state.note_content(seq, headers, data, ts_ns=ts_ns)
    for evicted in filter(None, mine.evicts):
        index.remove(evicted)
    index.advance_first(max(mine.first_seq))
    state.dedup.restore(zip(mine.msg_id, mine.seq, mine.ts_ns, strict=True))
    state.last_msg_id = mine.msg_id[-1] or ""
    state.clock_ns = max(state.clock_ns, mine.ts_ns[-1])


def _apply_event(catalog: Catalog, row: Row) -> None:
    state = catalog.streams.get(row.stream)
    ended = catalog.ended.get(row.stream)
    if (state is not None and row.position <= state.position) or (ended is not None and row.position <= ended):
        return
    if row.kind == Kind.STREAM:
        config, created_ns = read_stream(row.data)
        if state is None or state.stream_id != row.stream_id:
            state = catalog.open(config, stream_id=row.stream_id, created_ns=created_ns)
        else:
            catalog.reconfigure(state, config, ts_ns=row.ts_ns)
        state.restored, state.resume = read_restored(row.data)
        _note_event(state, row)
    elif row.kind == Kind.STREAM_DELETE:
        catalog.close(row.stream, row.position)
    elif row.kind == Kind.REMOVE:
        removed_from = _replayed(catalog, row.stream, row.stream_id)
        if removed_from is not None:
            _apply_removal(removed_from, row)
    elif row.kind in CONSUMER_KINDS:
        consumed = _replayed(catalog, row.stream, row.stream_id)
        if consumed is not None:
            consumed.note_consumer(Kind(row.kind), row.subject, row.data)
            _note_event(consumed, row)


def _apply_removal(state: StreamState, row: Row) -> None:
    removal, last_ts = read_removal(row.data)
    index = state.index
    index.restore_bounds(first_seq=row.first_seq, last_seq=row.seq, last_ts=last_ts)
    for first, last in removal.ranges:
        if first == last:
            index.remove(first)
        else:
            index.remove_many(index.live.sequences(first, last))
    index.advance_first(row.first_seq)
    _note_event(state, row)


def _note_event(state: StreamState, row: Row) -> None:
    """Advance to the position of an event row that was applied."""
    state.event_no = row.event_no
    state.clock_ns = max(state.clock_ns, row.ts_ns)
    state.index.restore_bounds(first_seq=row.first_seq, last_seq=row.seq, last_ts=0)


def _replayed(catalog: Catalog, name: str, stream_id: int) -> StreamState | None:
    """Return the stream of a replayed row; None when that stream has ended."""
    state = catalog.streams.get(name)
    if state is not None and stream_id == state.stream_id:
        return state
    ended = catalog.ended.get(name)
    newest = state.stream_id if state is not None else ended.stream_id if ended is not None else -1
    if stream_id > newest:
        raise ValueError(f"a row of stream {name!r} (id {stream_id}) that no row before it created")
    return None


def _row_at(rows: RowColumns, place: int) -> Row:
    """Return one of the rows, with 0 for its checksum."""
    return Row._make([*(getattr(rows, name)[place] for name in RowColumns.__slots__), 0])
