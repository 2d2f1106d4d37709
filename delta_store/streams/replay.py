"""Replaying rows: recorded effects are applied to the streams, nothing is decided.

Rows may come again, and rows whose messages were removed may be missing: a row at or below its stream's position is
passed over, and the effects of the rows behind stand for themselves.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from delta_store.streams.event_rows import read_stream
from delta_store.streams.stream_directory import StreamDirectory
from delta_store.streams.stream_state import MessageColumns, StreamState
from delta_store.values.records import CONSUMER_KINDS, Kind, Row, RowColumns, stored_size
from delta_store.values.watermark import Watermark


def replay(streams: StreamDirectory, rows: RowColumns, *, sizes: Sequence[int] | None = None) -> None:
    """Apply rows in position order (per stream); ``sizes`` are stored sizes, for rows without their payloads.

    Raises ``ValueError`` for a row of a stream that no row has created.
    """
    starts = [place for place in range(len(rows)) if place == 0 or _breaks(rows, place)]
    for start, stop in pairwise([*starts, len(rows)]):
        if rows.kind[start] == Kind.MESSAGE:
            _apply_messages(streams, rows, slice(start, stop), sizes)
        else:
            _apply_event(streams, _row_at(rows, start))


def restore_watermarks(streams: StreamDirectory, watermarks: Mapping[str, Watermark]) -> None:
    """Say how far the rows replayed so far went, in case the last ones of a stream are physically gone."""
    for name, mark in watermarks.items():
        state = streams.streams.get(name)
        if state is not None and state.stream_id == mark.stream_id:
            state.restore_position(seq=mark.seq, event_no=mark.event_no, first_seq=mark.first_seq)
        elif state is None:
            streams.note_ended(name, max(streams.ended.get(name, mark.position), mark.position))


def _breaks(rows: RowColumns, place: int) -> bool:
    """Whether a row can't be applied together with the one before it."""
    return (
        rows.kind[place] != Kind.MESSAGE
        or rows.kind[place - 1] != Kind.MESSAGE
        or rows.stream[place] != rows.stream[place - 1]
        or rows.stream_id[place] != rows.stream_id[place - 1]
    )


def _apply_messages(streams: StreamDirectory, rows: RowColumns, part: slice, sizes: Sequence[int] | None) -> None:
    """Apply message rows of one stream."""
    state = _replayed(streams, rows.stream[part.start], rows.stream_id[part.start])
    if state is None:
        return
    if sizes is None:
        columns = zip(rows.subject[part], rows.headers[part], rows.data[part], strict=True)
        counted = [stored_size(subject, headers, data) for subject, headers, data in columns]
    else:
        counted = list(sizes[part])
    state.apply_messages(
        MessageColumns(
            seqs=np.array(rows.seq[part], np.int64),
            subjects=rows.subject[part],
            ts_ns=np.array(rows.ts_ns[part], np.int64),
            sizes=np.array(counted, np.int64),
            msg_ids=rows.msg_id[part],
            first_seqs=np.array(rows.first_seq[part], np.int64),
            evicts=np.array(rows.evicts[part], np.int64),
            headers=rows.headers[part] if state.reads_content else (),
            data=rows.data[part] if state.reads_content else (),
        )
    )


def _apply_event(streams: StreamDirectory, row: Row) -> None:
    state = streams.streams.get(row.stream)
    ended = streams.ended.get(row.stream)
    if (state is not None and row.position <= state.position) or (ended is not None and row.position <= ended):
        return
    if row.kind == Kind.STREAM:
        config, created_ns = read_stream(row.data)
        if state is None or state.stream_id != row.stream_id:
            state = streams.open(config, stream_id=row.stream_id, created_ns=created_ns)
        else:
            streams.reconfigure(state, config, ts_ns=row.ts_ns)
        state.note_event(row)
    elif row.kind == Kind.STREAM_DELETE:
        streams.close(row.stream, row.position)
    elif row.kind == Kind.REMOVE:
        removed_from = _replayed(streams, row.stream, row.stream_id)
        if removed_from is not None:
            removed_from.apply_removal(row)
    elif row.kind in CONSUMER_KINDS:
        consumed = _replayed(streams, row.stream, row.stream_id)
        if consumed is not None:
            consumed.apply_consumer(row)


def _replayed(streams: StreamDirectory, name: str, stream_id: int) -> StreamState | None:
    """The stream that a replayed row belongs to, None when the row is of one that ended."""
    state = streams.streams.get(name)
    if state is not None and stream_id == state.stream_id:
        return state
    ended = streams.ended.get(name)
    newest = state.stream_id if state is not None else ended.stream_id if ended is not None else -1
    if stream_id > newest:
        raise ValueError(f"a row of stream {name!r} (id {stream_id}) that no row before it created")
    return None


def _row_at(rows: RowColumns, place: int) -> Row:
    """One row of many, its checksum left out."""
    return Row._make([*(getattr(rows, name)[place] for name in RowColumns.__slots__), 0])
