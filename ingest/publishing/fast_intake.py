"""The intake of fast batches: nats-server 2.15's checks, in its order.

Each message is stored on arrival. Replies are rare: one when the batch starts, one every so many messages, one for each
gap or error, and the acknowledgement of the batch at its end. Each leaves with the group that has the messages it is
about.

A wrong expected last message id counts as any other error. nats-server checks it too late: it replies as to a message
of no batch, counts the message as stored, and never ends the batch where it should.
"""

from typing import NamedTuple

from conf.limits import FAST_BATCH_ID_BYTES_MAX, FAST_BATCHES_OPEN_MAX, FAST_BATCHES_SERVER_MAX
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.api_level import LEVEL_HEADER, value_refused
from delta_store.streams.fast_batches import FastBatch
from delta_store.streams.open_batches import BatchMessage
from delta_store.values.records import stored_size
from ingest.publishing import fast_reply, publish_checks
from ingest.publishing.batch_checks import BatchChecks
from ingest.publishing.fast_reply import FastReply
from ingest.publishing.featured_store import FeaturedStore, Single
from ingest.publishing.publish_headers import LINE, without
from ingest.publishing.schedule_checks import rolled_up

_APPENDED = b".1.$FI"


class _Place(NamedTuple):
    """A message's position in its batch, with its reply subject."""

    batch: FastBatch
    says: FastReply
    reply: bytes


