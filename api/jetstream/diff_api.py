"""Silt's own requests about a stream's past: ``STREAM.DIFF``, ``STREAM.VERSIONS`` and ``STREAM.HISTORY``."""

from typing import Any

from api.jetstream.api_call import ApiCall, AskedHistory, AskedPast, AskedVersions, Result
from api.jetstream.request_shapes import STREAM_DIFF_REQUEST, STREAM_VERSIONS_REQUEST
from conf.limits import NAMES_PAGE, VERSIONS_PAGE
from delta_store.config import api_errors
from delta_store.dialect.times import format_time
from delta_store.reading.stream_diff import difference
from delta_store.streams.stream_state import StreamState
from delta_store.values.point_shape import AS_OF
from delta_store.values.settling import Settling
from delta_store.values.stream_history import StreamHistory
from delta_store.values.subjects import SubjectFilter, valid


def diff(call: ApiCall) -> Result:
    """Return a page of the subjects whose last message at one point is not the one at another, or now."""
    request = call.body(STREAM_DIFF_REQUEST)
    wanted = request.get("filter", ">")
    if "from" not in request or not valid(wanted):
        raise api_errors.BAD_REQUEST.error
    if call.told is None:
        return AskedPast(call.stream().name, (request["from"], request.get("to")))
    before, after = (one if isinstance(one, StreamState) else None for one in call.told)
    changes = difference(before, after, SubjectFilter((wanted,)))
    offset, limit = min(max(request.get("offset", 0), 0), len(changes)), call.page(NAMES_PAGE)
    page = [one._asdict() for one in changes[offset : offset + limit]]
    return {"total": len(changes), "offset": offset, "limit": limit, "changes": page}


def versions(call: ApiCall) -> Result:
    """Return which versions of ``messages`` settled which messages, newest first, or the one of a point."""
    request = call.optional_body(STREAM_VERSIONS_REQUEST) or {}
    most = call.page(VERSIONS_PAGE)
    if call.told is None:
        return AskedVersions(call.stream().name, request.get(AS_OF), request.get("before"), most)
    found = [_shown(one) for one in call.told[:most] if isinstance(one, Settling)]
    return {"limit": most, "versions": found}


def history(call: ApiCall) -> Result:
    """Return how far back a stream can be read, and what that costs."""
    if not isinstance(call.told, StreamHistory):
        return AskedHistory(call.stream().name)
    return call.told.shown(call.account.horizon_seconds)


def _shown(one: Settling) -> dict[str, Any]:
    return {
        "version": one.version,
        "committed": one.committed.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "first_seq": one.first_seq,
        "last_seq": one.last_seq,
        "first_ts": format_time(one.first_ts_ns),
        "last_ts": format_time(one.last_ts_ns),
    }
