"""A stream at a past point, by Delta time travel: also messages that limits have removed since.

Order of a consistent view: pin the journal's version, then that of ``messages``; rows at or below the watermark come
from ``messages``, rows above it from the journal. So a row that is settled meanwhile is read exactly once. The state at
S ≤ watermark comes from the version that settled S: limits are applied to the table only after the append that carries
them, so no message that was live at S is missing there.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conf.clock import Clock, SystemClock
from conf.data_location import DataLocation
from delta_store.entries.settled_log import DataFile, Int64s, Snapshot, may_hold_subjects
from delta_store.entries.tables_agree import fault_of_lost_journal
from delta_store.reading.journal_tail import JournalTail, open_tables
from delta_store.reading.kept_points import read_view, require_kept, was_not_there
from delta_store.reading.read_plan import Part
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_times import SettledTimes, last_stored_ns
from delta_store.reading.state_at import (
    END,
    Columns,
    Cut,
    EventRow,
    cut_at,
    has_happened,
    last_of_each,
    live_at,
    removed_since,
)
from delta_store.values.read_errors import DamagedData, FileGone, NoSuchStream, PastHorizon, TooMany
from delta_store.values.records import Kind
from delta_store.values.stream_message import StreamMessage
from delta_store.values.subjects import SubjectFilter

_EVENT: Final = ("stream_id", "seq", "event_no", "kind", "first_seq", "data", "ts_ns")
_LIVENESS: Final = ("stream_id", "kind", "seq", "subject", "first_seq", "evicts")
VIEW_TRIES: Final = 6
"""Views that are pinned in turn before a file that is gone is an error."""
_CLOCK: Final = SystemClock()
_WORKER_CACHE_BYTES: Final = 32 * 1024 * 1024
Answer = TypeVar("Answer")


class Pinned(NamedTuple):
    """One version of each table; the journal's was pinned first."""

    journal: Snapshot
    settled: Snapshot


class View(NamedTuple):
    """One stream at two pinned table versions."""

    stream: str
    stream_id: int
    journal: Snapshot
    settled: Snapshot
    settled_seq: int
    """Messages up to this sequence are in ``settled``, later ones in the journal."""
    last_seq: int
    tail: Any
    """The journal rows behind the watermark, metadata only (an Arrow table), or None."""
    events: tuple[EventRow, ...]


class Point(NamedTuple):
    """A point in a stream's history."""

    seq: int
    """The state right after this message was stored."""
    before_ns: int = 0
    """Include events after it and before this time; 0 for none."""
    event_no: int = 0
    """Include events after it up to this number; 0 for none."""

    def includes(self, event: EventRow) -> bool:
        """Whether an event happened before the point."""
        return has_happened(event, *self)


class Past(NamedTuple):
    """All that decides which rows of a view were live at a point."""

    base: Snapshot
    """The version of ``messages`` with the settled part of the state."""
    cut: Cut


class PastState(NamedTuple):
    """The answer to a ``multi_last`` at a point."""

    up_to_seq: int
    """The sequence of the point; 0 when it is before the first message."""
    messages: list[StreamMessage]
    """The last message of each matching subject, ascending by sequence."""
    more: bool = False
    """Whether messages follow the requested part."""


