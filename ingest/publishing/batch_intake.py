"""The intake of atomic batches, message by message: nats-server 2.15's checks, in its order.

A batch is staged until its commit arrives; then either all of its messages are stored or none.
"""

from typing import Final, NamedTuple

from conf.limits import ATOMIC_BATCH_ID_CHARS_MAX, ATOMIC_BATCH_MESSAGES_MAX, ATOMIC_BATCHES_OPEN_MAX
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.api_level import LEVEL_HEADER, value_refused
from delta_store.streams.open_batches import BatchMessage, OpenBatch
from delta_store.streams.stream_state import StreamState
from ingest.publishing.publish_checks import Fields, text
from ingest.publishing.publish_headers import sequence, with_field, without

_TOO_LARGE_CODE: Final = 10199

_ABANDONED: Final = {
    api_errors.REQUIRED_API_LEVEL.error.err_code: "unsupported",
    api_errors.BATCH_INCOMPLETE.error.err_code: "incomplete",
    _TOO_LARGE_CODE: "large",
}
"""Errors that end an open batch with an advisory, with the reasons there."""


class Staged(NamedTuple):
    """A message is staged until the batch is committed."""


class Commit(NamedTuple):
    """A batch is complete: its messages are to be stored together."""

    batch_id: str
    messages: list[BatchMessage]


def take(state: StreamState, message: BatchMessage, fields: Fields, now_ns: int) -> ApiRefusal | Staged | Commit:
    """Take one message of the batch that its fields name; an error ends the batch."""
    error = _unfit(state, message, fields)
    if error:
        return error
    batch_id = text(fields[b"Nats-Batch-Id"])
    number, commit = sequence(fields[b"Nats-Batch-Sequence"]), fields.get(b"Nats-Batch-Commit")
    # Unsigned, as in nats-server: an end at 0 counts as the largest number.
    stored = (number - (commit == b"eob")) % 2**64
    batches = state.batches
    batches.forget(now_ns)
    batch = batches.get(batch_id)
    if batch is None:
        if number != 1:
            return _too_large() if stored > ATOMIC_BATCH_MESSAGES_MAX else api_errors.BATCH_INCOMPLETE.error
        if len(batches) >= ATOMIC_BATCHES_OPEN_MAX or batches.is_full:
            return api_errors.BATCHES_TOO_MANY.error
        batch = batches[batch_id] = OpenBatch(now_ns)
    error = _ends(batch, fields, number=number, commit=commit)
    if error:
        if error.err_code in _ABANDONED:
            batches.abandon(batch_id, _ABANDONED[error.err_code])
        else:
            del batches[batch_id]
        return error
    batch.last_seq, batch.touched_ns = number, now_ns
    if commit != b"eob":
        kept = without(message.header, LEVEL_HEADER) if LEVEL_HEADER in fields else message.header
        batch.messages.append(message._replace(header=kept))
        batch.bytes += len(message.header) + len(message.payload)
    if commit is None:
        return Staged()
    del batches[batch_id]
    if commit == b"eob":
        last = batch.messages[-1]
        batch.messages[-1] = last._replace(header=with_field(last.header, b"Nats-Batch-Commit", b"1"))
    return Commit(batch_id, batch.messages)


def _unfit(state: StreamState, message: BatchMessage, fields: Fields) -> ApiRefusal | None:
    """Return a message's error that does not depend on its batch."""
    config = state.config
    if config.sealed:
        return api_errors.SEALED_STREAM.error
    if 0 < config.max_msg_size < len(message.header) + len(message.payload):
        return api_errors.MESSAGE_TOO_LARGE.error
    if not config.allow_atomic:
        return api_errors.ATOMIC_PUBLISH_DISABLED.error
    if len(fields[b"Nats-Batch-Id"]) > ATOMIC_BATCH_ID_CHARS_MAX:
        return api_errors.BATCH_ID_INVALID.error
    if sequence(fields.get(b"Nats-Batch-Sequence", b"")) < 0:
        return api_errors.BATCH_SEQUENCE_MISSING.error
    return None


def _ends(batch: OpenBatch, fields: Fields, *, number: int, commit: bytes | None) -> ApiRefusal | None:
    """Return why the batch can't continue with this message."""
    if commit not in (None, b"1", b"eob"):
        return api_errors.BATCH_COMMIT_INVALID.error
    if value_refused(fields.get(LEVEL_HEADER, b"")):
        return api_errors.REQUIRED_API_LEVEL.error
    if number != batch.last_seq + 1 or (number == 1 and commit == b"eob"):
        return api_errors.BATCH_INCOMPLETE.error
    if number - (commit == b"eob") > ATOMIC_BATCH_MESSAGES_MAX:
        return _too_large()
    return None


def _too_large() -> ApiRefusal:
    return ApiRefusal(400, _TOO_LARGE_CODE, f"atomic publish batch is too large: {ATOMIC_BATCH_MESSAGES_MAX}")
