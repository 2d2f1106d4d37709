"""The catalog of a shard's streams by name: operations on them, and routes from subjects to them.

Each operation appends the row that records it and applies it to the state in the same call, so that state and journal
can't differ. Invariant: applying the appended rows to a catalog in the state before gives the state after.
"""

import numpy as np

from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import iter_matching
from delta_store.streams import expiry, retention
from delta_store.streams.account import Account
from delta_store.streams.copy_links import CopyLink, links_by_origin
from delta_store.streams.event_rows import stream_data
from delta_store.streams.parked_streams import ParkedStreams
from delta_store.streams.routes import RouteTable
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import Kind, Position, RowColumns
from delta_store.values.subjects import SubjectFilter


class Catalog:
    """The existing streams; ``domain`` is in publish acknowledgements when it is not empty."""

    def __init__(self, *, domain: str = "") -> None:
        self.domain = domain
        self.held = False
        """Whether changes are refused, because nothing can be committed for now; reads go on."""
        self.streams: dict[str, StreamState] = {}
        self.ended: dict[str, Position] = {}
        """Position of the last row of each deleted stream: rows up to it are skipped in a replay."""
        self.restoring: dict[str, StreamState] = {}
        """Streams that come from a backup and are not whole yet: their names are taken, and nobody sees them."""
        self.account = Account(self.streams, self.restoring)
        """The limits of all streams together."""
        self.parked = ParkedStreams()
        """Those whose sender is gone and may go on."""
        self.changes = 0
        """Grows whenever a stream is created, updated or deleted."""
        self.routes = RouteTable()
        """Routes are valid until a stream changes."""
        self.copies: dict[str, list[CopyLink]] = {}
        """The mirrors and sources by the stream that they name; also those that mean one of another domain."""
        self._copying: dict[str, StreamState] = {}
        self.newest_id = 0
        """The highest id of all streams so far."""

    def stream(self, name: str) -> StreamState:
        """Return the stream of this name; raise 10059 when there is none."""
        state = self.streams.get(name)
        if state is None:
            raise api_errors.STREAM_NOT_FOUND.error
        return state

    def require_change(self) -> None:
        """Raise 10047 while changes are refused."""
        if self.held:
            raise api_errors.INSUFFICIENT_STORAGE.error

    def create(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Create a stream; raise 10058 or 10065 when its name or subjects are in use, or a limit's error."""
        if config.name in self.streams or config.name in self.restoring:
            raise api_errors.STREAM_NAME_EXISTS.error
        self.routes.refuse_overlap(config)
        self.account.admit(config)
        self.require_change()
        if (gone := self.parked.give_up(config.name, now_ns=now_ns, rows=rows)) is not None:
            self.close(config.name, gone)
        # An id that no stream has had: files and caches distinguish incarnations by it.
        state = self.open(config, stream_id=max(now_ns, self.newest_id + 1), created_ns=now_ns)
        if config.first_seq > 0:
            state.index.restore_bounds(first_seq=config.first_seq, last_seq=config.first_seq - 1, last_ts=0)
        state.record(Kind.STREAM, stream_data(config, now_ns), now_ns=now_ns, rows=rows)
        return state

    def update(self, config: StreamConfig, *, now_ns: int, rows: RowColumns) -> StreamState:
        """Change a stream's configuration and apply lowered limits; raise 10059, 10065 or a limit's error."""
        state = self.stream(config.name)
        self.routes.refuse_overlap(config)
        self.account.admit(config)
        self.require_change()
        self.reconfigure(state, config, ts_ns=state.next_ts(now_ns))
        data = stream_data(config, state.created_ns, restored=state.restored)
        state.record(Kind.STREAM, data, now_ns=now_ns, rows=rows)
        surplus = retention.over_subject_limit(config.max_msgs_per_subject, state.index)
        before = state.index.first_seq
        state.index.remove_many(surplus)
        retention.cut_front(config, state.index)
        if len(surplus) or state.index.first_seq != before:
            state.record_removal(surplus.tolist(), "limits", now_ns=now_ns, rows=rows)
        self.expire_stream(state, now_ns=now_ns, rows=rows)
        return state

    def delete(self, name: str, *, now_ns: int, rows: RowColumns) -> None:
        """Delete a stream with its messages; raise 10059."""
        state = self.stream(name)
        self.require_change()
        state.record(Kind.STREAM_DELETE, b"", now_ns=now_ns, rows=rows)
        self.close(name, state.position)

    def remove(self, name: str, seq: int, *, now_ns: int, rows: RowColumns, erase: bool = True) -> bool:
        """Delete one message; return False when it is not live; raise 10059, 10109, or 10057 if deletes are denied."""
        state = self.stream(name)
        if state.config.sealed:
            raise api_errors.SEALED_STREAM.error
        if state.config.deny_delete:
            raise api_errors.message_delete_failed("message delete not permitted")
        if state.index.live.sid_of(seq) < 0:
            return False
        self.require_change()
        state.index.remove(seq)
        state.record_removal([seq], "delete", erase=erase, now_ns=now_ns, rows=rows)
        return True

    def purge(  # noqa: PLR0913  # the request's fields, by name
        self,
        name: str,
        *,
        now_ns: int,
        rows: RowColumns,
        subject: str = "",
        seq: int = 0,
        keep: int = 0,
        erase: bool = True,
    ) -> int:
        """Remove messages of a subject filter (all by default), below ``seq`` or except for the last ``keep``.

        Returns how many were removed; raises 10059 and, when purges are denied, 10110. Reads of the past hide purged
        messages, too, unless they are not to be erased. Unlike nats-server's, a purge below a sequence that is still to
        come leaves the next sequence alone.
        """
        state = self.stream(name)
        if state.config.sealed:
            raise api_errors.SEALED_STREAM.error
        if state.config.deny_purge:
            raise api_errors.purge_failed("stream purge not permitted")
        index = state.index
        chosen = SubjectFilter((subject,)) if subject and subject != ">" else None
        if chosen is None:
            gone = index.live.sequences(index.first_seq, index.last_seq)
        else:
            gone = np.fromiter(iter_matching(index, chosen, index.first_seq), np.int64)
        if seq:
            gone = gone[gone < seq]
        elif keep:
            gone = gone[: max(0, len(gone) - keep)]
        if not len(gone):
            return 0
        self.require_change()
        index.remove_many(gone)
        state.record_removal(gone.tolist(), "purge", erase=erase, now_ns=now_ns, rows=rows)
        return len(gone)

    def expire(self, *, now_ns: int, rows: RowColumns) -> int:
        """Remove messages older than their stream's ``max_age`` or their own TTL; return how many."""
        return sum(self.expire_stream(state, now_ns=now_ns, rows=rows) for state in self.streams.values())

    def expire_stream(self, state: StreamState, *, now_ns: int, rows: RowColumns) -> int:
        """Do :meth:`expire` for one stream, before it is read."""
        never = state.config.max_age <= 0 and state.ttls is None
        return 0 if never or self.held else expiry.expire(state, now_ns=now_ns, rows=rows)

    def next_expiry_ns(self) -> int:
        """Return when the next message expires, ns; 0 when none ever will."""
        return min(filter(None, map(expiry.next_expiry_ns, self.streams.values())), default=0)

    def tidy(self, state: StreamState) -> None:
        """Free the memory of subjects without messages; voids routes. Call it between runs of messages."""
        if state.index.renumber_subjects():
            self.routes.clear()

    def open(self, config: StreamConfig, *, stream_id: int, created_ns: int) -> StreamState:
        """Add a new stream, in place of one of the same name."""
        self.newest_id = max(self.newest_id, stream_id)
        state = self.streams[config.name] = StreamState(config, stream_id=stream_id, created_ns=created_ns)
        self._look(config.name)
        return state

    def reconfigure(self, state: StreamState, config: StreamConfig, *, ts_ns: int) -> None:
        """Change a stream's configuration at the time of its row."""
        state.reconfigure(config, ts_ns=ts_ns)
        self._look(state.name)

    def close(self, name: str, position: Position) -> None:
        """Remove a stream, if it is there; ``position`` is that of the row that deleted it."""
        self.streams.pop(name, None)
        self.ended[name] = position
        self.newest_id = max(self.newest_id, position.stream_id)
        self._look(name)

    def _look(self, name: str) -> None:
        """Update what follows from all configurations after this stream was created, updated or deleted."""
        known, state = self._copying.pop(name, None), self.streams.get(name)
        self.routes.take(name, state)
        self.changes += 1
        copies = state is not None and (state.config.mirror is not None or bool(state.config.sources))
        if state is not None and copies:
            self._copying[name] = state
        if copies or known is not None:
            self.copies = links_by_origin(self._copying.values())
