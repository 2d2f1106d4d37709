"""``$JS.API.CONSUMER.*``: create, update, list, info, pause, reset, unpin and delete consumers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from api.jetstream.api_call import SILENCE, ApiCall, AskedView, Identified, Result
from api.jetstream.consumer_info import config_json, consumer_info, name_seed, paused_json
from api.jetstream.request_shapes import (
    CONSUMER_CREATE_REQUEST,
    CONSUMER_PAUSE_REQUEST,
    CONSUMER_RESET_REQUEST,
    CONSUMER_UNPIN_REQUEST,
    CONSUMERS_REQUEST,
)
from conf.limits import LIST_PAGE, NAMES_PAGE
from consumers.config import consumer_config_rules, consumer_create_rules, past_point
from consumers.config.consumer_config import MachineConfig, shown_time
from consumers.machine.consumer_machine import ConsumerMachine, InvalidReset
from delta_store.config import api_errors
from delta_store.dialect.json_shapes import Decoded, Struct, unmarshal
from delta_store.dialect.json_syntax import JsonError
from delta_store.dialect.times import ZERO_TIME
from delta_store.streams.stream_identity import asked_identity, stream_identity
from delta_store.streams.stream_state import StreamState
from delta_store.values.point_shape import AS_OF

Naming = Callable[[MachineConfig], MachineConfig]


def create(call: ApiCall) -> Result:
    """Create or update a consumer; its name is the subject's, the body's, or generated."""
    if len(call.names) == 1:
        return _create(call, consumer_create_rules.named_by_request)
    name, wanted = call.names[1], ".".join(call.names[2:])
    return _create(call, lambda config: consumer_create_rules.named_by_subject(config, name, wanted))


def create_durable(call: ApiCall) -> Result:
    """Create or update a durable consumer by the older request."""
    return _create(call, lambda config: consumer_create_rules.named_durable(config, call.names[1]))


def names(call: ApiCall) -> Result:
    """Return a page of the names of a stream's consumers."""
    state, offset = _page(call)
    found = [consumer.name for consumer in _public(call, state)]
    offset = min(offset, len(found))
    limit = call.page(NAMES_PAGE)
    page = found[offset : offset + limit]
    return {"total": len(found), "offset": offset, "limit": limit, "consumers": page}


def listing(call: ApiCall) -> Result:
    """Return a page of a stream's consumers with their configuration and state."""
    state, offset = _page(call)
    found = _public(call, state)
    offset = min(offset, len(found))
    limit = call.page(LIST_PAGE)
    if (asked := _unread(state, found[offset : offset + limit])) is not None:
        return asked
    page = [_info(call, state, consumer, dynamic=False) for consumer in found[offset : offset + limit]]
    return {"total": len(found), "offset": offset, "limit": limit, "consumers": page}


def info(call: ApiCall) -> Result:
    """Return a consumer's configuration and state."""
    call.refuse_body()
    call.require_level()
    state = call.stream()
    consumer = _known(call, state)
    return _unread(state, [consumer]) or _info(call, state, consumer)


def delete(call: ApiCall) -> Result:
    """Delete a consumer."""
    call.refuse_body()
    state = call.stream()
    consumer = _known(call, state)
    call.registry.delete(state, consumer.name, now_ns=call.now_ns, rows=call.rows)
    return {"success": True}


def pause(call: ApiCall) -> Result:
    """Pause a consumer until a time, or resume it."""
    request = call.optional_body(CONSUMER_PAUSE_REQUEST) or {}
    call.require_level()
    state = call.stream()
    consumer = _known(call, state)
    until = shown_time(request["pause_until"]) if "pause_until" in request else ZERO_TIME
    until_ns = request["pause_until"] if until != ZERO_TIME else 0
    call.registry.pause(state, consumer.name, until_ns, now_ns=call.now_ns, rows=call.rows)
    remaining = paused_json(until_ns, now_ns=call.now_ns)
    return {"paused": False, "pause_until": until} | remaining


