"""One stream as it is now: its configuration, its live messages, its message ids and its place in the journal.

Two ways lead to the same state: deciding (:meth:`StreamState.store_one`, :meth:`StreamState.store_run` and the
operations of :class:`delta_store.streams.catalog.Catalog`) and replaying the rows that recorded those decisions
(``apply_*``), which applies effects and decides nothing.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ConsumerLimits
from delta_store.config.subject_transform import SubjectTransform
from delta_store.index.dedup_window import DedupWindow
from delta_store.index.segments import Ints
from delta_store.index.stream_index import StreamIndex
from delta_store.streams import retention
from delta_store.streams.counters import Counters
from delta_store.streams.event_rows import read_removal
from delta_store.streams.fast_batches import FastBatches
from delta_store.streams.msg_ttl import MsgTtls
from delta_store.streams.open_batches import OpenBatches
from delta_store.streams.retention import Effects
from delta_store.streams.schedules import Schedules
from delta_store.streams.stream_sources import SourcePosition, read_positions
from delta_store.values.records import Kind, Position, Row


class MessageColumns(NamedTuple):
    """Message rows of one stream in position order, without payloads (equal lengths)."""

    seqs: Ints
    subjects: Sequence[str]
    ts_ns: Ints
    sizes: Ints
    """Stored sizes, see :func:`delta_store.values.records.stored_size`."""
    msg_ids: Sequence[str | None]
    first_seqs: Ints
    evicts: Ints
    headers: Sequence[bytes | None] = ()
    """Empty, like the payloads, when the stream does not look at them."""
    data: Sequence[bytes] = ()


class ConsumerRecord(NamedTuple):
    """A consumer as the journal knows it."""

    config: bytes
    """The ``data`` of its newest CONSUMER row."""
    state: bytes
    """The ``data`` of its newest CONSUMER_STATE row, empty before the first."""


class StreamState:
    """The state of one stream; changed only by one thread, in the order of its rows."""

    __slots__ = (
        "batches",
        "clock_ns",
        "config",
        "consumers",
        "counters",
        "created_ns",
        "dedup",
        "event_no",
        "fast_batches",
        "index",
        "last_msg_id",
        "republishes",
        "schedules",
        "serves_origin",
        "singly",
        "sources",
        "stream_id",
        "transform",
        "ttls",
    )

    def __init__(self, config: StreamConfig, *, stream_id: int, created_ns: int) -> None:
        self.config = config
        self.stream_id = stream_id
        self.created_ns = created_ns
        self.index = StreamIndex(chained=retention.keeps_chains(config))
        self.dedup = DedupWindow(config.duplicate_window)
        self.consumers: dict[str, ConsumerRecord] = {}
        """The consumers that the journal holds, by name."""
        self.sources: dict[str, SourcePosition] = {}
        """How far each source has been copied."""
        self.event_no = 0
        self.last_msg_id = ""
        """``Nats-Msg-Id`` of the last stored message, empty when it had none."""
        self.clock_ns = 0
        """Time of the last row; the next one is later."""
        self.ttls = MsgTtls() if config.allow_msg_ttl else None
        self.schedules: Schedules | None = None
        """Its message schedules, where it may have any."""
        self.counters = Counters() if config.allow_msg_counter else None
        self.batches = OpenBatches()
        self.fast_batches = FastBatches()
        self.serves_origin = False
        """Of a mirror: whether it has caught up once, so that it answers Direct Get of its origin, too."""
        self._take_over(config)

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    @property
    def position(self) -> Position:
        """Where the last row of this stream stands."""
        return Position(self.stream_id, self.index.last_seq, self.event_no)

    def next_ts(self, now_ns: int) -> int:
        """The time that the next row gets: later than all before, whatever the clock says."""
        return max(now_ns, self.clock_ns + 1)

    def tick(self, now_ns: int, rows: int = 1) -> int:
        """Give the next row its time; ``rows`` in a run get a nanosecond each."""
        first = self.next_ts(now_ns)
        self.clock_ns = first + rows - 1
        return first

    def store_one(self, sid: int, *, ts_ns: int, size: int, msg_id: str | None) -> tuple[int, int]:
        """As :meth:`store_run` for one message; returns the first sequence then and the evicted one (0 for none)."""
        self.last_msg_id = msg_id or ""
        return retention.store_one(self.config, self.index, sid=sid, ts_ns=ts_ns, size=size)

    def store_run(self, sids: Ints, *, ts_ns: Ints, sizes: Ints, last_msg_id: str | None) -> Effects:
        """Store the next messages; the caller has checked that none is refused, and remembers their ids."""
        self.last_msg_id = last_msg_id or ""
        return retention.store_run(self.config, self.index, sids=sids, ts_ns=ts_ns, sizes=sizes)

    def reconfigure(self, config: StreamConfig, *, ts_ns: int) -> None:
        """Take over a configuration at the time of its row; limits are applied by whoever decides."""
        self.dedup.forget(ts_ns)
        self.config = config
        self._take_over(config)
        self.dedup.window_ns = config.duplicate_window
        if retention.keeps_chains(config):
            self.index.chain_up()

    def _take_over(self, config: StreamConfig) -> None:
        """Prepare what follows from a configuration alone."""
        mapping, again = config.subject_transform, config.republish
        self.transform = SubjectTransform(*mapping) if mapping is not None and mapping.dest else None
        """How the subjects of messages coming in are changed."""
        self.republishes = SubjectTransform(again.src, again.dest) if again is not None and again.dest else None
        """The subjects under which stored messages go out again."""
        self.singly = (
            config.sealed
            or self.republishes is not None
            or config.discard_new_per_subject
            or config.subject_delete_marker_ttl > 0
            or config.allow_msg_counter
        )
        """Whether each message must be looked at by itself."""
        if config.allow_msg_ttl and self.ttls is None:
            self.ttls = MsgTtls()
        if config.allow_msg_schedules and self.schedules is None:
            self.schedules = Schedules()
        if not config.allow_atomic:
            self.batches.clear()
        if not config.allow_batched:
            self.fast_batches.clear()

    @property
    def reads_content(self) -> bool:
        """Whether something follows from the content of messages: TTLs and schedules in headers, totals in payloads."""
        return self.ttls is not None or self.counters is not None or self.schedules is not None

    def note_content(self, seq: int, headers: bytes | None, data: bytes, *, ts_ns: int) -> None:
        """Remember what a stored message says about its end, its schedule or its counter."""
        if self.ttls is not None:
            self.ttls.note(seq, headers, ts_ns=ts_ns)
        if self.schedules is not None:
            self.schedules.note(self.index, seq, headers, ts_ns=ts_ns)
        if self.counters is not None:
            self.counters.note(seq, headers, data)

    def apply_messages(self, messages: MessageColumns) -> None:
        """Replay message rows; those that were applied before are passed over."""
        index = self.index
        newest = np.maximum.accumulate(np.concatenate((np.array([index.last_seq]), messages.seqs)))[:-1]
        new = messages.seqs > newest
        seqs = messages.seqs[new]
        if not len(seqs):
            return
        chosen = np.flatnonzero(new).tolist()
        ids = index.table.intern
        sids = np.fromiter((ids(messages.subjects[place]) for place in chosen), np.int64, len(chosen))
        ts_ns = messages.ts_ns[new]
        index.append_run(seqs, sids=sids, ts_ns=ts_ns, sizes=messages.sizes[new])
        if messages.headers:
            for place, seq, ts in zip(chosen, seqs.tolist(), ts_ns.tolist(), strict=True):
                self.note_content(seq, messages.headers[place], messages.data[place], ts_ns=ts)
        for evicted in messages.evicts[new].tolist():
            if evicted:
                index.remove(evicted)
        index.advance_first(int(messages.first_seqs[new].max()))
        msg_ids = [messages.msg_ids[place] for place in chosen]
        self.dedup.restore(zip(msg_ids, seqs.tolist(), ts_ns.tolist(), strict=True))
        self.last_msg_id = msg_ids[-1] or ""
        self.clock_ns = max(self.clock_ns, int(ts_ns[-1]))

    def apply_removal(self, row: Row) -> None:
        """Replay a REMOVE row."""
        removal, last_ts = read_removal(row.data)
        index = self.index
        index.restore_bounds(first_seq=row.first_seq, last_seq=row.seq, last_ts=last_ts)
        for first, last in removal.ranges:
            if first == last:
                index.remove(first)
            else:
                index.remove_many(index.live.sequences(first, last))
        index.advance_first(row.first_seq)
        self.note_event(row)

    def apply_consumer(self, row: Row) -> None:
        """Replay a row of CONSUMER_KINDS."""
        self.note_consumer(Kind(row.kind), row.subject, row.data)
        self.note_event(row)

    def note_consumer(self, kind: Kind, name: str, data: bytes) -> None:
        """Keep what a consumer's row says; state of a consumer that is not there (any more) is passed over."""
        known = self.consumers.get(name)
        if kind is Kind.CONSUMER:
            self.consumers[name] = ConsumerRecord(data, known.state if known is not None else b"")
        elif kind is Kind.CONSUMER_DELETE:
            self.consumers.pop(name, None)
        elif kind is Kind.SOURCE_STATE:
            self.sources = read_positions(data)
        elif known is not None:
            self.consumers[name] = ConsumerRecord(known.config, data)

    def consumer_limits(self) -> dict[str, ConsumerLimits]:
        """What the consumers have of what the stream's ``consumer_limits`` bound, by name."""
        records = {name: json.loads(record.config)["config"] for name, record in sorted(self.consumers.items())}
        return {name: ConsumerLimits.from_json(config) for name, config in records.items()}

    def note_event(self, row: Row) -> None:
        """Move on to the position of an event row that was applied."""
        self.event_no = row.event_no
        self.clock_ns = max(self.clock_ns, row.ts_ns)
        self.index.restore_bounds(first_seq=row.first_seq, last_seq=row.seq, last_ts=0)

    def restore_position(self, *, seq: int, event_no: int, first_seq: int) -> None:
        """Take over how far the rows went, where the last of them are gone; removes what is below ``first_seq``."""
        self.index.restore_bounds(first_seq=first_seq, last_seq=seq, last_ts=0)
        self.index.advance_first(first_seq)
        self.event_no = max(self.event_no, event_no)
