"""Consumers: this release has none, and says so honestly on each of their endpoints."""

import re

from api.api_call import ApiCall, Result
from api.request_shapes import (
    CONSUMER_CREATE_REQUEST,
    CONSUMER_PAUSE_REQUEST,
    CONSUMER_UNPIN_REQUEST,
    CONSUMERS_REQUEST,
)
from conf.limits import LIST_PAGE, NAMES_PAGE
from delta_store import api_errors
from delta_store.api_errors import ApiError

_GROUP = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def create(call: ApiCall) -> Result:
    """Refused, as far as nats-server would not refuse it before: the configuration itself is not looked at."""
    request = call.body(CONSUMER_CREATE_REQUEST)
    call.require_level()
    if request.get("stream_name", "") != call.stream_name:
        raise api_errors.STREAM_MISMATCH.error
    call.stream()
    raise ApiError(400, 10003, "bad request: consumers are not supported by Silt yet")


def names(call: ApiCall) -> Result:
    """An empty page."""
    return _empty_page(call, NAMES_PAGE)


def listing(call: ApiCall) -> Result:
    """An empty page."""
    return _empty_page(call, LIST_PAGE)


def info(call: ApiCall) -> Result:
    """No consumer is found."""
    call.refuse_body()
    call.require_level()
    return _not_found(call)


def delete(call: ApiCall) -> Result:
    """No consumer is found."""
    call.refuse_body()
    return _not_found(call)


def pause(call: ApiCall) -> Result:
    """No consumer is found."""
    call.optional_body(CONSUMER_PAUSE_REQUEST)
    call.require_level()
    return _not_found(call)


def unpin(call: ApiCall) -> Result:
    """No consumer is found."""
    group = call.body(CONSUMER_UNPIN_REQUEST).get("group", "")
    if not group:
        raise api_errors.invalid_json("consumer group not specified")
    if _GROUP.fullmatch(group) is None:
        raise api_errors.CONSUMER_GROUP_INVALID.error
    return _not_found(call)


def _empty_page(call: ApiCall, limit: int) -> Result:
    call.optional_body(CONSUMERS_REQUEST)
    call.stream()
    return {"total": 0, "offset": 0, "limit": limit, "consumers": []}


def _not_found(call: ApiCall) -> Result:
    call.stream()
    raise api_errors.CONSUMER_NOT_FOUND.error
