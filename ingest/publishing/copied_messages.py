"""The storing of copies of other streams' messages: in bulk if only limits apply, else one by one.

The copies of a mirror keep sequence and time. nats-server's checks of publishes do not apply to copies, which were
checked at their origin.
"""

import numpy as np

from conf.limits import FIRST_SEQ_MAX
from delta_store.index.matching import rolled_up
from delta_store.streams import retention
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import CopyLink
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_sources import (
    CAUGHT_UP,
    SourcePosition,
    mirrored_header,
    positions_data,
    sourced_header,
)
from delta_store.streams.stream_state import NewRun, StreamState
from delta_store.values.records import Kind, stored_size
from delta_store.values.stream_message import MessageRun
from ingest.publishing import publish_checks
from ingest.publishing.featured_store import FeaturedStore, Single
from ingest.publishing.group import Group
from ingest.publishing.publish_headers import fields, is_increment

_MSG_ID, _ROLLUP = b"Nats-Msg-Id", b"Nats-Rollup"


def store_copies(catalog: Catalog, link: CopyLink, run: MessageRun, *, identity: str, now_ns: int, group: Group) -> int:
    """Store messages of an origin, in order, and the copy's position; return how many, fewer if the next is refused.

    ``identity`` distinguishes the origin from another stream of its name.
    """
    state, label = link.target, link.label
    done = CopyStore(catalog, state, now_ns=now_ns, group=group).store(_copied(link, run, identity))
    if done and label:
        data = positions_data(state.sources | {label: SourcePosition(run.seqs[done - 1], identity)})
        state.record_consumer(Kind.SOURCE_STATE, name="", data=data, now_ns=now_ns, rows=group.rows)
    return done


def note_caught_up(state: StreamState, *, now_ns: int, group: Group) -> None:
    """Record, once, that a mirror has caught up: from then on it may answer Direct Get of its origin."""
    if not state.serves_origin:
        state.record_consumer(Kind.SOURCE_STATE, name="", data=CAUGHT_UP, now_ns=now_ns, rows=group.rows)


def _copied(link: CopyLink, run: MessageRun, identity: str) -> MessageRun:
    """Return the messages with their new subjects and, of a source, a header with their origin."""
    subjects, seqs, times, headers, data = run.columns
    if not link.label:
        headers = [mirrored_header(header) for header in headers]
    else:
        headers = [
            sourced_header(header, link.label, seq=seq, subject=subject, identity=identity)
            for header, seq, subject in zip(headers, seqs, subjects, strict=True)
        ]
    return MessageRun((link.selection.subjects(subjects), seqs, times, headers, data))


