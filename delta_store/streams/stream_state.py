"""One stream's present state: configuration, live messages, message ids and position in the journal.

Two ways lead to the same state: deciding, which changes it and appends the row that records the change in one call
(:meth:`StreamState.store` and the like, and the operations of :class:`delta_store.streams.catalog.Catalog`), and
replaying those rows (:mod:`delta_store.streams.replay`), which applies effects and decides nothing.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from conf.limits import REMOVAL_RANGES_MAX
from delta_store.config.field_tags import read_fields
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ConsumerLimits
from delta_store.config.subject_transform import SubjectTransform
from delta_store.index.dedup_window import DedupWindow
from delta_store.index.matching import rolled_up
from delta_store.index.segments import Ints
from delta_store.index.stream_index import StreamIndex
from delta_store.streams import retention
from delta_store.streams.counters import Counters
from delta_store.streams.event_rows import event_row, ranges_of
from delta_store.streams.fast_batches import FastBatches
from delta_store.streams.heard_origin import HeardOrigin
from delta_store.streams.msg_ttl import MsgTtls
from delta_store.streams.open_batches import OpenBatches
from delta_store.streams.removal_rows import removal_data
from delta_store.streams.schedules import Schedules
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_sources import SourcePosition, read_positions
from delta_store.typed.payload_rule import payload_rule
from delta_store.values.records import Kind, Position, Removal, RowColumns, stored_size

_MESSAGE: Final = Kind.MESSAGE.value
_SINGLY_MAX: Final = 4
"""Longest run that is stored message by message: numpy pays off only for longer ones."""


class NewMessage(NamedTuple):
    """A message about to be stored."""

    subject: str
    sid: int
    """Its subject's id in the stream's index."""
    headers: bytes | None
    data: bytes
    msg_id: str | None


_Fields = tuple[str, int, bytes | None, bytes, str | None]
"""The fields of a :class:`NewMessage`, as one or as a plain tuple."""


class NewRun(NamedTuple):
    """Messages of one stream about to be stored, column by column (equal lengths)."""

    subjects: Sequence[str]
    sids: Sequence[int]
    headers: Sequence[bytes | None] | None
    """None when no message has any."""
    data: Sequence[bytes]
    msg_ids: Sequence[str | None] | None
    """None when no message has any."""
    seqs: Ints | None = None
    """Of messages that come with their own, ascending, with gaps or without; None for the next ones."""


class ConsumerRecord(NamedTuple):
    """A consumer's newest rows in the journal."""

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
        "heard",
        "index",
        "last_msg_id",
        "on_erased",
        "payload_rule",
        "reads_content",
        "republishes",
        "restored",
        "resume",
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
        """The consumers in the journal, by name."""
        self.sources: dict[str, SourcePosition] = {}
        """The position of each source, by :func:`~delta_store.streams.stream_sources.index_name`."""
        self.heard: dict[str, HeardOrigin] = {}
        """What was heard of each origin of another domain or account, by the copy's label."""
        self.event_no = 0
        self.last_msg_id = ""
        """``Nats-Msg-Id`` of the last stored message, empty when it had none."""
        self.on_erased: list[Callable[[Iterable[int]], None]] = []
        """Hear the sequences of messages that are erased from here on."""
        self.clock_ns = 0
        """Time of the last row; the next one is later."""
        self.ttls = MsgTtls() if config.allow_msg_ttl else None
        self.schedules: Schedules | None = None
        """Its message schedules; None where it can have none."""
        self.counters = Counters() if config.allow_msg_counter else None
        self.batches = OpenBatches()
        self.fast_batches = FastBatches()
        self.restored = ""
        """Whether it comes from a backup, see :func:`delta_store.streams.event_rows.read_restored`."""
        self.resume = ""
        """By which word of its sender it goes on, if its restore breaks off."""
        self.serves_origin = False
        """Of a mirror: whether it has caught up once, so that it also answers Direct Get of its origin."""
        self._take_over(config)

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.config.name

    @property
    def position(self) -> Position:
        """The position of the stream's last row."""
        return Position(self.stream_id, self.index.last_seq, self.event_no)

    def next_ts(self, now_ns: int) -> int:
        """Return the time of the next row: later than all before, whatever the clock says."""
        return max(now_ns, self.clock_ns + 1)

    def tick(self, now_ns: int, rows: int = 1) -> int:
        """Assign the next row its time and return it; ``rows`` in a run get a nanosecond each."""
        first = max(now_ns, self.clock_ns + 1)
        self.clock_ns = first + rows - 1
        return first

    def store(self, message: _Fields, *, now_ns: int, rows: RowColumns) -> int:
        """Store the next message and append its row; return its time, ns.

        The caller has checked that it is not refused, and records its id.
        """
        ts_ns = self.tick(now_ns)
        subject, sid, headers, data, _ = message
        size = stored_size(subject, headers, data)
        effects = retention.store_one(self.config, self.index, sid=sid, ts_ns=ts_ns, size=size)
        self._write(message, effects, ts_ns=ts_ns, rows=rows)
        return ts_ns

    def store_run(self, run: NewRun, *, now_ns: int, rows: RowColumns, ts_ns: Ints | None = None) -> None:
        """Do :meth:`store` for one after the other; ``ts_ns`` are the times of messages that come with their own."""
        subjects, sids, headers, data, msg_ids, seqs = run
        number = len(subjects)
        if ts_ns is not None:
            self.clock_ns = max(self.clock_ns, int(ts_ns[-1]))
        elif number > _SINGLY_MAX:
            first_ts = self.tick(now_ns, number)
            ts_ns = np.arange(first_ts, first_ts + number)
        else:
            nones = [None] * number
            for message in zip(subjects, sids, headers or nones, data, msg_ids or nones, strict=True):
                self.store(message, now_ns=now_ns, rows=rows)
            return
        if seqs is None:
            seqs = np.arange(self.index.last_seq + 1, self.index.last_seq + 1 + number)
        new = retention.Added(seqs, np.fromiter(sids, np.int64, number), ts_ns, stored_sizes(subjects, headers, data))
        firsts, evicts = retention.store_run(self.config, self.index, new)
        self.last_msg_id = (msg_ids[-1] if msg_ids else None) or ""
        rows.stream += [self.config.name] * number
        rows.stream_id += [self.stream_id] * number
        rows.seq += seqs.tolist()
        rows.event_no += [self.event_no] * number
        rows.kind += [_MESSAGE] * number
        rows.subject += subjects
        rows.ts_ns += ts_ns.tolist()
        rows.msg_id += msg_ids or [None] * number
        rows.first_seq += [firsts] * number if isinstance(firsts, int) else firsts.tolist()
        rows.evicts += [0] * number if evicts is None else evicts.tolist()
        rows.headers += headers or [None] * number
        rows.data += data
        # Counters, which read payloads, are stored one by one.
        if headers is not None and self.reads_content:
            for place in range(-number, 0):
                self.note_content(rows.seq[place], rows.headers[place], rows.data[place], ts_ns=rows.ts_ns[place])

    def roll_up(self, message: NewMessage, *, whole: bool, now_ns: int, rows: RowColumns) -> int:
        """Store the next message and remove all others: those that its subject matches, or the ``whole`` stream's.

        Returns its time, ns. Its row records the eviction of one message, a row before it all others: the state at its
        sequence is the one after the rollup, the state before still has them, as nothing is erased.
        """
        index = self.index
        gone = [] if whole else rolled_up(index, message.sid)
        if len(gone) > 1:
            self.record_removal(gone, "rollup", now_ns=now_ns, rows=rows)
        ts_ns = self.tick(now_ns)
        size = stored_size(message.subject, message.headers, message.data)
        _, evicted = retention.store_one(self.config, index, sid=message.sid, ts_ns=ts_ns, size=size)
        if whole:
            index.advance_first(index.last_seq)
        for seq in gone:
            index.remove(seq)
        evicted = gone[0] if len(gone) == 1 else evicted
        self._write(message, (index.first_seq, evicted), ts_ns=ts_ns, rows=rows)
        return ts_ns

    def _write(self, message: _Fields, effects: tuple[int, int], *, ts_ns: int, rows: RowColumns) -> None:
        """Append the row of the message that was stored last; ``effects``: see :func:`retention.store_one`."""
        subject, _, headers, data, msg_id = message
        first_seq, evicted = effects
        seq = self.index.last_seq
        self.last_msg_id = msg_id or ""
        if self.reads_content:
            self.note_content(seq, headers, data, ts_ns=ts_ns)
        rows.stream.append(self.config.name)
        rows.stream_id.append(self.stream_id)
        rows.seq.append(seq)
        rows.event_no.append(self.event_no)
        rows.kind.append(_MESSAGE)
        rows.subject.append(subject)
        rows.ts_ns.append(ts_ns)
        rows.msg_id.append(msg_id)
        rows.first_seq.append(first_seq)
        rows.evicts.append(evicted)
        rows.headers.append(headers)
        rows.data.append(data)

    def record(self, kind: Kind, data: bytes, *, now_ns: int, rows: RowColumns, subject: str = "") -> None:
        """Append the row of an event that was applied already."""
        self.event_no += 1
        place = (self.index.last_seq, self.event_no, self.index.first_seq)
        incarnation, ts_ns = (self.name, self.stream_id), self.tick(now_ns)
        rows.append(event_row(kind, incarnation, place=place, ts_ns=ts_ns, data=data, subject=subject))

    def record_removal(
        self, seqs: list[int], reason: str, *, now_ns: int, rows: RowColumns, erase: bool = False
    ) -> None:
        """Append REMOVE rows for messages that were removed from the index; several for very many ranges."""
        for hear in self.on_erased if erase else ():
            hear(seqs)
        ranges = ranges_of(seqs)
        for start in range(0, max(1, len(ranges)), REMOVAL_RANGES_MAX):
            removal = Removal(ranges[start : start + REMOVAL_RANGES_MAX], reason, erase)
            self.record(Kind.REMOVE, removal_data(removal, last_ts=self.index.last_ts), now_ns=now_ns, rows=rows)

    def record_consumer(self, kind: Kind, *, name: str, data: bytes, now_ns: int, rows: RowColumns) -> None:
        """Append a consumer's row (one of CONSUMER_KINDS) and apply it."""
        self.note_consumer(kind, name, data)
        self.record(kind, data, now_ns=now_ns, rows=rows, subject=name)

    def reconfigure(self, config: StreamConfig, *, ts_ns: int) -> None:
        """Change the configuration at the time of its row; the caller applies the limits."""
        self.dedup.forget(ts_ns)
        self.config = config
        self._take_over(config)
        self.dedup.window_ns = config.duplicate_window
        if retention.keeps_chains(config):
            self.index.chain_up()

    def _take_over(self, config: StreamConfig) -> None:
        """Set what follows from a configuration alone."""
        mapping, again = config.subject_transform, config.republish
        self.transform = SubjectTransform(*mapping) if mapping is not None and mapping.dest else None
        """The mapping of incoming messages' subjects."""
        self.republishes = SubjectTransform(again.src, again.dest) if again is not None and again.dest else None
        """The mapping to the subjects under which stored messages are republished."""
        self.singly = (
            config.sealed
            or self.republishes is not None
            or config.discard_new_per_subject
            or config.subject_delete_marker_ttl > 0
            or config.allow_msg_counter
        )
        """Whether each message must be decided by itself."""
        self.payload_rule = payload_rule(config.metadata)
        """Why a message is not one that the stream takes; None where it takes any."""
        if config.allow_msg_ttl and self.ttls is None:
            self.ttls = MsgTtls()
        if config.allow_msg_schedules and self.schedules is None:
            self.schedules = Schedules()
        self.reads_content = self.ttls is not None or self.counters is not None or self.schedules is not None
        """Whether the state depends on the content of messages: TTLs, schedules in headers, totals in payloads."""
        if not config.allow_atomic:
            self.batches.clear()
        if not config.allow_batched:
            self.fast_batches.clear()

    def note_content(self, seq: int, headers: bytes | None, data: bytes, *, ts_ns: int) -> None:
        """Record a stored message's TTL, schedule or total."""
        if self.ttls is not None:
            self.ttls.note(seq, headers, ts_ns=ts_ns)
        if self.schedules is not None:
            self.schedules.note(self.index, seq, headers, ts_ns=ts_ns)
        if self.counters is not None:
            self.counters.note(seq, headers, data)

    def note_consumer(self, kind: Kind, name: str, data: bytes) -> None:
        """Apply a consumer's row; the state of a consumer that does not exist (any more) is skipped."""
        known = self.consumers.get(name)
        if kind is Kind.CONSUMER:
            self.consumers[name] = ConsumerRecord(data, known.state if known is not None else b"")
        elif kind is Kind.CONSUMER_DELETE:
            self.consumers.pop(name, None)
        elif kind is Kind.SOURCE_STATE:
            self.sources, caught_up = read_positions(data)
            self.serves_origin = self.serves_origin or caught_up
        elif known is not None:
            self.consumers[name] = ConsumerRecord(known.config, data)

    def consumer_limits(self) -> dict[str, ConsumerLimits]:
        """Return each consumer's own values of what the stream's ``consumer_limits`` bound, by name."""
        records = {name: json.loads(record.config)["config"] for name, record in sorted(self.consumers.items())}
        return {name: read_fields(ConsumerLimits, config) for name, config in records.items()}

    def restore_position(self, *, seq: int, event_no: int, first_seq: int) -> None:
        """Set the position of rows of which the last were deleted; remove messages below ``first_seq``."""
        self.index.restore_bounds(first_seq=first_seq, last_seq=seq, last_ts=0)
        self.index.advance_first(first_seq)
        self.event_no = max(self.event_no, event_no)
