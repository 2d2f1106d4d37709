"""Plans of long reads: which files hold a range of a stream's messages, in parts that other processes can carry out.

A slice is *live* (the messages that were there at a point, as :class:`PointInTime` defines it) or *the log* (every
message that the tables still hold, erased ones excepted). Its parts name pinned files, so all of them show one state.
Planning reads the columns that decide about liveness, never payloads; :mod:`delta_store.reading.message_scan` does.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conf.data_location import DataLocation
from delta_store.config.stream_config import StreamConfig
from delta_store.entries.log_entry import file_version
from delta_store.entries.settled_log import DataFile, Int64s, Snapshot
from delta_store.reading.cut_points import point_of
from delta_store.reading.journal_tail import JournalTail
from delta_store.reading.message_bounds import MessageBounds
from delta_store.reading.message_slice import MessagesLost, PartFile, Ranges, SlicePart, StreamSlice, grouped, packed
from delta_store.reading.point_in_time import VIEW_TRIES, Point, PointInTime, View, opened_tables
from delta_store.reading.settled import SettledTable
from delta_store.reading.state_at import END, EventRow, merged
from delta_store.reading.stream_heads import PinnedHeads
from delta_store.streams.event_rows import read_stream
from delta_store.streams.removal_rows import read_removal
from delta_store.values.as_of import NOW, AsOf
from delta_store.values.read_errors import FileGone, NoSuchStream, PastHorizon
from delta_store.values.records import Kind, Removal
from delta_store.values.schemas import JOURNAL_FOLDER, MESSAGES_FOLDER
from delta_store.values.stream_head import Head
from delta_store.values.subjects import overlaps

_SKIPPED: Final = "skip"
_NONE: Final = np.empty(0, np.int64)


class _SliceRows(NamedTuple):
    """The rows of a slice: pinned versions, and what is left out of them."""

    view: View
    base: Snapshot
    """The version of ``messages`` for the settled part."""
    wanted: MessageBounds
    removed: Ranges
    evicted: Int64s = _NONE
    """Ascending."""


class PastSlice(NamedTuple):
    """The messages that were live at a point, with what else decides how the stream stood."""

    slice: StreamSlice
    seq: int
    """The stream's last sequence then."""
    first_seq: int
    """The first one that was not cut off in front."""
    config: StreamConfig
    """The configuration then."""


