"""The publish decision: messages in, journal rows and acknowledgements out; the in-memory state changes at once.

Theory of operation. A run of messages is split by stream (streams are independent, so only the order within one
matters). Messages that can't be refused, almost all, are stored in bulk: sequences, times, limits and acknowledgements
are computed for the whole run. A message that needs checks (conditional headers, a duplicate, a stream that may be
full) ends the bulk before it and is decided alone. The result is the same as deciding each message alone, in order.
"""

from collections.abc import Sequence
from typing import NamedTuple

from conf.limits import HEADER_BYTES_MAX, REPUBLISH_DEPTH_MAX
from delta_store.config.api_errors import ApiRefusal
from delta_store.streams import retention
from delta_store.streams.account import Account
from delta_store.streams.catalog import Catalog
from delta_store.streams.open_batches import BatchMessage
from delta_store.streams.routes import Route
from delta_store.streams.stored_sizes import stored_sizes
from delta_store.streams.stream_state import NewRun, StreamState
from delta_store.values.records import stored_size
from ingest.protocol.leaf_protocol import encode_message
from ingest.protocol.wire_protocol import WireMessage
from ingest.publishing import batch_intake, publish_checks, schedule_checks
from ingest.publishing.batch_checks import BatchChecks
from ingest.publishing.fast_intake import FastIntake
from ingest.publishing.fast_reply import ENDING, is_fast
from ingest.publishing.featured_store import BatchEnd, FeaturedStore, Single
from ingest.publishing.group import Group
from ingest.publishing.pub_ack import pub_acks
from ingest.publishing.publish_headers import fields, plain_msg_id, stored

NOT_UTF8 = ApiRefusal(400, 10003, "bad request: the subject is not valid UTF-8")


class _Run(NamedTuple):
    """Messages of one stream; columns of equal length."""

    subjects: Sequence[str]
    sids: Sequence[int]
    replies: Sequence[bytes]
    headers: Sequence[bytes]
    payloads: Sequence[bytes]


def decide(catalog: Catalog, messages: Sequence[WireMessage], now_ns: int, group: Group) -> None:
    """Decide messages in order and append the effects to ``group``; ``now_ns`` is the time of all of them.

    Republished messages are decided after them, as a leaf link does not receive its own messages.
    """
    for _ in range(REPUBLISH_DEPTH_MAX):
        if not messages:
            return
        messages = _decide_run(catalog, messages, now_ns, group)


def forget_batches(catalog: Catalog, now_ns: int, group: Group) -> None:
    """Abandon atomic batches without a message for too long, and append them to ``group``."""
    for state in catalog.streams.values():
        if state.batches:
            state.batches.forget(now_ns)
            group.abandoned += [(state.name, one) for one in state.batches.take_abandoned()]


def _decide_run(catalog: Catalog, messages: Sequence[WireMessage], now_ns: int, group: Group) -> list[WireMessage]:
    """Decide messages in order; return those to republish."""
    again: list[WireMessage] = []
    raw_subjects, replies, headers, payloads = zip(*messages, strict=True)
    routes = catalog.routes.find_all(raw_subjects)
    if None not in routes:
        states, subjects, sids = zip(*routes, strict=True)
        if len(set(states)) == 1 and min(sids) >= 0:
            run = _Run(subjects, sids, replies, headers, payloads)
            return _decide_stream(catalog, states[0], run, now_ns, group)
    parts: dict[StreamState, list[tuple[Route, WireMessage]]] = {}
    for route, message in zip(routes, messages, strict=True):
        if route is None:
            continue
        if route.sid >= 0:
            parts.setdefault(route.state, []).append((route, message))
        elif message.reply and not route.state.config.no_ack:
            group.replies.append(pub_acks(route.state.name, catalog.domain).failed(message.reply, NOT_UTF8))
    for state, part in parts.items():
        found, own = zip(*part, strict=True)
        _, own_replies, own_headers, own_payloads = zip(*own, strict=True)
        _, subjects, sids = zip(*found, strict=True)
        run = _Run(subjects, sids, own_replies, own_headers, own_payloads)
        again += _decide_stream(catalog, state, run, now_ns, group)
    return again


