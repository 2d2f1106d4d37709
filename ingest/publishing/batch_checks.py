"""The checks of an atomic batch before any of its messages is stored: nats-server's, in its order.

Each message is checked as if those before it in the batch were stored.
"""

from conf.limits import HEADER_BYTES_MAX
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.index.matching import last_by_subject
from delta_store.streams import retention
from delta_store.streams.msg_ttl import ttl_seconds
from delta_store.streams.open_batches import BatchMessage
from delta_store.streams.stream_state import StreamState
from delta_store.values.records import stored_size
from ingest.publishing import schedule_checks
from ingest.publishing.publish_checks import Fields, counter_error, misfit, rollup, rollup_error, text, uncountable
from ingest.publishing.publish_headers import sequence


class BatchChecks:
    """The checks of one batch, with the changes by its messages so far."""

    def __init__(self, state: StreamState) -> None:
        self._state = state
        self._stored = 0
        self.size = 0
        """Stored bytes of the messages that were checked."""
        self._by_subject: dict[str, int] = {}
        self._msg_ids: set[bytes] = set()
        self._expected: dict[str, int] = {}

    def refusal(self, message: BatchMessage, fields: Fields) -> ApiRefusal | None:
        """Return why the message, and so the batch, can't be stored; None if it can."""
        if b"Nats-Expected-Last-Msg-Id" in fields:
            return ApiRefusal(400, 10177, "atomic publish unsupported header used: Nats-Expected-Last-Msg-Id")
        return self.refusal_alone(message, fields)

    def refusal_alone(self, message: BatchMessage, fields: Fields) -> ApiRefusal | None:
        """Return why the message alone can't be stored, as for fast batches; None if it can."""
        if len(message.header) > HEADER_BYTES_MAX:
            return api_errors.HEADER_TOO_LARGE.error
        return (
            counter_error(self._state, fields, len(message.payload))
            or self._wrong_stream_or_ttl(fields)
            or self._repeated(fields)
            or (api_errors.STREAM_SOURCE_HEADER.error if b"Nats-Stream-Source" in fields else None)
            or self._uncountable(message.subject, fields)
            or self._unexpected(message.subject, fields)
            or schedule_checks.refusal(self._state, message.subject, fields)
            or self._rollup(message.subject, fields)
            or misfit(self._state, message.header, message.payload)
            or self._full(message, fields)
        )

    def _wrong_stream_or_ttl(self, fields: Fields) -> ApiRefusal | None:
        name = self._state.name.encode()
        if fields.get(b"Nats-Expected-Stream", name) != name:
            return api_errors.EXPECTED_STREAM_MISMATCH.error
        ttl = ttl_seconds(fields.get(b"Nats-TTL", b"00"))
        if ttl == 0:
            return None
        if not self._state.config.allow_msg_ttl:
            return api_errors.TTL_DISABLED.error
        return ApiRefusal(400, 10165, "invalid per-message TTL") if ttl is None else None

    def _repeated(self, fields: Fields) -> ApiRefusal | None:
        msg_id = fields.get(b"Nats-Msg-Id")
        if msg_id is None:
            return None
        if msg_id in self._msg_ids or self._state.dedup.find(text(msg_id)):
            return api_errors.BATCH_REPEATS.error
        self._msg_ids.add(msg_id)
        return None

    def _unexpected(self, subject: str, fields: Fields) -> ApiRefusal | None:
        expected = fields.get(b"Nats-Expected-Last-Sequence")
        if expected is not None:
            last = self._state.index.last_seq + self._stored
            if sequence(expected) != last:
                return api_errors.wrong_last_sequence(last)
            if self._stored:
                return api_errors.WRONG_LAST_SEQUENCE.error
        expected = fields.get(b"Nats-Expected-Last-Subject-Sequence")
        of = fields.get(b"Nats-Expected-Last-Subject-Sequence-Subject")
        if expected is None:
            return None if of is None else api_errors.EXPECTED_SUBJECT_SEQUENCE_MISSING.error
        wanted = subject if of is None else text(of)
        if wanted in self._by_subject:
            return api_errors.WRONG_LAST_SEQUENCE.error
        if wanted not in self._expected:
            self._expected[wanted] = last_by_subject(self._state.index, wanted)
        last = self._expected[wanted]
        return api_errors.wrong_last_sequence(last) if sequence(expected) != last else None

    def _uncountable(self, subject: str, fields: Fields) -> ApiRefusal | None:
        state = self._state
        return uncountable(state, fields, sid=state.index.table.intern(subject)) if state.counters is not None else None

    def _rollup(self, subject: str, fields: Fields) -> ApiRefusal | None:
        error = rollup_error(self._state, fields)
        wanted = rollup(fields)
        if not error and wanted == "sub" and subject in self._by_subject:
            return api_errors.rollup_failed("batch rollup sub invalid")
        if not error and wanted == "all" and self._stored:
            return api_errors.rollup_failed("batch rollup all invalid")
        return error

    def _full(self, message: BatchMessage, fields: Fields) -> ApiRefusal | None:
        config, index, subject = self._state.config, self._state.index, message.subject
        self._stored += 1
        self.size += stored_size(subject, message.header, message.payload)
        mine = self._by_subject[subject] = self._by_subject.get(subject, 0) + 1
        if config.discard != "new":
            return None
        if 0 < config.max_msgs < index.msgs + self._stored:
            return api_errors.store_failed(retention.MESSAGES_EXCEEDED)
        if 0 < config.max_bytes < index.bytes + self.size:
            return api_errors.store_failed(retention.BYTES_EXCEEDED)
        if config.discard_new_per_subject and b"Nats-Rollup" not in fields:
            sid = index.table.ids.get(subject)
            have = index.table.count.item(sid) if sid is not None else 0
            if have + mine > config.max_msgs_per_subject:
                return api_errors.store_failed(retention.PER_SUBJECT_EXCEEDED)
        return None
