"""Which points of a stream can still be read: as far as log entries and files go, and as its own history does."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import pyarrow.compute as pc

from delta_store.entries.settled_log import DataFile, Snapshot
from delta_store.reading.own_history import history_of, is_over
from delta_store.reading.settled import SettledTable
from delta_store.reading.settled_times import SettledTimes
from delta_store.reading.state_at import Place, removed_since
from delta_store.values.copied_stream import is_copy
from delta_store.values.oldest_point import OldestPoint, just_after
from delta_store.values.read_errors import FileGone, PastHorizon, ReadError
from delta_store.values.records import Kind

if TYPE_CHECKING:
    from delta_store.reading.point_in_time import Point, PointInTime, View

Answer = TypeVar("Answer")


def read_view(past: "PointInTime", view: "View", read: Callable[["View"], Answer]) -> Answer:
    """Read from a view; an error of the horizon says what the oldest readable point is."""
    try:
        return read(view)
    except PastHorizon as error:
        raise PastHorizon(view.stream, error.seq, oldest_point(past, view)) from error


def was_not_there(view: "View", ts_ns: int) -> bool:
    """Whether a stream had not been created at a time. Messages of mirrors and of restored streams may be older."""
    return ts_ns <= created_ns(view) and not any(is_copy(one.data) for one in view.events if one.kind == Kind.STREAM)


def created_ns(view: "View") -> int:
    """Return when a stream was created: its id may be later, where the clock had been set back."""
    return next(event.ts_ns for event in view.events if event.kind == Kind.STREAM)


def require_kept(past: "PointInTime", view: "View", point: "Point") -> None:
    """Raise ``PastHorizon`` for a point that lies before the stream's own history."""
    start = _history_start(past, view)
    if start is not None and is_over(point, start, view.events):
        raise PastHorizon(view.stream, None if point.before_ns else point.seq)


def require_files(past: "PointInTime", view: "View", point: "Point") -> None:
    """Raise ``PastHorizon`` where a file with messages of a point is gone."""
    base = past.base(view, point)
    for file in base.of_stream(view.stream):
        old = file.path not in view.settled.files and file.has_messages and file.seq[0] <= point.seq
        if old and not _exists(past.settled, file):
            raise PastHorizon(view.stream, point.seq)


def oldest_point(past: "PointInTime", view: "View") -> OldestPoint:
    """Return the oldest point that can be read. Bisects the versions."""
    held, start = _held_since(past.settled, view), _history_start(past, view)
    return held if start is None else _kept_since(held, start, view)


def _history_start(past: "PointInTime", view: "View") -> Place | None:
    """Return where the stream's own history begins; None where it has none, or the tables don't reach so far."""
    history = history_of(view.events)
    if history is None:
        return None
    start_ns = past.clock.now_ns() - history
    try:
        return past.sequence_before(view, start_ns), start_ns, 0
    except PastHorizon:
        return None


def _held_since(settled: SettledTable, view: "View") -> OldestPoint:
    """Return the oldest point that the tables hold."""
    seq = _oldest_sequence(settled, view.stream, view.stream_id)
    if seq == 1:
        return OldestPoint(1, just_after(created_ns(view)))
    if seq > view.last_seq:
        if removed_since(view.last_seq, view.events):
            return OldestPoint(0, just_after(max(one.ts_ns for one in view.events if one.kind == Kind.REMOVE)))
        seq = view.last_seq
    stored = _stored_ns(settled, view, seq)
    return OldestPoint(seq, just_after(stored) if stored else 0)


def _kept_since(held: OldestPoint, start: Place, view: "View") -> OldestPoint:
    """Return the oldest point of those that the tables hold that is no older than ``start``, a point that is a time."""
    seq = max(start[0] + is_over((start[0], 0, 0), start, view.events), held.seq)
    known = held.seq and seq <= max(view.last_seq, held.seq)
    return OldestPoint(seq if known else 0, max(held.from_ns, just_after(start[1])))


def _stored_ns(settled: SettledTable, view: "View", seq: int) -> int:
    """Return when a message was stored; 0 when that can't be read any more."""
    if seq > view.settled_seq:
        chosen = pc.and_(pc.equal(view.tail["kind"], Kind.MESSAGE.value), pc.less_equal(view.tail["seq"], seq))
        return pc.max(view.tail.filter(chosen)["ts_ns"]).as_py() or 0
    times = SettledTimes(
        settled, (view.stream, view.stream_id), lambda _base, files, names: settled.columns(files, names)
    )
    with suppress(ReadError):
        return times.stored_ns(seq)
    return 0


def _oldest_sequence(settled: SettledTable, stream: str, stream_id: int) -> int:
    """Return the first settled sequence whose state can be read, or the one behind the watermark when none can.

    Bisects the versions: what vacuum took is gone from all versions before.
    """
    snapshot = settled.snapshot
    low, high = settled.log.oldest_entry(), snapshot.version
    if low > 0:
        low = min(low + 1, high)  # which messages an entry settled is told by the one before
    while low < high:
        middle = (low + high) // 2
        if _is_whole(settled, snapshot, middle, stream):
            high = middle
        else:
            low = middle + 1
    try:
        mark = settled.mark_at(low - 1, stream) if low > 0 else None
    except FileGone:
        mark = settled.watermarks.get(stream)
    return mark.seq + 1 if mark is not None and mark.stream_id == stream_id else 1


def _is_whole(settled: SettledTable, newest: Snapshot, version: int, stream: str) -> bool:
    """Whether a version's entry and all of its files of a stream are there."""
    try:
        gone = [file for file in settled.log.at(version).of_stream(stream) if file.path not in newest.files]
    except FileGone:
        return False
    return all(_exists(settled, file) for file in gone)


def _exists(settled: SettledTable, file: DataFile) -> bool:
    try:
        settled.log.filesystem.open_input_file(settled.log.path_of(file)).close()
    except FileNotFoundError:
        return False
    return True
