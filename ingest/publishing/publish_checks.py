"""The checks of a single message: nats-server's, in its order, without changing any state.

The order is that of nats-server 2.15.1, probed: a sealed stream, the message's size, features that the stream lacks,
expectations, the message id, the header's size, and only then a full stream. Features that Silt's streams never have
give the errors of a stream where they are off.
"""

import json
from collections.abc import Mapping

from conf.limits import HEADER_BYTES_MAX
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.index.matching import last_by_subject
from delta_store.streams import retention
from delta_store.streams.account import Account
from delta_store.streams.counters import BrokenCounter
from delta_store.streams.msg_ttl import ttl_seconds
from delta_store.streams.stream_state import StreamState
from ingest.publishing import schedule_checks
from ingest.publishing.publish_headers import is_increment, sequence

Fields = Mapping[bytes, bytes]

_LAST = b"Nats-Expected-Last-Sequence"
_LAST_SUBJECT = b"Nats-Expected-Last-Subject-Sequence"
_LAST_SUBJECT_OF = b"Nats-Expected-Last-Subject-Sequence-Subject"
_NOT_FOR_COUNTERS = {b"Nats-Rollup", b"Nats-Expected-Stream", b"Nats-Expected-Last-Msg-Id", _LAST, _LAST_SUBJECT} | {
    _LAST_SUBJECT_OF
}


def before_msg_id(state: StreamState, subject: str, fields: Fields, *, sizes: tuple[int, int]) -> ApiRefusal | None:
    """Return a message's error among the checks before its message id; ``sizes``: bytes of header block and payload."""
    if state.config.sealed:
        return api_errors.SEALED_STREAM.error
    if 0 < state.config.max_msg_size < sum(sizes):
        return api_errors.MESSAGE_TOO_LARGE.error
    return (
        _features(state, fields, sizes[1])
        or _expectations(state, subject, fields)
        or schedule_checks.refusal(state, subject, fields)
        or (api_errors.STREAM_SOURCE_HEADER.error if b"Nats-Stream-Source" in fields else None)
    )


def after_msg_id(state: StreamState, fields: Fields, *, sid: int, header_bytes: int) -> ApiRefusal | None:
    """Return the error of a message that is no duplicate, among the checks behind its message id."""
    error = last_msg_id_error(state, fields) or rollup_error(state, fields) or uncountable(state, fields, sid=sid)
    if error:
        return error
    if header_bytes > HEADER_BYTES_MAX:
        return api_errors.HEADER_TOO_LARGE.error
    ttl = fields.get(b"Nats-TTL")
    return ApiRefusal(400, 10165, "invalid per-message TTL") if ttl is not None and ttl_seconds(ttl) is None else None


def uncountable(state: StreamState, fields: Fields, *, sid: int) -> ApiRefusal | None:
    """Return why the message can't be added to a counter, if the stream has counters."""
    if state.counters is None:
        return None
    if b"Nats-Incr" not in fields:
        return api_errors.INCREMENT_MISSING.error
    try:
        state.counters.last(state.index, sid)
    except BrokenCounter:
        return api_errors.COUNTER_BROKEN.error
    return None


def last_msg_id_error(state: StreamState, fields: Fields) -> ApiRefusal | None:
    """Return the error of a wrong expected last message id."""
    expected = fields.get(b"Nats-Expected-Last-Msg-Id")
    if expected is None or text(expected) == state.last_msg_id:
        return None
    return api_errors.wrong_last_msg_id(state.last_msg_id)


def misfit(state: StreamState, header: bytes | None, payload: bytes) -> ApiRefusal | None:
    """Return the error of a payload without the schema that the stream wants."""
    reason = state.payload_rule(header or b"", payload) if state.payload_rule is not None else None
    return api_errors.payload_misfit(reason) if reason else None


def overdrawn(account: Account, state: StreamState, size: int) -> ApiRefusal | None:
    """Return the error of so many stored bytes that all streams together may not hold."""
    return None if account.has_room(state.config.storage, size) else api_errors.ACCOUNT_EXCEEDED.error


def fullness(state: StreamState, fields: Fields, *, sid: int, size: int) -> ApiRefusal | None:
    """Return the error of a full stream with discard ``new``, for a message of ``size`` stored bytes."""
    rolls_up = b"Nats-Rollup" in fields
    reason = retention.refusal(state.config, state.index, sid=sid, size=size, rolls_up=rolls_up)
    return api_errors.store_failed(reason) if reason else None


def rollup(fields: Fields) -> str:
    """Return the message's rollup: ``sub``, ``all``, empty for none; any other text is invalid."""
    return text(fields.get(b"Nats-Rollup", b"")).lower()


def text(value: bytes) -> str:
    """Decode a header value; bytes that are not UTF-8 are escaped, so that equal texts mean equal bytes."""
    return value.decode(errors="backslashreplace")


def counter_error(state: StreamState, fields: Fields, payload_bytes: int) -> ApiRefusal | None:
    """Return the error of an increment, if there is one."""
    increment = fields.get(b"Nats-Incr")
    if increment is None:
        return None
    if not is_increment(increment):
        return api_errors.INCREMENT_INVALID.error
    if not state.config.allow_msg_counter:
        return api_errors.COUNTERS_DISABLED.error
    if payload_bytes:
        return api_errors.INCREMENT_WITH_PAYLOAD.error
    return api_errors.INCREMENT_INVALID.error if _NOT_FOR_COUNTERS & fields.keys() else None


def rollup_error(state: StreamState, fields: Fields) -> ApiRefusal | None:
    """Return the error of a rollup, if there is one."""
    wanted = rollup(fields)
    if wanted and not state.config.allow_rollup_hdrs:
        return api_errors.rollup_failed("rollup not permitted")
    if wanted not in ("", "sub", "all"):
        return api_errors.rollup_failed(f"rollup value invalid: {json.dumps(wanted, ensure_ascii=False)}")
    return None


def _features(state: StreamState, fields: Fields, payload_bytes: int) -> ApiRefusal | None:
    """Return the error of headers for features that the stream lacks, or of a wrong expected stream."""
    if not fields:
        return None
    if b"Nats-Batch-Id" in fields:
        return api_errors.ATOMIC_PUBLISH_DISABLED.error
    error = counter_error(state, fields, payload_bytes)
    if error:
        return error
    if fields.get(b"Nats-Expected-Stream", state.name.encode()) != state.name.encode():
        return api_errors.EXPECTED_STREAM_MISMATCH.error
    has_ttl = not state.config.allow_msg_ttl and ttl_seconds(fields.get(b"Nats-TTL", b"00"))
    return api_errors.TTL_DISABLED.error if has_ttl else None


def _expectations(state: StreamState, subject: str, fields: Fields) -> ApiRefusal | None:
    """Return the error of a wrong expected last sequence."""
    expected = fields.get(_LAST_SUBJECT)
    if expected is not None:
        of = fields.get(_LAST_SUBJECT_OF)
        last = last_by_subject(state.index, subject if of is None else text(of))
        if sequence(expected) != last:
            return api_errors.wrong_last_sequence(last)
    elif _LAST_SUBJECT_OF in fields:
        return api_errors.EXPECTED_SUBJECT_SEQUENCE_MISSING.error
    expected = fields.get(_LAST)
    if expected is not None and sequence(expected) != state.index.last_seq:
        return api_errors.wrong_last_sequence(state.index.last_seq)
    return None