class CopyStore:
    """The copies into one stream, of one step."""

    def __init__(self, catalog: Catalog, state: StreamState, *, now_ns: int, group: Group) -> None:
        self._catalog, self._state, self._now_ns = catalog, state, now_ns
        self._store = FeaturedStore(catalog, state, now_ns, group)
        self._mirrors = state.config.mirror is not None

    def store(self, run: MessageRun) -> int:
        """Store messages in order; return how many are done, fewer if the next is refused."""
        state = self._state
        if state.config.sealed or (self._mirrors and run.seqs[-1] > FIRST_SEQ_MAX):
            return 0
        self._catalog.expire_stream(state, now_ns=self._now_ns, rows=self._store.group.rows)
        state.dedup.forget(self._now_ns)
        if state.transform is not None:
            subjects = [state.transform.match(subject) or subject for subject in run.subjects]
            run = MessageRun((subjects, *run.columns[1:]))
        if self._needs_a_look(run):
            return self._store_singly(run)
        seqs = np.fromiter(run.seqs, np.int64, len(run))
        ends = [*(np.flatnonzero(np.diff(seqs) != 1) + 1).tolist(), len(run)] if self._mirrors else [len(run)]
        start = 0
        for end in ends:
            self._store_part(run[start:end])
            start = end
        self._catalog.tidy(state)
        return len(run)

    def _needs_a_look(self, run: MessageRun) -> bool:
        config = self._state.config
        if self._state.singly or config.discard == "new" or self._overdraws(run):
            return True
        if 0 < config.max_msg_size < max(map(len, run.data)) + max(len(header or b"") for header in run.headers):
            return True
        sought = (_ROLLUP,) if self._mirrors or not config.duplicate_window else (_ROLLUP, _MSG_ID)
        return any(header and any(name in header for name in sought) for header in run.headers)

    def _overdraws(self, run: MessageRun) -> bool:
        """Whether all streams together may not hold so much more."""
        account, storage = self._catalog.account, self._state.config.storage
        if account.limits.bytes_of(storage) < 0:
            return False
        return not account.has_room(storage, int(stored_sizes(run.subjects, run.headers, run.data).sum()))

    def _store_part(self, run: MessageRun) -> None:
        """Store messages with consecutive sequences."""
        state = self._state
        subjects, seqs, times, headers, data = run.columns
        ts_ns = None
        if self._mirrors:
            self._skip_to(seqs[0])
            ts_ns = np.fromiter(times, np.int64, len(run))
        sids = list(map(state.index.table.intern, subjects))
        ids = list(map(msg_id_of, headers))
        self._store.store_run(NewRun(subjects, sids, headers, data, ids), ts_ns=ts_ns)
        if self._mirrors and state.config.duplicate_window:
            state.dedup.restore(zip(ids, seqs, times, strict=True))

    def _store_singly(self, run: MessageRun) -> int:
        """Store as :meth:`store`, one by one, with duplicates, refusals, rollups and republishing."""
        state = self._state
        for place, (subject, seq, ts_ns, header, payload) in enumerate(run):
            found = dict(fields(header)) if header else {}
            msg_id = publish_checks.text(found.get(_MSG_ID, b"")) or None
            if msg_id and not self._mirrors and state.dedup.find(msg_id):
                continue
            if not state.config.allow_rollup_hdrs or state.config.deny_purge:
                found.pop(_ROLLUP, None)
            sid = state.index.table.intern(subject)
            if self._refused(sid, header, payload, size=stored_size(subject, header, payload), rolls=_ROLLUP in found):
                return place
            message = Single(subject, sid, b"", header, payload, found)
            if state.counters is not None:
                counted = self._counted(message)
                if counted is None:
                    return place
                message = counted
            if self._mirrors:
                self._store_in_place(message, seq=seq, ts_ns=ts_ns)
            else:
                self._store.store(message)
        self._catalog.tidy(state)
        return len(run)

    def _counted(self, message: Single) -> Single | None:
        """Return the message of a counter with this stream's total; None if it can't be added."""
        increment = message.fields.get(b"Nats-Incr")
        if increment is None or not is_increment(increment):
            return None
        counted = self._store.counted(message)
        return counted if isinstance(counted, Single) else None

    def _refused(self, sid: int, header: bytes | None, payload: bytes, *, size: int, rolls: bool) -> bool:
        """Whether the message is too large for the stream, or that or the account is full."""
        largest = self._state.config.max_msg_size
        if 0 < largest < len(header or b"") + len(payload):
            return True
        if publish_checks.overdrawn(self._catalog.account, self._state, size):
            return True
        return bool(retention.refusal(self._state.config, self._state.index, sid=sid, size=size, rolls_up=rolls))

    def _store_in_place(self, message: Single, *, seq: int, ts_ns: int) -> None:
        """Store at the given sequence and time; the row that a rollup puts before it gets the time before."""
        state = self._state
        self._skip_to(seq)
        extra = publish_checks.rollup(message.fields) == "sub" and len(rolled_up(state.index, message.sid)) > 1
        clock_ns, state.clock_ns = state.clock_ns, ts_ns - 1 - extra
        self._store.now_ns = 0
        self._store.store(message)
        state.clock_ns = max(clock_ns, state.clock_ns)

    def _skip_to(self, seq: int) -> None:
        """Make ``seq`` the next sequence."""
        index = self._state.index
        if seq != index.last_seq + 1:
            index.restore_bounds(first_seq=seq, last_seq=seq - 1, last_ts=0)


def msg_id_of(header: bytes | None) -> str | None:
    """Return the ``Nats-Msg-Id`` of a header block, None without one."""
    if not header or _MSG_ID not in header:
        return None
    return publish_checks.text(fields(header).get(_MSG_ID, b"")) or None
