"""Rows of ``heads``: how far a stream is settled, and at which versions its states can be read. Pure.

Each batch that moves a stream adds a row. A row's versions hold every state from ``from_seq`` to ``watermark``: nothing
that was live at one of them had been deleted by then. Where cleanup deleted nothing between two rows of a stream, the
later one holds all states of the earlier one, which is then superseded.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_store.values.records import Kind, Position
from delta_store.values.schemas import HEADS_COLUMNS, HEADS_SCHEMA
from delta_store.values.watermark import Watermark, Watermarks

STATISTICS: Final = tuple(name for name in HEADS_SCHEMA.names if name != "config")
NUMBERED: Final = tuple(column.name for column in HEADS_COLUMNS if column.delta_type == "long")


class HeadRow(NamedTuple):
    """A row, by its columns in their order."""

    stream: str
    stream_id: int
    first_seq: int
    watermark: int
    event_no: int
    ts_ns: int
    version: int
    removed_version: int
    from_seq: int
    from_ns: int
    settled_ns: int
    created_ns: int
    config: str | None
    """None once the stream is deleted."""

    @property
    def position(self) -> Position:
        """The last settled row's place in its stream's order."""
        return Position(self.stream_id, self.watermark, self.event_no)


class Deletes(NamedTuple):
    """The newest commit to ``messages`` by which cleanup deleted rows."""

    version: int
    marks: Watermarks
    """How far each stream was settled then: nothing behind that was deleted."""


class Said(NamedTuple):
    """The last that a stream's events said of it."""

    created_ns: int
    config: str | None
    """None when it was deleted."""
    born: bool
    """Whether the stream was created among the rows in question."""


class Settled(NamedTuple):
    """What is settled of a stream at a version."""

    mark: Watermark
    ts_ns: int
    """Of its last row."""
    said: Said | None
    """None when no event tells anything new."""


def said_by(events: Iterable[tuple[Position, str, bytes]]) -> Said | None:
    """Return what STREAM and STREAM_DELETE rows (position, kind, data) of one incarnation say; None without any."""
    in_order = sorted(events)
    if not in_order:
        return None
    born = in_order[0][0].event_no == 1
    told = [json.loads(data) for _, kind, data in in_order if kind == Kind.STREAM]
    created_ns = int(told[-1]["created_ns"]) if told else 0
    if in_order[-1][1] == Kind.STREAM_DELETE:
        return Said(created_ns, None, born)
    return Said(created_ns, json.dumps(told[-1]["config"], separators=(",", ":"), ensure_ascii=False), born)


def next_row(
    stream: str, before: HeadRow | None, now: Settled, *, deletes: Deletes, followed: int, place: tuple[int, int, int]
) -> HeadRow:
    """Return the row of a stream after ``before``, its newest one.

    ``followed`` is the version of ``messages`` up to which the rows of all streams are there; ``place`` is (version,
    removed_version, settled_ns).
    """
    mark = now.mark
    same = before if before is not None and before.stream_id == mark.stream_id else None
    created_ns, config = (same.created_ns, same.config) if same is not None else (0, None)
    if now.said is not None:
        created_ns, config = now.said.created_ns or created_ns, now.said.config
    from_seq, from_ns = _from(stream, same, now, deletes, followed)
    held = (from_seq, from_ns)
    version, removed_version, settled_ns = place
    return HeadRow(
        stream, mark.stream_id, mark.first_seq, mark.seq, mark.event_no, now.ts_ns,
        version, removed_version, *held, settled_ns, created_ns, config,
    )  # fmt: skip


def tells_more(row: HeadRow, before: HeadRow | None) -> bool:
    """Whether a stream's next row says more of it than the one before, which may be missing."""
    if before is None:
        return row.config is not None
    said = (before.stream_id, before.first_seq, before.watermark, before.config)
    return said != (row.stream_id, row.first_seq, row.watermark, row.config)


def renewed(rows: Iterable[HeadRow], *, before_ns: int, place: tuple[int, int, int]) -> list[HeadRow]:
    """Return rows in the place of those from before a time, of streams that nothing has happened to since.

    ``place`` as in :func:`next_row`. The new rows hold what comes behind their last settled row.
    """
    version, removed_version, settled_ns = place
    return [
        row._replace(
            version=version,
            removed_version=removed_version,
            from_seq=row.watermark + 1,
            from_ns=row.ts_ns + 1,
            settled_ns=settled_ns,
        )
        for row in rows
        if row.config is not None and row.settled_ns < before_ns
    ]