class SlicePlanner:
    """Plans slices of any stream; blocking and thread-safe."""

    def __init__(self, settled: SettledTable, journal: JournalTail) -> None:
        self._settled = settled
        self._journal = journal
        self._past = PointInTime(settled, journal)

    @classmethod
    def of(cls, data: DataLocation) -> Self:
        """Return a planner over a data location, whose tables stay open in this process."""
        return cls(*opened_tables(data))

    def ends(self) -> dict[str, tuple[int, int]]:
        """Return id and last sequence of each stream; of deleted ones too, as long as the tables know them.

        Reads new log entries alone. Raises ``DamagedData``.
        """
        journal = self._journal.ends()
        settled = {name: (mark.stream_id, mark.seq) for name, mark in self._settled.refresh().watermarks.items()}
        return {name: max(settled.get(name, (0, 0)), journal.get(name, (0, 0))) for name in settled | journal}

    def streams(self, filters: Iterable[str]) -> list[str]:
        """Return the existing streams that take subjects which one of the filters matches, by name."""
        wanted = list(filters)

        def takes(head: Head) -> bool:
            subjects = json.loads(head.config).get("subjects") or ()
            return any(overlaps(one, subject) for one in wanted for subject in subjects)

        for attempt in range(VIEW_TRIES):
            try:
                heads = PinnedHeads(self._settled, self._journal, self._past.pinned()).by_name
                return [name for name, head in heads.items() if takes(head)]
            except FileGone:
                if attempt == VIEW_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    def begins(self, stream: str, ts_ns: int | None = None) -> tuple[int, int]:
        """Return a stream's id, and its first sequence or the first at or behind a time. Raises ``NoSuchStream``."""

        def found(view: View) -> tuple[int, int]:
            first = self._past.past(view, Point(END)).cut.first_seq
            return view.stream_id, first if ts_ns is None else max(first, _last_before(self._settled, view, ts_ns) + 1)

        return self._past.with_view(stream, found)

    def live(self, stream: str, bounds: MessageBounds, as_of: AsOf = NOW) -> StreamSlice:
        """Plan the messages live at a point, by default now.

        Raises ``NoSuchStream``, ``NoSuchCut``, ``PastHorizon``, ``DamagedData``.
        """
        return self.then(stream, bounds, as_of).slice

    def then(self, stream: str, bounds: MessageBounds, as_of: AsOf) -> PastSlice:
        """Do :meth:`live`, and return how the stream stood besides. Raises as it does."""

        def plan(view: View) -> PastSlice:
            point = point_of(self._past, view, as_of)
            config = _config_at(view.events, point)
            if point.seq <= 0:
                return PastSlice(StreamSlice(view.stream_id, view.last_seq, []), 0, 1, config)
            base, cut = self._past.past(view, point)
            last = min(cut.up_to_seq, view.last_seq)
            held = _SliceRows(view, base, bounds.within(cut.first_seq, last), cut.removed)
            found = self._slice(held._replace(evicted=self._evicted(held, cut.up_to_seq, cut.up_to_seq)))
            return PastSlice(found, last, min(cut.first_seq, last + 1), config)

        return self._past.with_view(stream, plan)

    def live_in_log(self, stream: str, stream_id: int, bounds: MessageBounds) -> StreamSlice:
        """Plan the messages of a range without those that have been removed, or replaced by messages of the range.

        Raises :class:`MessagesLost` when the stream is not that incarnation any more.
        """

        def plan(view: View) -> StreamSlice:
            base, cut = self._past.past(view, Point(END))
            held = _SliceRows(view, base, bounds.within(cut.first_seq, view.last_seq), cut.removed)
            return self._slice(held._replace(evicted=self._evicted(held, bounds.seqs[1], END)))

        return self._of_incarnation(stream, stream_id, bounds, plan)

    def log(self, stream: str, stream_id: int | None, bounds: MessageBounds, *, complete: bool) -> StreamSlice:
        """Plan all messages of a range that the tables still hold.

        With ``complete`` none may be missing at its beginning, where limits and purges remove: raises
        :class:`MessagesLost`, as for a stream that is not that incarnation (None for any) any more.
        """

        def plan(view: View) -> StreamSlice:
            if complete:
                self._check_complete(view, bounds)
            erased = merged(one for what in _removals(view) if what.erase for one in what.ranges)
            return self._slice(_SliceRows(view, view.settled, bounds.within(1, view.last_seq), erased))

        return self._of_incarnation(stream, stream_id, bounds, plan)

    def _of_incarnation(
        self, stream: str, stream_id: int | None, bounds: MessageBounds, plan: Callable[[View], StreamSlice]
    ) -> StreamSlice:
        def checked(view: View) -> StreamSlice:
            if stream_id not in (None, view.stream_id):
                raise MessagesLost(stream, bounds.seqs[0], "the stream has been deleted and created anew")
            return plan(view)

        try:
            return self._past.with_view(stream, checked)
        except NoSuchStream as error:
            raise MessagesLost(stream, bounds.seqs[0], "the stream has been deleted") from error

    def _slice(self, held: _SliceRows) -> StreamSlice:
        return StreamSlice(held.view.stream_id, held.view.last_seq, [*self._settled_parts(held), *_tail_parts(held)])

    def _evicted(self, held: _SliceRows, settled_up_to: int, tail_up_to: int) -> Int64s:
        """Return the sequences asked for that were evicted by settled messages, and unsettled ones, up to these."""
        view, (low, high) = held.view, held.wanted.seqs
        evicting = held.wanted._replace(
            seqs=(low + 1, min(settled_up_to, view.settled_seq)), times=MessageBounds().times
        )
        names = ("stream_id", "seq", "evicts")
        tables = [self._columns(held, file, names) for file in _admitted(held, evicting) if file.may_evict]
        found = [_evicted_by(table, view.stream_id, settled_up_to) for table in tables]
        if view.tail is not None:
            found.append(_evicted_by(view.tail, view.stream_id, tail_up_to))
        every = np.unique(np.concatenate([_NONE, *found]))
        return every[(every >= low) & (every <= high)]

    def _settled_parts(self, held: _SliceRows) -> list[SlicePart]:
        view, bounds = held.view, held.wanted.within(1, held.view.settled_seq)
        part = SlicePart(view.stream, view.stream_id, MESSAGES_FOLDER, (), bounds, held.removed)
        files = [(_part_file(file), file.size) for file in _admitted(held, bounds)]
        chosen: list[SlicePart] = []
        for group in grouped(sorted(files, key=lambda one: one[0].first)):
            gone = b""
            if len(held.evicted):
                seqs = [self._columns(held, held.base.files[file.path], ("seq",))["seq"].to_numpy() for file in group]
                gone = packed(np.intersect1d(np.concatenate(seqs), held.evicted))
            chosen.append(part._replace(files=group, evicted=gone))
        return chosen

    def _columns(self, held: _SliceRows, file: DataFile, names: Sequence[str]) -> Any:
        try:
            return self._settled.columns([file], names)
        except FileGone as error:
            if held.base.version == held.view.settled.version:
                raise
            raise PastHorizon(held.view.stream, None) from error

    def _check_complete(self, view: View, bounds: MessageBounds) -> None:
        """Raise unless the tables still have all that the stream's first sequence has passed."""
        first, wanted = self._past.past(view, Point(END)).cut.first_seq, bounds.seqs[0]
        last = min(first - 1, bounds.seqs[1], view.last_seq)
        if wanted > last:
            return
        seen = _SliceRows(view, view.settled, MessageBounds(seqs=(wanted, last)), ())
        seqs = _seqs_in(self._settled, seen)
        absent = merged(one for what in _removals(view) if what.erase or what.reason == _SKIPPED for one in what.ranges)
        seqs += [np.arange(max(low, wanted), min(high, last) + 1) for low, high in absent]
        if len(np.unique(np.concatenate(seqs))) < last - wanted + 1:
            raise MessagesLost(view.stream, wanted, f"limits or a purge removed them, the stream begins with {first}")