def _decide_stream(catalog: Catalog, state: StreamState, run: _Run, now_ns: int, group: Group) -> list[WireMessage]:
    """Decide messages of one stream; return those to republish."""
    catalog.expire_stream(state, now_ns=now_ns, rows=group.rows)
    state.dedup.forget(now_ns)
    store = FeaturedStore(catalog, state, now_ns, group)
    if not any(run.headers) and _takes_all(catalog.account, state, run):
        store.store_run(NewRun(run.subjects, run.sids, None, run.payloads, None), run.replies)
    else:
        _Intake(store, FastIntake(store) if _has_fast_batch(run.replies) else None).sift(run)
    catalog.tidy(state)
    return store.again


def _takes_all(account: Account, state: StreamState, run: _Run) -> bool:
    """Whether the stream can't refuse any of these messages, which have no headers."""
    if state.singly or state.payload_rule is not None or 0 < state.config.max_msg_size < max(map(len, run.payloads)):
        return False
    return not _has_fast_batch(run.replies) and _never_full(account, state, run)


def _never_full(account: Account, state: StreamState, run: _Run) -> bool:
    config, bounded = state.config, account.limits.bytes_of(state.config.storage) >= 0
    has_room = config.discard == "old" or (config.max_msgs <= 0 and config.max_bytes <= 0)
    if has_room and not bounded:
        return True
    size = int(stored_sizes(run.subjects, run.headers, run.payloads).sum())
    if bounded and not account.has_room(config.storage, size):
        return False
    return has_room or retention.has_room(config, state.index, messages=len(run.subjects), size=size)