class FastIntake:
    """The intake of fast batches into one stream that allows them."""

    __slots__ = ("_batch", "_head", "batches", "featured", "group", "now_ns", "state")

    def __init__(self, featured: FeaturedStore) -> None:
        self.featured = featured
        self.state = featured.state
        self.now_ns = featured.now_ns
        self.group = featured.group
        self.batches = featured.state.fast_batches
        self.batches.forget(self.now_ns)
        self._batch: FastBatch | None = None
        """The batch of the last message that followed; ``_head`` is the prefix of its reply subjects."""
        self._head = b""

    def follows(self, reply: bytes, stream_seq: int) -> bool:
        """Take a message that is just the next one of its batch, to be stored at ``stream_seq``.

        The caller has made all other checks. Returns False, with nothing changed, for any other message.
        """
        batch = self._batch
        if batch is None or reply != b"%b%d.1.$FI" % (self._head, batch.last + 1):
            batch = self._find(reply)
            if batch is None:
                return False
        batch.last += 1
        batch.stream_seq = stream_seq
        if batch.last >= batch.acked + batch.flow:
            self._ack_if_due(batch, reply)
        return True

    def _find(self, reply: bytes) -> FastBatch | None:
        """Return the batch that this reply subject continues, and remember it for the next message."""
        parts = reply.rsplit(b".", 6)
        if len(parts) != 7 or reply[-6:] != _APPENDED or parts[3] not in (b"fail", b"ok"):
            return None
        batch = self.batches.find(parts[1], self.now_ns)
        if batch is None or parts[4] != b"%d" % (batch.last + 1):
            return None
        batch.touched_ns = self.now_ns
        self._batch, self._head = batch, reply[: -6 - len(parts[4])]
        return batch

    def take(self, message: Single) -> None:
        """Take any message, with all checks."""
        self._batch = None
        says = self._placed(message)
        if isinstance(says, ApiRefusal):
            self._refuse(message.reply, says)
            return
        batch = self.batches.find(says.batch_id, self.now_ns)
        if batch is None:
            error = self._not_opened(says)
            if error:
                self._refuse(message.reply, error)
                return
            batch = self.batches.open(says.batch_id, gap_ok=says.gap_ok, flow=says.flow, now_ns=self.now_ns)
        level = message.fields.get(LEVEL_HEADER)
        if level is not None:
            if value_refused(level):
                del self.batches[says.batch_id]
                self._refuse(message.reply, api_errors.REQUIRED_API_LEVEL.error)
                return
            left = without(message.header or b"", LEVEL_HEADER)
            message = message._replace(header=left if len(left) > len(LINE + b"\r\n") else None)
        batch.touched_ns = self.now_ns
        place = _Place(batch, says, message.reply)
        if says.ping:
            self._pinged(place)
        elif self._in_order(place):
            self._take_in_order(place, message)

    def _placed(self, message: Single) -> FastReply | ApiRefusal:
        """Return the parsed reply subject, or an error of the message that does not depend on its batch."""
        config = self.state.config
        if config.sealed:
            return api_errors.SEALED_STREAM.error
        if 0 < config.max_msg_size < len(message.header or b"") + len(message.payload):
            return api_errors.MESSAGE_TOO_LARGE.error
        if not config.allow_batched:
            return api_errors.BATCH_PUBLISH_DISABLED.error
        says = fast_reply.parse(message.reply)
        if says is None:
            return api_errors.BATCH_PUBLISH_PATTERN.error
        return api_errors.BATCH_PUBLISH_ID_INVALID.error if len(says.batch_id) > FAST_BATCH_ID_BYTES_MAX else says

    def _not_opened(self, says: FastReply) -> ApiRefusal | None:
        """Return why a message opens no batch; None if it does."""
        if says.seq != 1 or says.ping:
            return api_errors.BATCH_PUBLISH_ID_UNKNOWN.error
        if len(self.batches) >= FAST_BATCHES_OPEN_MAX:
            return api_errors.BATCH_PUBLISHES_TOO_MANY.error
        streams = self.featured.catalog.streams
        if len(streams) * FAST_BATCHES_OPEN_MAX <= FAST_BATCHES_SERVER_MAX:
            return None
        number = sum(len(state.fast_batches) for state in streams.values())
        return api_errors.BATCH_PUBLISHES_TOO_MANY.error if number >= FAST_BATCHES_SERVER_MAX else None

    def _pinged(self, place: _Place) -> None:
        """Reply to a ping with the gap before it, or with the last acknowledgement again."""
        batch, says, reply = place
        if says.seq > batch.last:
            self.group.replies.append(fast_reply.gap(reply, batch.last + 1, says.seq + 1))
            if not batch.gap_ok:
                self._finish(place)
                return
            batch.last = says.seq
            if self._ack_if_due(batch, reply):
                return
        self.group.replies.append(fast_reply.ack(reply, batch.acked, batch.flow))

    def _in_order(self, place: _Place) -> bool:
        """Advance to the message's batch sequence; return False if a gap ended the batch."""
        batch, says, reply = place
        expected = batch.last + 1
        if says.seq != expected:
            self.group.replies.append(fast_reply.gap(reply, expected, says.seq))
            if not batch.gap_ok or says.seq < expected:
                self._finish(place)
                return False
        batch.last = says.seq
        return True

    def _take_in_order(self, place: _Place, message: Single) -> None:
        batch, says, reply = place
        if says.end:
            batch.last -= 1
            self._finish(place)
            return
        if says.seq == 1 and not says.commit and not self.state.config.no_ack:
            self.group.replies.append(fast_reply.ack(reply, 0, batch.flow))
        header, found = rolled_up(message.header, message.fields)
        message = message._replace(header=header, fields=found)
        staged = BatchMessage(message.subject, message.header or b"", message.payload)
        error = BatchChecks(self.state).refusal_alone(staged, message.fields)
        if error is not None and error.err_code == api_errors.BATCH_REPEATS.error.err_code:
            self._repeated(place, message)
            return
        size = stored_size(message.subject, message.header, message.payload)
        error = error or publish_checks.last_msg_id_error(self.state, message.fields)
        error = error or publish_checks.overdrawn(self.featured.catalog.account, self.state, size)
        counted = error or self.featured.counted(message._replace(reply=b""))
        if isinstance(counted, ApiRefusal):
            self._failed(place, counted)
            return
        self.featured.store(counted)
        batch.stream_seq = self.state.index.last_seq
        if says.commit:
            self._finish(place)
        else:
            self._ack_if_due(batch, reply)

    def _repeated(self, place: _Place, message: Single) -> None:
        """Pass over a duplicate."""
        batch, says, reply = place
        self._ack_if_due(batch, reply)
        if not says.commit:
            return
        if batch.gap_ok or batch.last != 1:
            self._finish(place)
            return
        original = self.state.dedup.find(publish_checks.text(message.fields[b"Nats-Msg-Id"]))
        batch_id = publish_checks.text(says.batch_id)
        answer = self.featured.acks.committed(reply, original, batch_id=batch_id, count=1, duplicate=True)
        self.group.replies.append(answer)
        del self.batches[says.batch_id]

    def _failed(self, place: _Place, error: ApiRefusal) -> None:
        """Reply to a message that can't be stored, which ends the batch unless it allows gaps."""
        batch, says, reply = place
        if not batch.gap_ok and batch.last == 1:
            self.group.replies.append(self.featured.acks.failed(reply, error))
            del self.batches[says.batch_id]
            return
        self.group.replies.append(fast_reply.refused(reply, says.seq, error))
        if not batch.gap_ok or says.commit:
            batch.last -= 1
            self._finish(place)

    def _ack_if_due(self, batch: FastBatch, reply: bytes) -> bool:
        due = batch.due(len(self.batches))
        if due:
            self.group.replies.append(fast_reply.ack(reply, batch.acked, batch.flow))
        return due

    def _finish(self, place: _Place) -> None:
        """End a batch and acknowledge its stored messages."""
        batch, says, reply = place
        batch_id = publish_checks.text(says.batch_id)
        acks = self.featured.acks
        self.group.replies.append(acks.committed(reply, batch.stream_seq, batch_id=batch_id, count=batch.last))
        del self.batches[says.batch_id]

    def _refuse(self, reply: bytes, error: ApiRefusal) -> None:
        if not self.state.config.no_ack:
            self.group.replies.append(self.featured.acks.failed(reply, error))