def _config_at(events: Sequence[EventRow], point: Point) -> StreamConfig:
    """Return the configuration at a point; the first one where the point is before the stream."""
    changes = [event for event in events if event.kind == Kind.STREAM]
    then = list(filter(point.includes, changes))
    return read_stream(max(then or [min(changes)]).data)[0]


def _tail_parts(held: _SliceRows) -> list[SlicePart]:
    """Return the parts of the unsettled messages, with neighbouring ranges of sequences."""
    view, bounds = held.view, held.wanted.within(held.view.settled_seq + 1, END)
    if view.tail is None or not len(view.tail) or bounds.is_empty:
        return []
    found = _by_version(view.tail, bounds)
    named = ((file_version(file.path), file) for file in view.journal.files.values())
    files = [
        (PartFile(file.path, *found[version]), file.size)
        for version, file in named
        if version is not None and version in found
    ]
    part = SlicePart(view.stream, view.stream_id, JOURNAL_FOLDER, (), bounds, held.removed)
    chosen: list[SlicePart] = []
    for group in grouped(sorted(files)):
        span = bounds.within(group[0].first, group[-1].last)
        gone = held.evicted[(held.evicted >= span.seqs[0]) & (held.evicted <= span.seqs[1])]
        chosen.append(part._replace(files=group, bounds=span, evicted=packed(gone)))
    return chosen


def _by_version(tail: Any, bounds: MessageBounds) -> dict[int, tuple[int, int]]:
    """Return the first and last message asked for in each file of the journal, by the file's version."""
    (low, high), (early, late) = bounds.seqs, bounds.times
    for name, least, most in (("seq", low, high), ("ts_ns", early, late)):
        tail = tail.filter(pc.and_(pc.greater_equal(tail[name], least), pc.less_equal(tail[name], most)))
    tail = _messages(tail)
    if len(tail) and not bounds.any_subject:
        column = tail["subject"].combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        wanted = np.array(bounds.select(column.dictionary.to_pylist()), dtype=np.bool_)
        tail = tail.filter(pa.array(wanted[column.indices.to_numpy(zero_copy_only=False)]))
    found = tail.select(["file", "seq"]).group_by("file").aggregate([("seq", "min"), ("seq", "max")]).to_pydict()
    return dict(zip(found["file"], zip(found["seq_min"], found["seq_max"], strict=True), strict=True))


def _seqs_in(settled: SettledTable, held: _SliceRows) -> list[Int64s]:
    """Return the message sequences of a range that the tables hold."""
    view, (low, high) = held.view, held.wanted.seqs
    tables = [settled.columns([file], ("stream_id", "seq")) for file in _admitted(held, held.wanted)]
    tables += [_messages(view.tail)] if view.tail is not None else []
    found = [table.filter(pc.equal(table["stream_id"], view.stream_id))["seq"].to_numpy() for table in tables]
    return [seqs[(seqs >= low) & (seqs <= high)] for seqs in found]


def _last_before(settled: SettledTable, view: View, ts_ns: int) -> int:
    last = _last_message(_messages(view.tail), view.stream_id, ts_ns) if view.tail is not None else 0
    if last:
        return last
    for file in view.settled.of_stream(view.stream):
        if file.has_messages and file.ts_ns[0] < ts_ns and file.seq[1] > last:
            table = settled.columns([file], ("stream_id", "seq", "ts_ns"))
            last = max(last, _last_message(table, view.stream_id, ts_ns))
    return last


def _last_message(table: Any, stream_id: int, ts_ns: int) -> int:
    chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.less(table["ts_ns"], ts_ns))
    return pc.max(table.filter(chosen)["seq"]).as_py() or 0


def _part_file(file: DataFile) -> PartFile:
    return PartFile(file.path, *file.seq, file.subject_partition or "")


def _admitted(held: _SliceRows, bounds: MessageBounds) -> list[DataFile]:
    files = held.base.of_stream(held.view.stream)
    return [] if bounds.is_empty else [file for file in files if bounds.admits_file(file)]


def _removals(view: View) -> list[Removal]:
    return [read_removal(event.data)[0] for event in view.events if event.kind == Kind.REMOVE]


def _messages(table: Any) -> Any:
    return table.filter(pc.equal(table["kind"], Kind.MESSAGE.value))


def _evicted_by(table: Any, stream_id: int, up_to_seq: int) -> Int64s:
    chosen = pc.and_(pc.equal(table["stream_id"], stream_id), pc.less_equal(table["seq"], up_to_seq))
    evicts: Int64s = table.filter(pc.and_(chosen, pc.greater(table["evicts"], 0)))["evicts"].to_numpy()
    return evicts