class _Intake:
    """The intake of messages into one stream, each with the checks that it needs."""

    __slots__ = ("account", "acks", "fast", "featured", "group", "now_ns", "state")

    def __init__(self, featured: FeaturedStore, fast: FastIntake | None) -> None:
        """``fast`` takes messages that may belong to a fast batch."""
        self.featured, self.fast, self.account = featured, fast, featured.catalog.account
        self.state, self.acks, self.now_ns, self.group = featured.state, featured.acks, featured.now_ns, featured.group

    def sift(self, run: _Run) -> None:
        """Store plain messages in bulk and decide the others one by one, all in order."""
        state = self.state
        room = _never_full(self.account, state, run)
        largest = state.config.max_msg_size if state.config.max_msg_size > 0 else 1 << 62
        first_ts = state.next_ts(self.now_ns)
        fast = self.fast
        replies = list(run.replies) if fast is not None else []
        if fast is not None:
            run = run._replace(replies=replies)
        start = 0
        msg_ids: list[str | None] = []
        find, remember, rule = state.dedup.find, state.dedup.remember, state.payload_rule
        for place, (header, payload) in enumerate(zip(run.headers, run.payloads, strict=True)):
            msg_id = plain_msg_id(header) if header else ""
            if (
                msg_id is None
                or not room
                or len(header) + len(payload) > largest
                or len(header) > HEADER_BYTES_MAX
                or (msg_id and find(msg_id))
                or state.singly
                or (rule is not None and rule(header, payload))
                or (fast is not None and not _follows(fast, replies, place, state.index.last_seq + 1 + len(msg_ids)))
            ):
                self._store_part(run, start, msg_ids)
                self._decide_alone(run, place)
                start, msg_ids = place + 1, []
                first_ts = state.next_ts(self.now_ns)
            else:
                if msg_id:
                    gathered = len(msg_ids)
                    remember(msg_id, state.index.last_seq + 1 + gathered, first_ts + gathered)
                msg_ids.append(msg_id or None)
        self._store_part(run, start, msg_ids)

    def _store_part(self, run: _Run, start: int, msg_ids: list[str | None]) -> None:
        """Store the messages of a run from ``start`` on, as many as ``msg_ids`` has."""
        if msg_ids:
            part = slice(start, start + len(msg_ids))
            headers = [header or None for header in run.headers[part]]
            new = NewRun(run.subjects[part], run.sids[part], headers, run.payloads[part], msg_ids)
            self.featured.store_run(new, run.replies[part])

    def _decide_alone(self, run: _Run, place: int) -> None:
        """Decide one message with all checks."""
        state, raw, reply = self.state, run.headers[place], run.replies[place]
        subject, payload = run.subjects[place], run.payloads[place]
        found: publish_checks.Fields = fields(raw) if raw else {}
        header = stored(raw) if raw else None
        if self.fast is not None and is_fast(reply):
            self.fast.take(Single(subject, run.sids[place], reply, header, payload, found))
            return
        if state.config.allow_atomic and b"Nats-Batch-Id" in found:
            self._decide_in_batch(run, place, found)
            return
        sizes = (len(header or b""), len(payload))
        error = publish_checks.before_msg_id(state, subject, found, sizes=sizes)
        msg_id = publish_checks.text(found.get(b"Nats-Msg-Id", b"")) or None
        original = state.dedup.find(msg_id) if msg_id and not error else 0
        if not error and not original:
            header, found = schedule_checks.rolled_up(header, found)
            size = stored_size(subject, header, payload)
            error = publish_checks.after_msg_id(state, found, sid=run.sids[place], header_bytes=len(header or b""))
            error = error or publish_checks.misfit(state, header, payload)
            error = error or publish_checks.overdrawn(self.account, state, size)
            error = error or publish_checks.fullness(state, found, sid=run.sids[place], size=size)
        if error:
            self._refuse(reply, error)
            return
        if original:
            if reply and not state.config.no_ack:
                self.group.replies.append(self.acks.duplicate(reply, original))
            return
        if state.singly or b"Nats-Rollup" in found or b"Nats-TTL" in found or b"Nats-Schedule-Next" in found:
            self._store_featured(Single(subject, run.sids[place], reply, header, payload, found))
            return
        if msg_id:
            state.dedup.remember(msg_id, state.index.last_seq + 1, state.next_ts(self.now_ns))
        self.featured.store_run(NewRun([subject], [run.sids[place]], [header], [payload], [msg_id]), [reply])

    def _store_featured(self, message: Single) -> None:
        counted = self.featured.counted(message)
        if not isinstance(counted, ApiRefusal):
            self.featured.store(counted)
        else:
            self._refuse(message.reply, counted)

    def _decide_in_batch(self, run: _Run, place: int, found: publish_checks.Fields) -> None:
        """Take one message of an atomic batch, and store the batch when it is complete."""
        reply, header = run.replies[place], stored(run.headers[place])
        message = BatchMessage(run.subjects[place], header or b"", run.payloads[place])
        taken = batch_intake.take(self.state, message, found, self.now_ns)
        self.group.abandoned += [(self.state.name, one) for one in self.state.batches.take_abandoned()]
        if isinstance(taken, ApiRefusal):
            self._refuse(reply, taken)
        elif isinstance(taken, batch_intake.Commit):
            self._commit(taken, reply)
        elif reply and not self.state.config.no_ack:
            self.group.replies.append(encode_message(reply, b""))

    def _commit(self, batch: batch_intake.Commit, reply: bytes) -> None:
        """Store all messages of a batch, or refuse it."""
        checks, ids = BatchChecks(self.state), self.state.index.table.intern
        whole = [schedule_checks.rolled_up(message.header, fields(message.header)) for message in batch.messages]
        messages = [one._replace(header=header or b"") for one, (header, _) in zip(batch.messages, whole, strict=True)]
        all_fields = [found for _, found in whole]
        for message, found in zip(messages, all_fields, strict=True):
            error = checks.refusal(message, found)
            if error:
                self._refuse(reply, error)
                return
        if error := publish_checks.overdrawn(self.account, self.state, checks.size):
            self._refuse(reply, error)
            return
        last = len(messages) - 1
        for place, (message, found) in enumerate(zip(messages, all_fields, strict=True)):
            subject, header, payload = message
            answer, end = (reply, BatchEnd(batch.batch_id, last + 1)) if place == last else (b"", None)
            counted = self.featured.counted(Single(subject, ids(subject), answer, header, payload, found))
            assert not isinstance(counted, ApiRefusal), "checked before"
            self.featured.store(counted, end=end)

    def _refuse(self, reply: bytes, error: ApiRefusal) -> None:
        if reply and not self.state.config.no_ack:
            self.group.replies.append(self.acks.failed(reply, error))


def _follows(fast: FastIntake, replies: list[bytes], place: int, seq: int) -> bool:
    """Whether a message is of no fast batch, or just the next one of its batch, which then replies for it."""
    if fast.follows(replies[place], seq):
        replies[place] = b""
        return True
    return not is_fast(replies[place])


def _has_fast_batch(replies: Sequence[bytes]) -> bool:
    """Whether any of the messages may belong to a fast batch."""
    return ENDING in b"\n".join(replies)
