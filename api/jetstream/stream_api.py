"""``$JS.API.STREAM.*``: create, update, delete, list, info, purge, and the refusal of clusters."""

from dataclasses import replace
from typing import Any, Final

from api.jetstream import request_shapes
from api.jetstream.api_call import ApiCall, Result
from api.jetstream.responses import state_json, stream_info, with_dynamic_metadata
from api.jetstream.source_info import source_info
from conf.limits import DELETED_DETAILS_MAX, LIST_PAGE, NAMES_PAGE, SUBJECT_DETAILS_PAGE
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.index.matching import subjects_matching
from delta_store.streams import source_rules, stream_config_rules, stream_update_rules
from delta_store.streams.stream_state import StreamState
from delta_store.values import subjects
from delta_store.values.subjects import SubjectFilter

_PURGE: Final = "silt.purge"
"""Key of the stream's metadata: with ``keep`` its purges erase nothing, as with ``silt_no_erase``."""


def create(call: ApiCall) -> Result:
    """Create a stream; one that exists with the same configuration is no error."""
    request = call.body(request_shapes.STREAM_CONFIG_REQUEST)
    request["metadata"] = stream_config_rules.with_required_level(request.get("metadata", {}), request)
    _require_name(call, request.get("name", ""))
    if "/" in call.stream_name or "\\" in call.stream_name:
        raise api_errors.NAME_WITH_PATH_SEPARATORS.error
    stream_config_rules.check_create(request)
    config = _normalised(call, request)
    stream_config_rules.check_replicas(config)
    source_rules.refuse_unsupported(config, domain=call.catalog.domain)
    call.refuse_unanswerable(config.as_json())
    state = call.catalog.streams.get(config.name)
    if state is None:
        source_rules.check_new(config)
        state = call.catalog.create(config, now_ns=call.now_ns, rows=call.rows)
    elif not stream_config_rules.same_config(config, state.config):
        raise api_errors.STREAM_NAME_EXISTS.error
    extra = source_info(call.catalog, state, now_ns=call.now_ns, created=not state.index.last_seq)
    shown = stream_info(
        with_dynamic_metadata(state.config), state, _state(call, state), now_ns=call.now_ns, extra=extra
    )
    return shown | {"did_create": True}


def update(call: ApiCall) -> Result:
    """Update a stream's configuration."""
    request = call.body(request_shapes.STREAM_CONFIG_REQUEST)
    config = _normalised(call, request)
    _require_name(call, config.name)
    state = call.stream()
    kept = stream_config_rules.with_required_level(config.metadata, config.as_json())
    config = stream_update_rules.checked_update(state.config, replace(config, metadata=kept))
    source_rules.refuse_unsupported(config, domain=call.catalog.domain)
    call.refuse_unanswerable(config.as_json())
    violation = stream_update_rules.violated_by(state.config, config, state.consumer_limits())
    if violation is not None:
        raise violation
    state = call.catalog.update(config, now_ns=call.now_ns, rows=call.rows)
    if call.consumers is not None:
        call.consumers.sync_streams(call.now_ns)
    return _info(call, state, _state(call, state))


def delete(call: ApiCall) -> Result:
    """Delete a stream and all its messages."""
    call.refuse_body()
    call.catalog.delete(call.stream().name, now_ns=call.now_ns, rows=call.rows)
    return {"success": True}


def purge(call: ApiCall) -> Result:
    """Remove messages: all, those of a filter, those below a sequence, or all but the last ``keep``.

    With ``silt_no_erase``, or where the stream says so, reads of the past still show them.
    """
    request = call.optional_body(request_shapes.STREAM_PURGE_REQUEST) or {}
    seq, keep = request.get("seq", 0), request.get("keep", 0)
    if seq and keep:
        raise api_errors.BAD_REQUEST.error
    state = call.stream()
    if state.config.sealed:
        raise api_errors.SEALED_STREAM.error
    if state.config.deny_purge:
        raise api_errors.purge_failed("stream purge not permitted")
    wanted = request.get("filter", "")
    if wanted and not subjects.valid(wanted):
        return {"success": True, "purged": 0}
    keeps_past = request.get("silt_no_erase", False) or state.config.metadata.get(_PURGE) == "keep"
    options = {"subject": wanted, "seq": seq, "keep": keep, "erase": not keeps_past}
    purged = call.catalog.purge(state.name, now_ns=call.now_ns, rows=call.rows, **options)
    if call.consumer_count(state.name):
        call.registry.purged(state, wanted, now_ns=call.now_ns)
    return {"success": True, "purged": purged}