def _from(stream: str, before: HeadRow | None, now: Settled, deletes: Deletes, followed: int) -> tuple[int, int]:
    """Return the first sequence, and the first time, whose state is still whole."""
    if deletes.version <= (followed if before is None else before.version):
        if before is not None:
            return before.from_seq, before.from_ns
        if now.said is not None and now.said.born:
            return 1, 0
    mark = deletes.marks.get(stream)
    if mark is None or mark.stream_id != now.mark.stream_id:
        born = now.said is not None and now.said.born
        return (1, 0) if born else (now.mark.seq + 1, now.ts_ns + 1)
    seen = before is not None and mark.position <= before.position
    return mark.seq + 1, (before.ts_ns if before is not None and seen else now.ts_ns) + 1


def as_table(rows: Iterable[HeadRow]) -> pa.Table:
    """Return rows in Arrow."""
    columns = list(zip(*rows, strict=True)) or [()] * len(HEADS_SCHEMA)
    return pa.table(list(map(pa.array, columns, HEADS_SCHEMA.types)), schema=HEADS_SCHEMA)


def from_table(rows: pa.Table) -> list[HeadRow]:
    """Return the rows of an Arrow table, in the order in which they were written."""
    values = (rows[name].to_pylist() for name in HEADS_SCHEMA.names)
    return sorted(map(HeadRow._make, zip(*values, strict=True)), key=lambda row: (row.version, row.stream_id))


def newest(rows: pa.Table) -> dict[str, HeadRow]:
    """Return the newest row of each stream; a table with its history may be long."""
    order = np.lexsort((rows["stream_id"].to_numpy(), rows["version"].to_numpy()))
    streams = pc.dictionary_encode(rows["stream"].combine_chunks()).indices.to_numpy()
    last = {int(streams[place]): int(place) for place in order}
    return {row.stream: row for row in from_table(rows.take(pa.array(sorted(last.values()), pa.int64())))}


def thinned(rows: Iterable[HeadRow], *, before_ns: int, whole: bool) -> list[HeadRow]:
    """Leave out superseded rows, and those that have not been the newest ones since ``before_ns``, whatever they hold.

    The newest row of a stream stays; of a deleted stream, where these are the ``whole`` table, until it is that old.
    """
    kept: list[HeadRow] = []
    later: dict[str, HeadRow] = {}
    for row in sorted(rows, key=lambda one: (one.version, one.stream_id), reverse=True):
        after = later.get(row.stream)
        later[row.stream] = row
        if after is None:
            over = whole and row.config is None and row.settled_ns < before_ns
        else:
            same = (after.stream_id, after.from_seq, after.from_ns) == (row.stream_id, row.from_seq, row.from_ns)
            over = same or after.settled_ns < before_ns
        if not over:
            kept.append(row)
    return kept[::-1]


def living(rows: Iterable[HeadRow]) -> dict[str, HeadRow]:
    """Return the newest row of each stream that is not deleted, of rows in their order."""
    return {name: row for name, row in {row.stream: row for row in rows}.items() if row.config is not None}


def newest_tier(rows: Sequence[int]) -> int:
    """Return how many of the newest files, of files with so many rows, oldest first, are worth merging into one.

    A file is merged with newer ones that are half as long together, so each row is written anew a few times only.
    """
    number = total = 0
    for count in reversed(rows):
        if number > 1 and count > 2 * total:
            break
        number, total = number + 1, total + count
    return number


def holding(
    rows: Iterable[HeadRow], stream: str, *, seq: int | None = None, before_ns: int | None = None, event_no: int = 0
) -> HeadRow | None:
    """Return the row whose versions hold a stream's state at a sequence or a time (exclusive); None without one.

    A sequence may come with the number of the last event behind it that counts. Without either it is the newest. Only
    the newest incarnation of a stream has states.
    """
    mine = [row for row in rows if row.stream == stream]
    if not mine or mine[-1].config is None:
        return None
    mine = [row for row in mine if row.stream_id == mine[-1].stream_id]
    if seq is not None:
        place = (seq, event_no)
        return next((row for row in mine if row.from_seq <= seq and place <= (row.watermark, row.event_no)), None)
    if before_ns is not None:
        reaching = [row for row in mine if row.ts_ns >= before_ns] or mine[-1:]
        return next((row for row in reaching if row.from_ns <= before_ns), None)
    return mine[-1]


def behind(rows: Mapping[str, HeadRow], marks: Watermarks) -> list[str]:
    """Return the streams that are settled further than their newest rows say."""
    return [name for name, mark in marks.items() if name not in rows or rows[name].position < mark.position]
