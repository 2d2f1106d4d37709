"""Streams as they stood at past points: the configuration of then, and an index of the messages that were live.

A :class:`StreamState` of the past is what one of now is, so what plans reads of now plans those of the past by it, and
all surfaces show one past. It is made of columns, never of payloads, and kept for the next question about its point.
What is erased meanwhile is not shown any more, also by a state that was made before.
"""

from collections.abc import Sequence
from itertools import islice
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from delta_store.reading.cut_points import place_of, point_of
from delta_store.reading.journal_scan import unsettled
from delta_store.reading.kept_points import created_ns, oldest_point, require_files, require_kept
from delta_store.reading.message_columns import COLUMNS, MessageColumns, add_live, message_columns, with_sizes
from delta_store.reading.own_history import history_of
from delta_store.reading.past_files import past_files
from delta_store.reading.point_in_time import Point, PointInTime, View
from delta_store.reading.state_at import END, Cut, cut_at, inside_ranges
from delta_store.reading.stream_versions import settlings
from delta_store.streams.event_rows import read_stream
from delta_store.streams.stream_state import StreamState
from delta_store.values.as_of import NOW, AsOf
from delta_store.values.lru import Lru
from delta_store.values.read_errors import NoSuchStream
from delta_store.values.records import Kind
from delta_store.values.settling import Settling
from delta_store.values.stream_history import StreamHistory
from delta_store.values.stream_message import StreamMessage

_MESSAGES_KEPT: Final = 2_000_000
"""Messages in the states that are kept; the newest state is kept however many it has."""
_Key = tuple[int, Point, tuple[int, int]]


class PastStream(NamedTuple):
    """A stream at a point."""

    state: StreamState
    """What it was then; nobody may change it."""
    point: Point
    existed: bool
    """Whether there was such a stream then."""