def names(call: ApiCall) -> Result:
    """Return a page of the stream names."""
    found, offset = _page(call, call.optional_body(request_shapes.STREAM_NAMES_REQUEST) or {})
    limit = call.page(NAMES_PAGE)
    page = [state.name for state in found[offset : offset + limit]]
    return {"total": len(found), "offset": offset, "limit": limit, "streams": page}


def listing(call: ApiCall) -> Result:
    """Return a page of the streams with their configuration and state."""
    found, offset = _page(call, call.optional_body(request_shapes.STREAM_LIST_REQUEST) or {})
    limit = call.page(LIST_PAGE)
    page = [
        stream_info(state.config.as_json(), state, _state(call, state), now_ns=call.now_ns, extra=_extra(call, state))
        for state in found[offset : offset + limit]
    ]
    return {"total": len(found), "offset": offset, "limit": limit, "streams": page}


def info(call: ApiCall) -> Result:
    """Return a stream's configuration and state, with subjects and deleted sequences if requested.

    As of a past point these are those of then; consumers and sources are told of now alone.
    """
    request = call.optional_body(request_shapes.STREAM_INFO_REQUEST) or {}
    if (asked := call.asked_past(request)) is not None:
        return asked
    state = call.stream()
    paged = {"total": 0, "offset": 0, "limit": 0}
    counts: dict[str, int] = {}
    wanted = request.get("subjects_filter", "")
    if subjects.valid(wanted):
        counts = subjects_matching(state.index, SubjectFilter((wanted,)))
    if counts:
        offset, limit = max(request.get("offset", 0), 0), call.page(SUBJECT_DETAILS_PAGE)
        paged = {"total": len(counts), "offset": offset, "limit": limit}
        if offset or len(counts) > limit:
            counts = dict(sorted(counts.items())[offset : offset + limit])
    deleted_max = call.page(DELETED_DETAILS_MAX) if request.get("deleted_details") else 0
    shown = _state(call, state, subjects=counts, deleted_max=deleted_max)
    return paged | _info(call, state, shown, cluster={"leader": call.account.server_name})


def needs_cluster(_call: ApiCall) -> Result:
    """Refuse a move of leaders or replicas: a single server has none."""
    raise api_errors.CLUSTER_REQUIRED.error


def _require_name(call: ApiCall, name: str) -> None:
    if name != call.stream_name:
        raise api_errors.STREAM_MISMATCH.error


def _normalised(call: ApiCall, request: dict[str, Any]) -> StreamConfig:
    streams = call.catalog.streams

    def find(name: str) -> StreamConfig | None:
        return streams[name].config if name in streams else None

    config = stream_config_rules.normalise(request, pedantic=request.get("pedantic", False), find=find)
    call.catalog.account.limits.check(config)
    return config


def _page(call: ApiCall, request: dict[str, Any]) -> tuple[list[StreamState], int]:
    """Return the streams with subjects that match the request, sorted by name, and the page's offset."""
    wanted = request.get("subject", "")
    call.catalog.expire(now_ns=call.now_ns, rows=call.rows)
    names = call.catalog.routes.streams_taking(wanted) if wanted else call.catalog.streams
    found = [call.catalog.streams[name] for name in sorted(names)]
    return found, min(max(request.get("offset", 0), 0), len(found))


def _state(call: ApiCall, state: StreamState, **details: Any) -> dict[str, Any]:
    """Return a stream's state with the requested details."""
    return state_json(state, consumers=call.consumer_count(state.name), **details)


def _domain(call: ApiCall) -> dict[str, Any]:
    return {"domain": call.catalog.domain} if call.catalog.domain else {}


def _extra(call: ApiCall, state: StreamState) -> dict[str, Any]:
    return _domain(call) | (source_info(call.catalog, state, now_ns=call.now_ns) if call.told is None else {})


def _info(
    call: ApiCall, state: StreamState, shown_state: dict[str, Any], *, cluster: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return the info object of a reply on one stream; only STREAM.INFO has ``cluster``."""
    extra = ({"cluster": cluster} if cluster else {}) | _extra(call, state)
    return stream_info(with_dynamic_metadata(state.config), state, shown_state, now_ns=call.now_ns, extra=extra)