def reset(call: ApiCall) -> Result:
    """Reset a consumer to a sequence or its start; no reply if it does not exist."""
    state = call.catalog.streams.get(call.stream_name)
    consumer = call.directory.get(call.stream_name, call.names[1])
    if state is None or consumer is None:
        return SILENCE
    if (asked := _unread(state, [consumer])) is not None:
        return asked
    call.require_level()
    seq = _loose_body(call, CONSUMER_RESET_REQUEST).get("seq", 0) if call.payload else 0
    call.catalog.expire_stream(state, now_ns=call.now_ns, rows=call.rows)
    try:
        reached = call.registry.reset(state, consumer.name, seq or None, now_ns=call.now_ns, rows=call.rows)
    except InvalidReset as refused:
        raise api_errors.consumer_invalid_reset(str(refused)) from None
    answer = _info(call, state, consumer) | {"reset_seq": reached}
    return answer if asked_identity(call.header) is None else Identified(answer, stream_identity(state.created_ns))


def unpin(call: ApiCall) -> Result:
    """Unpin a priority group's client, so that another is pinned."""
    group = _loose_body(call, CONSUMER_UNPIN_REQUEST).get("group", "")
    if not group:
        raise api_errors.invalid_json("consumer group not specified")
    if consumer_config_rules.GROUP_NAME.fullmatch(group) is None:
        raise api_errors.CONSUMER_GROUP_INVALID.error
    state = call.stream()
    consumer = _known(call, state)
    if group not in consumer.config.priority_groups:
        raise api_errors.CONSUMER_GROUP_UNKNOWN.error
    call.registry.unpin(state, consumer.name, group, now_ns=call.now_ns)
    return {}


def _create(call: ApiCall, named: Naming) -> Result:
    request = call.body(CONSUMER_CREATE_REQUEST)
    call.require_level()
    if request.get("stream_name", "") != call.stream_name:
        raise api_errors.STREAM_MISMATCH.error
    asked = request.get("config", {})
    config = named(past_point.requested(consumer_config_rules.drafted(asked), request.get(AS_OF)))
    if config.num_replicas > 1:
        raise api_errors.REPLICAS_NOT_SUPPORTED.error
    state = call.stream()
    config = consumer_create_rules.for_copy(config, state.config, named=partial(_unique, call, config.name))
    identity = stream_identity(state.created_ns)
    if config.copies and (asked_identity(call.header) or identity) != identity:
        raise api_errors.stream_identity_mismatch(identity)
    known = call.directory.get(state.name, config.name) if config.name else None
    if known is not None:
        config = _kept(config, known.config)
    stream = past_point.stream_read(config, state.config)
    config = consumer_config_rules.with_required_level(config)
    most = call.catalog.account.limits.max_ack_pending
    pedantic = request.get("pedantic", False)
    config = consumer_config_rules.with_defaults(config, stream, pedantic=pedantic, ack_pending_max=most)
    consumer_config_rules.check(config, stream, starts_at_time="opt_start_time" in asked, ack_pending_max=most)
    call.refuse_unanswerable(config_json(config, dynamic=True))
    action = request.get("action", "")
    if known is not None:
        unread = _unread(state, [known])
        shown = unread or _update(call, state, known, config, must_create=action == "create")
    elif action == "update":
        raise api_errors.CONSUMER_DOES_NOT_EXIST.error
    else:
        shown = _create_new(call, state, config)
    return Identified(shown, identity) if config.copies and isinstance(shown, dict) else shown


def _unique(call: ApiCall, name: str) -> str:
    """Return a name that begins with ``name``, and that no consumer of the stream has."""
    seed = call.registry.new_id()
    return f"{name}-" + consumer_create_rules.generated_name(
        seed, lambda one: call.directory.get(call.stream_name, f"{name}-{one}") is not None
    )


def _kept(config: MachineConfig, known: MachineConfig) -> MachineConfig:
    """Return the configuration with what a create request does not change of an existing consumer."""
    config = past_point.kept(replace(config, pause_until=known.pause_until), known)
    if not (config.sourcing and config.is_durable):
        return config
    return replace(
        config,
        deliver_policy=known.deliver_policy,
        opt_start_seq=known.opt_start_seq,
        opt_start_time=known.opt_start_time,
    )