class PastStreams:
    """The past of any stream as states; blocking and thread-safe."""

    def __init__(self, past: PointInTime) -> None:
        self._past = past
        self._lock = Lock()
        self._kept: Lru[_Key, PastStream] = Lru(_MESSAGES_KEPT, lambda one: one.state.index.msgs + 1, least=1)

    def at(self, stream: str, as_of: AsOf) -> PastStream:
        """Return a stream as it stood at a point; a sequence that is still to come means now.

        Raises ``NoSuchStream`` where there is none now, ``NoSuchCut``, ``PastHorizon`` or ``DamagedData``.
        """
        return self._past.with_view(stream, lambda view: self._at(view, as_of))

    def place(self, stream: str, stream_id: int, as_of: AsOf) -> Point:
        """Return the place of a point, which means the same whatever happens later.

        Raises as :meth:`at`, also for another incarnation.
        """

        def find(view: View) -> Point:
            _require_incarnation(view, stream_id)
            return place_of(view, point_of(self._past, view, as_of))

        return self._past.with_view(stream, find)

    def state_at(self, stream: str, stream_id: int, place: Point) -> StreamState:
        """Return a stream as it stood at a place, a state of the caller's own. Raises as :meth:`place`."""

        def read(view: View) -> StreamState:
            _require_incarnation(view, stream_id)
            if place.seq > 0:
                require_kept(self._past, view, place)
            return self._state(view, place)

        return self._past.with_view(stream, read)

    def require_whole(self, stream: str, stream_id: int, place: Point) -> None:
        """Raise ``PastHorizon`` where a place, or a file of its messages, is no longer kept; else as :meth:`place`."""

        def look(view: View) -> None:
            _require_incarnation(view, stream_id)
            require_kept(self._past, view, place)
            require_files(self._past, view, place)

        if place.seq > 0:
            self._past.with_view(stream, look)

    def messages(self, past: PastStream, seqs: Sequence[int]) -> list[StreamMessage]:
        """Return messages that were live then, ascending, without those that have been erased since.

        Raises as :meth:`at`.
        """
        return self.messages_at(past.state.name, past.state.stream_id, past.point, seqs)

    def messages_at(self, stream: str, stream_id: int, point: Point, seqs: Sequence[int]) -> list[StreamMessage]:
        """Return messages of a point as :meth:`messages`."""

        def read(view: View) -> list[StreamMessage]:
            _require_incarnation(view, stream_id)
            wanted = np.asarray(seqs, dtype=np.int64)
            erased = cut_at(0, first_seq=0, events=view.events).removed
            wanted = wanted[~inside_ranges(wanted, erased)] if erased else wanted
            return self._past.payloads(self._past.base(view, point), view, wanted)

        return self._past.with_view(stream, read) if seqs else []

    def versions(self, stream: str, as_of: AsOf, *, before: int | None, most: int) -> list[Settling]:
        """Return the versions that settled messages of a stream, newest first, at most so many, ``before`` one of them.

        At a point the one that settled its last message; none when that is not settled yet. Raises as :meth:`at`.
        """

        def read(view: View) -> list[Settling]:
            if as_of == NOW:
                return list(islice(settlings(self._past.settled, view, before=before), most))
            seq = min(point_of(self._past, view, as_of).seq, view.last_seq)
            if not 0 < seq <= view.settled_seq:
                return []
            version = self._past.settled.append_version_for(view.stream, view.stream_id, seq)
            return list(islice(settlings(self._past.settled, view, before=version + 1), 1))

        return self._past.with_view(stream, read)

    def history(self, stream: str) -> StreamHistory:
        """Return how far back a stream can be read, and what that costs. Raises ``NoSuchStream`` or ``DamagedData``."""
        own_ns, oldest = self._past.with_view(
            stream, lambda view: (history_of(view.events), oldest_point(self._past, view))
        )
        files = past_files(self._past.settled, stream)
        return StreamHistory(own_ns, oldest, len(files), sum(file.size for file in files))

    def _at(self, view: View, as_of: AsOf) -> PastStream:
        point = point_of(self._past, view, as_of)
        if point.seq >= END:
            point = Point(view.last_seq, END)
        key = view.stream_id, point, view.events[-1][:2]
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            existed = point.seq > 0 or point.event_no > 0 or point.before_ns > created_ns(view)
            kept = PastStream(self._state(view, point), point, existed=existed)
            with self._lock:
                self._kept.put(key, kept)
        return kept

    def _state(self, view: View, point: Point) -> StreamState:
        told = [event for event in view.events if event.kind == Kind.STREAM]
        then = list(filter(point.includes, told))
        config, created_ns = read_stream(max(then).data if then else told[0].data)
        state = StreamState(config, stream_id=view.stream_id, created_ns=created_ns)
        if point.seq <= 0:
            if config.first_seq > 0:
                state.index.restore_bounds(first_seq=config.first_seq, last_seq=config.first_seq - 1, last_ts=0)
            return state
        rows, cut = self._rows(view, point)
        add_live(state, rows, cut)
        reached = rows.seq <= point.seq
        last_seq = max(int(rows.seq[reached].max(initial=0)), *(one.seq for one in then), 0)
        last_ts = int(rows.ts_ns[reached].max(initial=0))
        state.index.restore_bounds(first_seq=cut.first_seq, last_seq=last_seq, last_ts=last_ts)
        return state

    def _rows(self, view: View, point: Point) -> tuple[MessageColumns, Cut]:
        """Return the rows that decide the state at a point, and what of them is live."""
        base, cut = self._past.past(view, point)
        files = [one for one in base.of_stream(view.stream) if one.has_messages and one.seq[0] <= point.seq]
        settled = self._past.past_columns(base, view, files, COLUMNS)
        tables = [] if settled is None else [settled.select(COLUMNS)]
        if point.seq > view.settled_seq and view.tail is not None and len(view.tail):
            tail = unsettled(self._past.journal, view.journal, view.settled.watermarks, view.stream)
            tables.append(with_sizes(tail))
        table = pa.concat_tables(tables).unify_dictionaries() if tables else None
        return message_columns(table, view.stream_id), cut


def _require_incarnation(view: View, stream_id: int) -> None:
    if view.stream_id != stream_id:
        raise NoSuchStream(view.stream)