class PointInTime:
    """Reads the past of any stream; blocking and thread-safe."""

    def __init__(self, settled: SettledTable, journal: JournalTail, *, clock: Clock = _CLOCK) -> None:
        """``clock`` tells from when the histories of streams count back."""
        self.settled = settled
        self.journal = journal
        self.clock = clock

    def multi_last(
        self,
        stream: str,
        filters: Sequence[str],
        *,
        up_to_seq: int | None = None,
        up_to_ts_ns: int | None = None,
        limit: int | Part | None = None,
    ) -> PastState:
        """Return the last message of each matching subject at a sequence (inclusive), time (exclusive), or now.

        ``limit`` bounds their number, or is the part to read. Raises ``NoSuchStream``, ``PastHorizon``, ``TooMany``
        (more than ``limit`` subjects) or ``DamagedData``.
        """
        subjects = SubjectFilter(filters)

        def read(view: View) -> PastState:
            point = self.point(view, up_to_seq, up_to_ts_ns)
            messages, more = self.messages(view, subjects, point, limit) if point.seq > 0 else ([], False)
            return PastState(min(point.seq, view.last_seq), messages, more)

        return self.with_view(stream, read)

    def with_view(self, stream: str, read: Callable[[View], Answer]) -> Answer:
        """Read from a pinned view; retry when truncation or vacuum deleted a file of the view meanwhile."""
        return with_pinned(self, lambda pinned: read_view(self, self.view(stream, pinned), read))

    def pinned(self) -> Pinned:
        """Return the newest version of each table. Raises ``DamagedData``: nothing past damage is read."""
        journal = self.journal.refresh()
        settled = self.settled.refresh()
        if fault := fault_of_lost_journal(journal.version, settled.watermarks):
            raise DamagedData(self.journal.location, fault)
        return Pinned(journal, settled)

    def view(self, stream: str, pinned: Pinned) -> View:
        """Return a stream at pinned versions. Raises ``NoSuchStream``, ``DamagedData`` or ``FileGone``."""
        journal, settled = pinned
        mark = settled.watermarks.get(stream)
        position = mark.position if mark is not None else None
        tail = self.journal.rows_of(journal, stream, above=position)
        ids = [0] if tail is None or not len(tail) else [pc.max(tail["stream_id"]).as_py()]
        stream_id = max(*ids, mark.stream_id) if mark is not None else ids[0]
        if not stream_id:
            raise NoSuchStream(stream)
        settled_seq = mark.seq if mark is not None and mark.stream_id == stream_id else 0
        if tail is not None:
            tail = tail.filter(pc.equal(tail["stream_id"], stream_id))
        last_seq = max(settled_seq, pc.max(tail["seq"]).as_py() or 0) if tail is not None else settled_seq
        events = self._events(journal, settled, stream, stream_id)
        if not events or max(events).kind == Kind.STREAM_DELETE:
            raise NoSuchStream(stream)
        return View(stream, stream_id, journal, settled, settled_seq, last_seq, tail, events)

    def _events(self, journal: Snapshot, settled: Snapshot, stream: str, stream_id: int) -> tuple[EventRow, ...]:
        """Return all events of the incarnation, each once, from both tables."""
        files = [file for file in settled.of_stream(stream) if file.events_only]
        kept = self.settled.columns(files, _EVENT)
        tables = [*self.journal.events_of(journal, stream), *([] if kept is None else [kept])]
        found = {event[:2]: event for table in tables for event in _event_rows(table, stream_id)}
        return tuple(sorted(found.values()))

    def point(self, view: View, up_to_seq: int | None, up_to_ts_ns: int | None) -> Point:
        """Return the point of a sequence (inclusive), a time (exclusive), or now.

        Raises ``PastHorizon``, also for one before the stream's own history. Before its creation it was empty.
        """
        if up_to_ts_ns is not None and was_not_there(view, up_to_ts_ns):
            return Point(0, up_to_ts_ns)
        if up_to_ts_ns is not None:
            point = Point(self.sequence_before(view, up_to_ts_ns), up_to_ts_ns)
        elif up_to_seq is None or up_to_seq > view.last_seq:
            return Point(END)
        else:
            point = Point(up_to_seq)
        require_kept(self, view, point)
        return point

    def past(self, view: View, point: Point) -> Past:
        """Return what decides the state at a point. Raises ``PastHorizon``, ``DamagedData`` or ``FileGone``."""
        base = self.base(view, point)
        first_seq = self._first_seq(base, view, point.seq)
        seq, before_ns, event_no = point
        return Past(base, cut_at(seq, first_seq=first_seq, events=view.events, before_ns=before_ns, event_no=event_no))

    def messages(
        self, view: View, subjects: SubjectFilter, point: Point, limit: int | Part | None
    ) -> tuple[list[StreamMessage], bool]:
        """Return the last message of each matching subject at a point, and whether others follow the requested part.

        Raises as :meth:`past`, or ``TooMany``.
        """
        base, wanted = self.lasts(view, subjects, point)
        if isinstance(limit, Part):
            start = int(np.searchsorted(wanted, limit.after_seq, side="right"))
            more = start + limit.most < len(wanted)
            return self.payloads(base, view, wanted[start : start + limit.most]), more
        if limit is not None and len(wanted) > limit:
            raise TooMany(limit)
        return self.payloads(base, view, wanted), False

    def lasts(self, view: View, subjects: SubjectFilter, point: Point) -> tuple[Snapshot, Int64s]:
        """Return the last sequence of each matching subject at a point, and by what :meth:`payloads` reads them.

        Raises as :meth:`past`.
        """
        seq = point.seq
        base, cut = self.past(view, point)
        files = [file for file in base.of_stream(view.stream) if file.has_messages and file.seq[0] <= seq]
        if subjects.is_literal:
            literals = sorted(subjects.literals)
            files = [file for file in files if may_hold_subjects(file, literals)]
        table = self.past_columns(base, view, files, _LIVENESS)
        parts = [_chosen(table, view.stream_id, subjects) if table is not None else _no_rows()]
        if seq > view.settled_seq and view.tail is not None:
            parts.append(_chosen(view.tail, view.stream_id, subjects))
        rows = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
        seqs = _ints(rows, "seq")
        live = live_at(Columns(seqs, _ints(rows, "evicts")), cut)
        return base, last_of_each(seqs[live], _subject_ids(rows)[live])

    def base(self, view: View, point: Point) -> Snapshot:
        """Return the version of ``messages`` for the settled part of the state at a point. Raises as :meth:`past`.

        The newest, where the point is not settled yet or nothing has happened since, however long ago it was.
        """
        seq, before_ns, event_no = point
        quiet = seq >= view.last_seq and not removed_since(seq, view.events, before_ns=before_ns, event_no=event_no)
        if quiet or seq > view.settled_seq or view.settled_seq == 0:
            return view.settled
        version = self.settled.append_version_for(view.stream, view.stream_id, seq)
        try:
            return self.settled.log.at(version)
        except FileGone as error:
            raise PastHorizon(view.stream, seq) from error

    def _first_seq(self, base: Snapshot, view: View, point: int) -> int:
        """Return ``first_seq`` as the row of message ``point`` recorded it; it only ever grows."""
        mark = view.settled.watermarks.get(view.stream)
        if view.settled_seq and point > view.settled_seq:
            recorded = mark.first_seq if mark is not None else 1
        elif view.settled_seq and (unchanged := self.settled.first_seq_in(base, view.stream, view.stream_id)):
            recorded = unchanged
        elif view.settled_seq:
            files = base.of_stream(view.stream)
            files = [one for one in files if not one.consumers_only and one.seq[0] <= point <= one.seq[1]]
            table = self.past_columns(base, view, files, ("stream_id", "seq", "kind", "first_seq"))
            recorded = _greatest_first_seq(table, view.stream_id, point)
        else:
            recorded = 1
        if point <= view.settled_seq or view.tail is None:
            return recorded
        return max(recorded, _greatest_first_seq(view.tail, view.stream_id, point))

    def past_columns(self, base: Snapshot, view: View, files: Sequence[DataFile], names: Sequence[str]) -> Any:
        """Read columns of the base version's files; a vacuumed file of an old version is past the horizon."""
        try:
            return self.settled.columns(files, names)
        except FileGone as error:
            if base.version == view.settled.version:
                raise
            raise PastHorizon(view.stream, None) from error

    def payloads(self, base: Snapshot, view: View, wanted: Int64s) -> list[StreamMessage]:
        """Return the messages of ascending sequences, the settled ones from ``base``. Raises as :meth:`past`."""
        settled = wanted[wanted <= view.settled_seq].tolist()
        tail = wanted[wanted > view.settled_seq].tolist()
        try:
            found = self.settled.fetch_from(base, view.stream, view.stream_id, settled) if settled else {}
        except FileGone as error:
            if base.version == view.settled.version:
                raise
            raise PastHorizon(view.stream, None) from error
        if tail:
            found |= self.journal.fetch(view.journal, view.stream, view.stream_id, tail)
        missing = [seq for seq in wanted.tolist() if seq not in found]
        if missing:
            raise DamagedData(f"messages of stream {view.stream!r}", f"sequence {missing[0]} can't be read back")
        return [found[seq] for seq in wanted.tolist()]

    def sequence_before(self, view: View, ts_ns: int) -> int:
        """Return the last sequence before a time, gaps and removed included; 0 for none. Raises as :meth:`past`."""
        told = max((event.seq for event in view.events if event.ts_ns < ts_ns), default=0)
        if view.tail is not None:
            stored = pc.and_(pc.equal(view.tail["kind"], Kind.MESSAGE.value), pc.less(view.tail["ts_ns"], ts_ns))
            if earlier := pc.max(view.tail.filter(stored)["seq"]).as_py():
                return int(max(earlier, told))
        files = (file for file in view.settled.of_stream(view.stream) if file.has_messages)
        if ts_ns > last_stored_ns(files, view.events):
            return max(view.settled_seq, told)
        times = SettledTimes(
            self.settled,
            (view.stream, view.stream_id),
            lambda base, files, names: self.past_columns(base, view, files, names),
        )
        return max(times.last_before(ts_ns, view.settled_seq), told)


