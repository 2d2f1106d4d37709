"""Single messages: ``STREAM.MSG.GET`` and ``STREAM.MSG.DELETE``."""

from typing import Any

from api.jetstream.api_call import ApiCall, NeedMessage, Result, Uncounted
from api.jetstream.request_shapes import MSG_DELETE_REQUEST, MSG_GET_REQUEST
from delta_store.config import api_errors
from delta_store.config.api_errors import ApiRefusal
from delta_store.index.matching import last_by_subject, next_matching
from delta_store.reading.read_plan import ReadPlan
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects


def get(call: ApiCall) -> Result:
    """Look up the requested message's sequence; the caller fetches its payload."""
    call.require_body()
    request = call.body(MSG_GET_REQUEST)
    if request.get("batch", 0) > 0 or request.get("max_bytes", 0) > 0 or _conflicts(request):
        raise api_errors.BAD_REQUEST.error
    if (asked := call.asked_past(request)) is not None:
        return asked
    state = call.stream()
    seq = _wanted(state, request)
    if not seq:
        raise api_errors.NO_MESSAGE_FOUND.error
    return NeedMessage(ReadPlan(state.name, state.stream_id, (seq,)), request.get("no_hdr", False))


def delete(call: ApiCall) -> Result:
    """Delete one message; without ``no_erase`` it is gone from reads of the past too."""
    call.require_body()
    request = call.body(MSG_DELETE_REQUEST)
    state = call.stream()
    if state.config.sealed:
        raise api_errors.SEALED_STREAM.error
    if state.config.deny_delete:
        raise api_errors.message_delete_failed("message delete not permitted")
    seq = request.get("seq", 0)
    erase = not request.get("no_erase", False)
    if seq > state.index.last_seq or not call.catalog.remove(
        state.name, seq, erase=erase, now_ns=call.now_ns, rows=call.rows
    ):
        return Uncounted(_not_deleted(state, seq))
    return {"success": True}


def _conflicts(request: dict[str, Any]) -> bool:
    """Whether the request names no message, or names it in two ways."""
    seq, timed = request.get("seq", 0) > 0, "start_time" in request
    last, following = bool(request.get("last_by_subj")), bool(request.get("next_by_subj"))
    nothing = not (seq or last or following or timed)
    return nothing or (seq and (last or timed)) or (last and (timed or following))


def _wanted(state: StreamState, request: dict[str, Any]) -> int:
    """Return the requested sequence, 0 if it is not live."""
    index = state.index
    seq = index.seq_at_time(request["start_time"]) if "start_time" in request else request.get("seq", 0)
    following, last = request.get("next_by_subj", ""), request.get("last_by_subj", "")
    if following:
        return next_matching(index, following, seq) if seq <= index.last_seq and subjects.valid(following) else 0
    if last:
        return last_by_subject(index, last) if subjects.valid(last) else 0
    return seq if index.subject_of(seq) is not None else 0


def _not_deleted(state: StreamState, seq: int) -> ApiRefusal:
    """Return the refusal of a delete: nats-server's file store distinguishes three cases, its memory store none."""
    index = state.index
    if state.config.storage == "file":
        if seq > index.last_seq:
            return api_errors.message_delete_failed("stream store EOF")
        if seq < max(1, index.first_seq):
            return api_errors.message_delete_failed("no message found")
    return api_errors.sequence_not_found(seq)