def _update(
    call: ApiCall, state: StreamState, known: ConsumerMachine, config: MachineConfig, *, must_create: bool
) -> dict[str, Any]:
    """Update an existing consumer; nothing changes if the configuration is the same."""
    if must_create and not consumer_create_rules.same_config(config, known.config):
        raise api_errors.CONSUMER_ALREADY_EXISTS.error
    past_point.check_unchanged(known.config, config)
    if state.config.retention == "workqueue" and known.past is None:
        consumer_create_rules.check_unique(config, call.directory.company(state.name))
    config = consumer_create_rules.checked_update(known.config, config, interested=call.registry.interested)
    if config != known.config:
        known = call.registry.update(state, known.name, config, now_ns=call.now_ns, rows=call.rows)
        if config.sourcing:
            call.registry.reset(state, known.name, None, now_ns=call.now_ns, rows=call.rows)
    call.registry.tell_if_paused(state, known.name, now_ns=call.now_ns)
    return _info(call, state, known)


def _create_new(call: ApiCall, state: StreamState, config: MachineConfig) -> dict[str, Any] | AskedView:
    most = call.catalog.account.limits.consumers_of(state.config)
    company = call.directory.company(state.name)
    stream = past_point.stream_read(config, state.config)
    consumer_create_rules.check_new(config, replace(stream, max_consumers=most), company)
    point, view = call.view_of or past_point.point_of(config, call.now_ns), call.view
    if point is not None and view is None:
        call.catalog.require_change()
        return AskedView(state.name, state.stream_id, point)
    if point is not None and view is not None:
        config = past_point.placed(config, point, view.place)
    newest = call.directory.newest(state.name)
    created_ns = max(call.now_ns, newest.created_ns + 1) if newest is not None else call.now_ns
    if not config.name:
        seed = name_seed(state.name, created_ns)
        taken = consumer_create_rules.generated_name(seed, lambda one: call.directory.get(state.name, one) is not None)
        config = replace(config, name=taken)
    config = consumer_create_rules.with_inactivity(config, durable=config.is_durable)
    consumer = call.registry.create(state, config, now_ns=created_ns, rows=call.rows, view=view)
    bound = call.registry.listened_to(config)
    return consumer_info(consumer, now_ns=call.now_ns, push_bound=bound)


def _page(call: ApiCall) -> tuple[StreamState, int]:
    """Return the stream and the offset of the requested page."""
    request = call.optional_body(CONSUMERS_REQUEST) or {}
    return call.stream(), max(request.get("offset", 0), 0)


def _public(call: ApiCall, state: StreamState) -> list[ConsumerMachine]:
    """Return the stream's consumers sorted by name, without the ``direct`` ones, which are for other servers."""
    found = (call.directory.get(state.name, name) for name in call.directory.names(state.name))
    return [consumer for consumer in found if consumer is not None and not consumer.config.direct]


def _known(call: ApiCall, state: StreamState) -> ConsumerMachine:
    consumer = call.directory.get(state.name, call.names[1])
    if consumer is None:
        raise api_errors.CONSUMER_NOT_FOUND.error
    return consumer


def _info(call: ApiCall, state: StreamState, consumer: ConsumerMachine, *, dynamic: bool = True) -> dict[str, Any]:
    """Return a consumer's info object."""
    call.registry.show(state, consumer.name, now_ns=call.now_ns)
    return consumer_info(consumer, now_ns=call.now_ns, dynamic=dynamic)


def _unread(state: StreamState, consumers: Sequence[ConsumerMachine]) -> AskedView | None:
    """Return that the reply waits for past states of these consumers, None if all are read."""
    unread = any(not one.view.is_open for one in consumers)
    return AskedView(state.name, state.stream_id, None) if unread else None


def _loose_body(call: ApiCall, shape: Struct) -> Decoded:
    try:
        return unmarshal(call.payload, shape)
    except JsonError as error:
        raise api_errors.invalid_json(str(error)) from None