def with_pinned(past: PointInTime, read: Callable[[Pinned], Answer]) -> Answer:
    """Read from pinned versions, of any number of streams; retry as :meth:`PointInTime.with_view`."""
    for _ in range(VIEW_TRIES - 1):
        try:
            return read(past.pinned())
        except FileGone:
            continue
    return read(past.pinned())


def _chosen(table: Any, stream_id: int, subjects: SubjectFilter) -> Any:
    """Return the message rows of one incarnation whose subject matches: seq, evicts and subject."""
    chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.equal(table["kind"], Kind.MESSAGE.value))
    table = table.filter(chosen).select(["seq", "evicts", "subject"]).combine_chunks()
    if subjects.matches_all or not len(table):
        return table
    column = table["subject"].combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    wanted = np.array(subjects.select(column.dictionary.to_pylist()), dtype=np.bool_)
    return table.filter(pa.array(wanted[column.indices.to_numpy(zero_copy_only=False)]))


def _event_rows(table: Any, stream_id: int) -> list[EventRow]:
    chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.not_equal(table["kind"], Kind.MESSAGE.value))
    rows = table.filter(chosen).select(list(EventRow._fields))
    return [EventRow(*values) for values in zip(*(column.to_pylist() for column in rows.columns), strict=True)]


