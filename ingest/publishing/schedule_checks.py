"""The checks of message schedules' headers: nats-server 2.15's, in its order; and a schedule's rollup header."""

import functools
from collections.abc import Mapping
from typing import Final

from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.config.schedule_pattern import BadZone, firing, zone
from delta_store.index.matching import last_by_subject
from delta_store.streams.msg_ttl import ttl_seconds
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects
from delta_store.values.subjects import SubjectFilter
from ingest.publishing.publish_headers import LINE, with_field

Fields = Mapping[bytes, bytes]

PATTERN: Final = b"Nats-Schedule"
NEXT: Final = b"Nats-Schedule-Next"
SCHEDULER: Final = b"Nats-Scheduler"
ROLLUP: Final = b"Nats-Rollup"
_ZONE: Final = b"Nats-Schedule-Time-Zone"


def refusal(state: StreamState, subject: str, fields: Fields) -> ApiRefusal | None:
    """Return the error of a message that is a schedule or ends one; None for any other."""
    return _schedule_error(state, subject, fields) or _scheduler_error(state, subject, fields)


def is_schedule(fields: Fields) -> bool:
    """Whether a message that passes the checks is a schedule."""
    try:
        return PATTERN in fields and bool(_due_ns(fields))
    except BadZone:
        return False


def rolled_up(header: bytes | None, fields: Fields) -> tuple[bytes | None, Fields]:
    """Return header block and fields of a checked message; a schedule gets a rollup of its subject."""
    if ROLLUP in fields or not is_schedule(fields):
        return header, fields
    return with_field(header or LINE + b"\r\n", ROLLUP, b"sub"), {**fields, ROLLUP: b"sub"}


def _due_ns(fields: Fields) -> int | None:
    """Return the due time (ns), 0 if the message is no schedule, None for a bad pattern. Raises :class:`BadZone`."""
    named, pattern = fields.get(_ZONE), fields.get(PATTERN)
    where = zone(named.decode(errors="replace")) if named is not None else None
    if pattern is None:
        return 0
    found = firing(pattern.decode(errors="replace"), where, ts_ns=0, now_ns=0)
    return found.due_ns if found is not None else None


def _schedule_error(state: StreamState, subject: str, fields: Fields) -> ApiRefusal | None:
    if PATTERN not in fields and _ZONE not in fields:
        return None
    error: ApiRefusal | None = None
    try:
        due_ns = _due_ns(fields)
    except BadZone:
        due_ns, error = None, api_errors.SCHEDULE_ZONE_INVALID.error
    if due_ns == 0:
        return None
    if not state.config.allow_msg_schedules:
        return api_errors.SCHEDULES_DISABLED.error
    if due_ns is None:
        return error or api_errors.SCHEDULE_PATTERN_INVALID.error
    return _options_error(state, subject, fields)


def _options_error(state: StreamState, subject: str, fields: Fields) -> ApiRefusal | None:  # noqa: PLR0911  # in order
    """Return the error of the headers beside a valid pattern."""
    ttl = fields.get(b"Nats-Schedule-TTL")
    if ttl is not None and ttl_seconds(ttl) is None:
        return api_errors.SCHEDULE_TTL_INVALID.error
    if fields.get(b"Nats-Schedule-Rollup", b"sub") != b"sub":
        return api_errors.SCHEDULE_ROLLUP_INVALID.error
    if ttl is not None and not state.config.allow_msg_ttl:
        return api_errors.TTL_DISABLED.error
    target = fields.get(b"Nats-Schedule-Target", b"").decode(errors="replace")
    source = fields.get(b"Nats-Schedule-Source", b"").decode(errors="replace")
    if not subjects.literal(target) or target == subject:
        return api_errors.SCHEDULE_TARGET_INVALID.error
    if source and (source in (target, subject) or not subjects.literal(source)):
        return api_errors.SCHEDULE_SOURCE_INVALID.error
    if not _taken(state, target):
        return api_errors.SCHEDULE_TARGET_INVALID.error
    if source and not _taken(state, source):
        return api_errors.SCHEDULE_SOURCE_INVALID.error
    if fields.get(ROLLUP, b"sub").lower() != b"sub":
        return api_errors.SCHEDULE_ROLLUP_INVALID.error
    return None


def _scheduler_error(state: StreamState, subject: str, fields: Fields) -> ApiRefusal | None:
    """Return the error of a message that names a schedule otherwise than to end it."""
    following, scheduler = fields.get(NEXT), fields.get(SCHEDULER, b"").decode(errors="backslashreplace")
    if following is None and not scheduler:
        return None
    if following != b"purge" or scheduler == subject or not subjects.literal(scheduler):
        return api_errors.SCHEDULER_INVALID.error
    if not state.config.allow_msg_schedules:
        return api_errors.SCHEDULES_DISABLED.error
    last = last_by_subject(state.index, scheduler)
    is_other = last and (state.schedules is None or not state.schedules.holds(last))
    return api_errors.SCHEDULER_INVALID.error if is_other else None


def _taken(state: StreamState, subject: str) -> bool:
    return _taken_by(state.config.subjects).matches(subject)


@functools.lru_cache(maxsize=256)
def _taken_by(given: tuple[str, ...]) -> SubjectFilter:
    return SubjectFilter(given)
