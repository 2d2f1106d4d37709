"""All streams of a shard: the operations on them, the routes to them, and the replay of their rows.

Each operation appends the row that records it and applies it to the state in the same call, so that state and journal
can't differ. Invariant: applying the appended rows to a catalog in the state before gives the state after.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from conf.limits import REMOVAL_RANGES_MAX
from delta_store import api_errors, retention
from delta_store.event_rows import event_row, ranges_of, read_stream, removal_data, stream_data
from delta_store.records import Kind, Position, Removal, Row, RowColumns, stored_size
from delta_store.routes import Route, RouteTable
from delta_store.stream_config import StreamConfig
from delta_store.stream_state import MessageColumns, StreamState
from delta_store.subjects import SubjectFilter, overlaps
from delta_store.watermark import Watermark


class Catalog:
    """The streams by name; ``domain`` stands in publish acknowledgements when it is not empty."""

    def __init__(self, *, domain: str = "") -> None:
        self.streams: dict[str, StreamState] = {}
        self.domain = domain
        self._routes = RouteTable()
        self._ended: dict[str, Position] = {}
        """How far the rows of deleted streams went: what comes again in a replay is passed over."""

    def route(self, subject: bytes) -> Route | None:
        """Where a message of this subject goes, None when no stream takes it. Valid until a stream changes."""
        return self._routes.find(subject)

    def routes(self, subjects: Sequence[bytes]) -> list[Route | None]:
        """:meth:`route` of many subjects."""
        return self._routes.find_all(subjects)

    def stream_of(self, subject: str) -> StreamState | None:
        """The stream that takes a subject."""
        return self._routes.stream_of(subject)

    def tidy(self, state: StreamState) -> None:
        """Free what subjects without messages hold, now and then; voids routes. Call it between runs of messages."""
        if state.index.renumber_subjects():
            self._routes.clear()

    def create(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Create a stream; raises 10058 when its name and 10065 when its subjects are taken."""
        if config.name in self.streams:
            raise api_errors.STREAM_NAME_EXISTS.error
        self._refuse_overlap(config)
        ended = self._ended.get(config.name)
        stream_id = max(now_ns, ended.stream_id + 1) if ended else now_ns
        state = self._open(config, stream_id=stream_id, created_ns=now_ns)
        self._record(state, Kind.STREAM, stream_data(config, now_ns), now_ns=now_ns, rows=rows)
        return state

    def update(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Change a stream's configuration and apply lowered limits; raises 10059 and 10065."""
        state = self._stream(config.name)
        self._refuse_overlap(config)
        state.reconfigure(config, ts_ns=state.next_ts(now_ns))
        self._routes.rebuild(self.streams.values())
        self._record(state, Kind.STREAM, stream_data(config, state.created_ns), now_ns=now_ns, rows=rows)
        surplus = retention.over_subject_limit(config.max_msgs_per_subject, state.index)
        before = state.index.first_seq
        state.index.remove_many(surplus)
        retention.cut_front(config, state.index)
        if len(surplus) or state.index.first_seq != before:
            self._record_removal(state, surplus.tolist(), "limits", now_ns=now_ns, rows=rows)
        self._expire(state, now_ns=now_ns, rows=rows)
        return state

    def delete(self, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Delete a stream with its messages; raises 10059."""
        state = self._stream(name)
        self._record(state, Kind.STREAM_DELETE, b"", now_ns=now_ns, rows=rows)
        self._close(name, state.position)

    def remove(self, name: str, seq: int, *, now_ns: int, rows: RowColumns, erase: bool = True) -> bool:
        """Delete one message; False when it is not there; raises 10059 and, when deletes are denied, 10057."""
        state = self._stream(name)
        if state.config.deny_delete:
            raise api_errors.message_delete_failed("message delete not permitted")
        if not state.index.remove(seq):
            return False
        self._record_removal(state, [seq], "delete", erase=erase, now_ns=now_ns, rows=rows)
        return True

    def purge(self, name: str, *, now_ns: int, rows: RowColumns, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages of a subject filter (all by default), below ``seq`` or but the last ``keep``.

        Returns how many were removed; raises 10059 and, when purges are denied, 10110. Purged messages are erased:
        reads of the past do not show them. Unlike nats-server's, a purge below a sequence that is still to come
        leaves the next sequence alone.
        """
        state = self._stream(name)
        if state.config.deny_purge:
            raise api_errors.purge_failed("stream purge not permitted")
        index = state.index
        chosen = SubjectFilter((subject,)) if subject and subject != ">" else None
        if chosen is None:
            gone = index.live_sequences(index.first_seq, index.last_seq)
        else:
            gone = np.fromiter(index.iter_matching(chosen, index.first_seq), np.int64)
        if seq:
            gone = gone[gone < seq]
        elif keep:
            gone = gone[: max(0, len(gone) - keep)]
        if not len(gone):
            return 0
        index.remove_many(gone)
        self._record_removal(state, gone.tolist(), "purge", erase=True, now_ns=now_ns, rows=rows)
        return len(gone)

    def expire(self, *, now_ns: int, rows: RowColumns) -> int:
        """Remove what is older than its stream's ``max_age``; returns how many messages."""
        return sum(self._expire(state, now_ns=now_ns, rows=rows) for state in self.streams.values())

    def expire_stream(self, state: StreamState, *, now_ns: int, rows: RowColumns) -> int:
        """:meth:`expire` for one stream: what reads of it do first."""
        return self._expire(state, now_ns=now_ns, rows=rows)

    def next_expiry_ns(self) -> int:
        """When the next message is too old, 0 when none ever will be."""
        aged = (state for state in self.streams.values() if state.config.max_age > 0 and state.index.msgs)
        return min((state.index.first_ts + state.config.max_age for state in aged), default=0)

    def apply(self, row: Row) -> None:
        """Replay one row; one that was applied before is passed over."""
        if row.kind == Kind.MESSAGE:
            columns = RowColumns()
            columns.append(row)
            self.apply_columns(columns)
        else:
            self._apply_event(row)

    def apply_columns(self, rows: RowColumns, *, sizes: Sequence[int] | None = None) -> None:
        """Replay rows in position order (per stream); ``sizes`` are stored sizes, for rows without their payloads.

        Raises ``ValueError`` for a row of a stream that no row has created.
        """
        starts = [place for place in range(len(rows)) if place == 0 or self._breaks(rows, place)]
        for start, stop in pairwise([*starts, len(rows)]):
            if rows.kind[start] == Kind.MESSAGE:
                self._apply_messages(rows, slice(start, stop), sizes)
            else:
                self._apply_event(rows_at(rows, start))

    def apply_watermarks(self, watermarks: Mapping[str, Watermark]) -> None:
        """Say how far the rows replayed so far went, in case the last ones of a stream are physically gone."""
        for name, mark in watermarks.items():
            state = self.streams.get(name)
            if state is not None and state.stream_id == mark.stream_id:
                state.restore_position(seq=mark.seq, event_no=mark.event_no, first_seq=mark.first_seq)
            elif state is None:
                self._ended[name] = max(self._ended.get(name, mark.position), mark.position)

    def positions(self) -> dict[str, Watermark]:
        """Where each stream stands: what a commit's metadata says."""
        return {
            name: Watermark(*state.position, first_seq=state.index.first_seq) for name, state in self.streams.items()
        }

    @staticmethod
    def _breaks(rows: RowColumns, place: int) -> bool:
        return (
            rows.kind[place] != Kind.MESSAGE
            or rows.kind[place - 1] != Kind.MESSAGE
            or rows.stream[place] != rows.stream[place - 1]
            or rows.stream_id[place] != rows.stream_id[place - 1]
        )

    def _apply_messages(self, rows: RowColumns, part: slice, sizes: Sequence[int] | None) -> None:
        """Replay message rows of one stream."""
        name, stream_id = rows.stream[part.start], rows.stream_id[part.start]
        state = self._replayed(name, stream_id)
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
            )
        )

    def _replayed(self, name: str, stream_id: int) -> StreamState | None:
        """The stream that a replayed row belongs to, None when the row is of one that ended."""
        state = self.streams.get(name)
        if state is not None and stream_id == state.stream_id:
            return state
        newest = state.stream_id if state is not None else self._ended[name].stream_id if name in self._ended else -1
        if stream_id > newest:
            raise ValueError(f"a row of stream {name!r} (id {stream_id}) that no row before it created")
        return None

    def _apply_event(self, row: Row) -> None:
        state = self.streams.get(row.stream)
        ended = self._ended.get(row.stream)
        if (state is not None and row.position <= state.position) or (ended is not None and row.position <= ended):
            return
        if row.kind == Kind.STREAM:
            config, created_ns = read_stream(row.data)
            if state is None or state.stream_id != row.stream_id:
                state = self._open(config, stream_id=row.stream_id, created_ns=created_ns)
            else:
                state.reconfigure(config, ts_ns=row.ts_ns)
                self._routes.rebuild(self.streams.values())
            state.note_event(row)
        elif row.kind == Kind.STREAM_DELETE:
            self._close(row.stream, row.position)
        elif row.kind == Kind.REMOVE:
            removed_from = self._replayed(row.stream, row.stream_id)
            if removed_from is not None:
                removed_from.apply_removal(row)

    def _expire(self, state: StreamState, *, now_ns: int, rows: RowColumns) -> int:
        age, index = state.config.max_age, state.index
        if age <= 0 or not index.msgs or index.first_ts + age > now_ns:
            return 0
        removed = index.advance_first(index.seq_at_time(now_ns - age + 1))
        if removed:
            self._record_removal(state, [], "age", now_ns=now_ns, rows=rows)
        return removed

    def _open(self, config: StreamConfig, *, stream_id: int, created_ns: int) -> StreamState:
        state = self.streams[config.name] = StreamState(config, stream_id=stream_id, created_ns=created_ns)
        self._routes.rebuild(self.streams.values())
        return state

    def _close(self, name: str, position: Position) -> None:
        self.streams.pop(name, None)
        self._ended[name] = position
        self._routes.rebuild(self.streams.values())

    def _stream(self, name: str) -> StreamState:
        state = self.streams.get(name)
        if state is None:
            raise api_errors.STREAM_NOT_FOUND.error
        return state

    def _refuse_overlap(self, config: StreamConfig) -> None:
        for other in self.streams.values():
            if other.name != config.name and any(
                overlaps(mine, its) for mine in config.subjects for its in other.config.subjects
            ):
                raise api_errors.SUBJECT_OVERLAP.error

    def _record_removal(
        self, state: StreamState, seqs: list[int], reason: str, *, now_ns: int, rows: RowColumns, erase: bool = False
    ) -> None:
        """Append REMOVE rows for messages that were removed; several when there are very many ranges."""
        ranges = ranges_of(seqs)
        for start in range(0, max(1, len(ranges)), REMOVAL_RANGES_MAX):
            removal = Removal(ranges[start : start + REMOVAL_RANGES_MAX], reason, erase)
            data = removal_data(removal, last_ts=state.index.last_ts)
            self._record(state, Kind.REMOVE, data, now_ns=now_ns, rows=rows)

    def _record(self, state: StreamState, kind: Kind, data: bytes, *, now_ns: int, rows: RowColumns) -> None:
        """Append an event of a state that it was applied to already."""
        state.event_no += 1
        place = (state.index.last_seq, state.event_no, state.index.first_seq)
        ts_ns = state.tick(now_ns)
        rows.append(event_row(kind, state.name, stream_id=state.stream_id, place=place, ts_ns=ts_ns, data=data))


def rows_at(rows: RowColumns, place: int) -> Row:
    """One row of many, its checksum left out."""
    values = [getattr(rows, name)[place] for name in RowColumns.__slots__]
    return Row._make([*values, 0])