def _greatest_first_seq(table: Any, stream_id: int, point: int) -> int:
    """Return the highest ``first_seq`` up to message ``point``; events with its sequence happened after it."""
    if table is None:
        return 1
    seqs = _ints(table, "seq")
    message = table["kind"].combine_chunks()
    is_message = pc.equal(message, Kind.MESSAGE.value).to_numpy(zero_copy_only=False)
    inside = (seqs < point) | ((seqs == point) & is_message)
    inside &= _ints(table, "stream_id") == stream_id
    found = _ints(table, "first_seq")[inside]
    return int(found.max()) if len(found) else 1


def _ints(table: Any, name: str) -> Int64s:
    column: Int64s = table[name].to_numpy()
    return column


def _subject_ids(table: Any) -> Int64s:
    """Return a number for each row's subject."""
    if not len(table):
        return np.empty(0, dtype=np.int64)
    column = table["subject"].combine_chunks()
    column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    ids: Int64s = column.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return ids


@lru_cache(maxsize=1)
def _no_rows() -> Any:
    """Return an empty table with the columns of :func:`_chosen`."""
    subject = pa.array([], pa.string()).dictionary_encode()
    return pa.table({"seq": pa.array([], pa.int64()), "evicts": pa.array([], pa.int64()), "subject": subject})


@lru_cache(maxsize=8)
def _opened(uri: str, items: tuple[tuple[str, str], ...]) -> tuple[SettledTable, JournalTail]:
    return open_tables(DataLocation(uri, dict(items)), cache_bytes=_WORKER_CACHE_BYTES)


def opened_tables(data: DataLocation) -> tuple[SettledTable, JournalTail]:
    """Return both tables, opened read-only and kept open for the next call: for processes without a gateway."""
    return _opened(data.uri, tuple(sorted(data.options.items())))


def multi_last(
    data: DataLocation,
    stream: str,
    filters: Sequence[str],
    *,
    up_to_seq: int | None = None,
    up_to_ts_ns: int | None = None,
) -> list[StreamMessage]:
    """Return the last message of each matching subject at a point, straight from the tables.

    For processes without a gateway, such as a Spark Python worker. Raises as :meth:`PointInTime.multi_last`.
    """
    past = PointInTime(*opened_tables(data))
    return past.multi_last(stream, filters, up_to_seq=up_to_seq, up_to_ts_ns=up_to_ts_ns).messages
