"""``$JS.API.STREAM.BRANCH``, ``REWIND`` and ``UNDELETE``: the requests that make something of a stream's past.

They are Silt's own. A point is given in ``silt_as_of``: a sequence, a time, or an age. The reply comes when all is done
and durable, or with the error that kept it from being done.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from api.jetstream import request_shapes
from api.jetstream.api_call import ApiCall, Promised, Result
from api.jetstream.responses import failure, state_json, stream_info, success, with_dynamic_metadata
from consumers.config.consumer_config import MachineConfig
from consumers.machine.consumer_state import ConsumerState
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.streams import source_rules, stream_config_rules
from delta_store.streams.rewinds import Rewound
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects
from delta_store.values.as_of import AsOf, parse_as_of
from delta_store.values.point_shape import AS_OF

_RANGE: Final = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


class BranchWork(NamedTuple):
    """A stream to be made as another one stood at a point."""

    stream: str
    stream_id: int
    point: AsOf
    name: str
    config: Mapping[str, Any]
    """The fields of its configuration that the request gives."""
    consumers: tuple[tuple[str, MachineConfig, ConsumerState], ...]
    """The consumers to come with it, as they stand now."""


class RewindWork(NamedTuple):
    """A stream to stand as it stood at a point."""

    stream: str
    stream_id: int
    point: AsOf
    force: bool
    """Whether consumers that have seen what came after the point don't matter."""


class UndeleteWork(NamedTuple):
    """Messages of a point, since lost, to be stored again."""

    stream: str
    stream_id: int
    point: AsOf
    ranges: tuple[tuple[int, int], ...]
    """Of sequences, inclusive; empty for all."""
    subject: str


PastWork = BranchWork | RewindWork | UndeleteWork
KINDS: Final[dict[type[PastWork], str]] = {
    BranchWork: "stream_branch_response",
    RewindWork: "stream_rewind_response",
    UndeleteWork: "stream_undelete_response",
}
"""The types of the replies."""


def branch(call: ApiCall) -> Result:
    """Begin to make a new stream that stands as this one stood."""
    call.require_body()
    request = call.body(request_shapes.STREAM_BRANCH_REQUEST)
    state, name = call.stream(), request.get("name", "")
    if name in call.catalog.streams or name in call.catalog.restoring:
        raise api_errors.STREAM_NAME_EXISTS.error
    given = request.get("config", {})
    if given.get("name", name) != name:
        raise api_errors.STREAM_MISMATCH.error
    call.catalog.require_change()
    consumers: tuple[tuple[str, MachineConfig, ConsumerState], ...] = ()
    if request.get("consumers") and call.consumers is not None:
        found = call.consumers.recorded(state, now_ns=call.now_ns, rows=call.rows)
        consumers = tuple(one for one in found if one[1].is_durable)
    point = _point(call, request)
    return Promised(BranchWork(state.name, state.stream_id, point, name, given, consumers))


def rewind(call: ApiCall) -> Result:
    """Begin to make the stream stand as it stood."""
    call.require_body()
    request = call.body(request_shapes.STREAM_REWIND_REQUEST)
    state = _changeable(call)
    if state.config.deny_purge or state.config.deny_delete:
        raise api_errors.past_refused("the stream denies purges or deletes")
    point = _point(call, request, needed=True)
    return Promised(RewindWork(state.name, state.stream_id, point, request.get("force", False)))


def undelete(call: ApiCall) -> Result:
    """Begin to bring lost messages back."""
    call.require_body()
    request = call.body(request_shapes.STREAM_UNDELETE_REQUEST)
    state = _changeable(call)
    ranges, wanted = tuple(map(_range, request.get("seqs", []))), request.get("filter", "")
    if not (ranges or wanted):
        raise api_errors.past_refused("name the messages: sequences in seqs, or subjects in filter")
    if wanted and not subjects.valid(wanted):
        raise api_errors.past_refused(f"{wanted!r} is no subject")
    point = _point(call, request, needed=True)
    return Promised(UndeleteWork(state.name, state.stream_id, point, ranges, wanted or ">"))


def branch_config(then: StreamConfig, name: str, given: Mapping[str, Any], *, domain: str) -> StreamConfig:
    """Return the configuration of a branch: the one of its point, but for what the request gives. Raises ApiRefusal.

    Its subject is its name where no others are given: those of its origin are taken. It stands by itself, and nothing
    in it ages.
    """
    alone = replace(then, subjects=(), mirror=None, sources=(), republish=None)
    lasting = replace(alone, max_age=0, allow_msg_ttl=False, subject_delete_marker_ttl=0, allow_msg_schedules=False)
    request = {**lasting.as_json(), **given, "name": name}
    request["metadata"] = stream_config_rules.with_required_level(request.get("metadata") or {}, request)
    config = stream_config_rules.normalise(request)
    stream_config_rules.check_replicas(config)
    source_rules.refuse_unsupported(config, domain=domain)
    return config


def branched(state: StreamState, work: BranchWork, *, now_ns: int) -> bytes:
    """Return the reply to a branch: the new stream as it stands."""
    shown = state_json(state, consumers=len(state.consumers))
    info = stream_info(with_dynamic_metadata(state.config), state, shown, now_ns=now_ns, extra={})
    return success(KINDS[type(work)], info)


def rewound(work: RewindWork, done: Rewound, *, broken: list[str], last_seq: int) -> bytes:
    """Return the reply to a rewind; ``broken`` are consumers that have seen what came after the point."""
    return success(KINDS[type(work)], {"success": True, **done._asdict(), "last_seq": last_seq, "consumers": broken})


def undeleted(work: UndeleteWork, *, restored: int, last_seq: int) -> bytes:
    """Return the reply to an undelete, whose messages are the last ones up to ``last_seq``."""
    return success(KINDS[type(work)], {"success": True, "restored": restored, "last_seq": last_seq})


def refused(work: PastWork, error: api_errors.ApiRefusal) -> bytes:
    """Return the reply to work that was not done."""
    return failure(KINDS[type(work)], error, {})


def _changeable(call: ApiCall) -> StreamState:
    """Return the stream, if its messages may be changed; raises ``ApiRefusal``."""
    state = call.stream()
    if state.config.sealed:
        raise api_errors.SEALED_STREAM.error
    if state.config.mirror is not None:
        raise api_errors.past_refused("the stream is a mirror: it stands as its origin stands")
    call.catalog.require_change()
    return state


def _point(call: ApiCall, request: Mapping[str, Any], *, needed: bool = False) -> AsOf:
    """Return the point of the past that is asked for; the stream as it stands now where none is."""
    text = request.get(AS_OF)
    if text is None and needed:
        raise api_errors.past_refused(f"name the point in {AS_OF}: a sequence, a time, or an age such as 15m")
    point = parse_as_of(text, now=datetime.fromtimestamp(call.now_ns / 1e9, UTC))
    if (point.seq or 0) > call.stream().index.last_seq or (point.before_ns or 0) > call.now_ns:
        raise api_errors.past_refused(f"{text} is still to come")
    return point


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise api_errors.past_refused(f"{text!r} is no sequence, and no range of sequences such as 5-9")
    return int(found[1]), int(found[2] or found[1])
