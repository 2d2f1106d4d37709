"""The endpoints of the API by subject, and the way from a request to its reply.

``$JS.API.>`` is served, and ``$JS.<domain>.API.>`` for the catalog's domain. A subject without an endpoint gets no
reply, as from nats-server; Direct Get and CONSUMER.MSG.NEXT are served elsewhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from api.jetstream import (
    account_api,
    backup_api,
    branch_api,
    consumer_api,
    consumer_restore,
    cut_api,
    diff_api,
    message_api,
    multi_last_api,
    stream_api,
)
from api.jetstream.api_call import (
    ApiCall,
    ApiRequest,
    AskedView,
    Identified,
    NeedMessage,
    NeedPast,
    OfPast,
    Promised,
    Result,
    Silence,
    Started,
    StartedReply,
    Told,
    Uncounted,
    ViewWork,
)
from api.jetstream.responses import ApiAccount, failure, success
from consumers.engine.consumer_registry import ConsumerRegistry
from consumers.machine.past_view import PastView
from delta_store.config.api_errors import MESSAGE_TOO_LARGE, ApiRefusal, unavailable
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_identity import identity_block
from delta_store.values.records import RowColumns

Handler = Callable[[ApiCall], Result]


class HeadedReply(NamedTuple):
    """A reply with a header block."""

    reply: bytes
    header: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint: the type of its replies, its handler, and the fields of an error reply beside the error."""

    kind: str
    handler: Handler
    beside_error: Mapping[str, Any] = field(default_factory=dict)
    level_first: bool = True
    """Whether the API level is checked first."""
    counted: bool = True
    """Whether requests count in the account's info."""
    paged: bool = False
    """Whether a call with a smaller page returns fewer entries, and none changes anything."""


_PAGE = {"total": 0, "offset": 0, "limit": 0}
_STREAMS = {**_PAGE, "streams": []}
_CONSUMERS = {**_PAGE, "consumers": []}


def _cluster(kind: str) -> Endpoint:
    return Endpoint(kind, stream_api.needs_cluster, level_first=False)


ENDPOINTS: dict[str, Endpoint] = {
    "INFO": Endpoint("account_info_response", account_api.info),
    "SETTLING": Endpoint("settling_response", account_api.settling, level_first=False, counted=False),
    "STREAM.CREATE.*": Endpoint("stream_create_response", stream_api.create),
    "STREAM.UPDATE.*": Endpoint("stream_update_response", stream_api.update),
    "STREAM.DELETE.*": Endpoint("stream_delete_response", stream_api.delete),
    "STREAM.PURGE.*": Endpoint("stream_purge_response", stream_api.purge, {"purged": 0}),
    "STREAM.INFO.*": Endpoint("stream_info_response", stream_api.info, _PAGE, paged=True),
    "STREAM.NAMES": Endpoint("stream_names_response", stream_api.names, _STREAMS, paged=True),
    "STREAM.LIST": Endpoint("stream_list_response", stream_api.listing, _STREAMS, paged=True),
    "STREAM.DIFF.*": Endpoint("stream_diff_response", diff_api.diff, _PAGE, paged=True),
    "STREAM.HISTORY.*": Endpoint("stream_history_response", diff_api.history),
    "STREAM.VERSIONS.*": Endpoint("stream_versions_response", diff_api.versions, paged=True),
    "STREAM.MULTI_LAST": Endpoint(
        "stream_multi_last_response", multi_last_api.multi_last, {"messages": []}, level_first=False, paged=True
    ),
    "STREAM.MSG.GET.*": Endpoint("stream_msg_get_response", message_api.get),
    "STREAM.MSG.DELETE.*": Endpoint("stream_msg_delete_response", message_api.delete),
    "STREAM.SNAPSHOT.*": Endpoint("stream_snapshot_response", backup_api.snapshot),
    "STREAM.RESTORE.*": Endpoint("stream_restore_response", backup_api.restore, {"deliver_subject": ""}),
    "STREAM.BRANCH.*": Endpoint("stream_branch_response", branch_api.branch, level_first=False),
    "STREAM.REWIND.*": Endpoint("stream_rewind_response", branch_api.rewind, level_first=False),
    "STREAM.UNDELETE.*": Endpoint("stream_undelete_response", branch_api.undelete, level_first=False),
    "CUT.CREATE.*": Endpoint("cut_create_response", cut_api.create, level_first=False),
    "CUT.LIST": Endpoint("cut_list_response", cut_api.listing, {**_PAGE, "cuts": []}, level_first=False, paged=True),
    "CUT.DELETE.*": Endpoint("cut_delete_response", cut_api.delete, level_first=False),
    "STREAM.PEER.REMOVE.*": _cluster("stream_remove_peer_response"),
    "STREAM.PEER.EVACUATE.*": _cluster("stream_evacuate_peer_response"),
    "STREAM.LEADER.STEPDOWN.*": _cluster("stream_leader_stepdown_response"),
    "STREAM.CANCEL_MOVE.*": _cluster("stream_cancel_move_response"),
    "CONSUMER.CREATE.*": Endpoint("consumer_create_response", consumer_api.create, level_first=False),
    "CONSUMER.CREATE.*.>": Endpoint("consumer_create_response", consumer_api.create, level_first=False),
    "CONSUMER.DURABLE.CREATE.*.*": Endpoint("consumer_create_response", consumer_api.create_durable, level_first=False),
    "CONSUMER.NAMES.*": Endpoint("consumer_names_response", consumer_api.names, _CONSUMERS, paged=True),
    "CONSUMER.LIST.*": Endpoint("consumer_list_response", consumer_api.listing, _CONSUMERS, paged=True),
    "CONSUMER.INFO.*.*": Endpoint("consumer_info_response", consumer_api.info, level_first=False),
    "CONSUMER.DELETE.*.*": Endpoint("consumer_delete_response", consumer_api.delete),
    "CONSUMER.PAUSE.*.*": Endpoint(
        "consumer_pause_response",
        consumer_api.pause,
        {"paused": False, "pause_until": "0001-01-01T00:00:00Z"},
        level_first=False,
    ),
    "CONSUMER.RESET.*.*": Endpoint(
        "consumer_reset_response", consumer_api.reset, {"reset_seq": 0}, level_first=False, counted=False
    ),
    "CONSUMER.RESTORE.*.*": Endpoint("consumer_restore_response", consumer_restore.restore, level_first=False),
    "CONSUMER.UNPIN.*.*": Endpoint("consumer_unpin_response", consumer_api.unpin),
    "CONSUMER.LEADER.STEPDOWN.*.*": _cluster("consumer_leader_stepdown_response"),
    "CONSUMER.PEER.REMOVE.*.*": _cluster("consumer_remove_peer_response"),
    "CONSUMER.PEER.EVACUATE.*.*": _cluster("consumer_evacuate_peer_response"),
}
"""Subject behind ``$JS.API.`` → endpoint."""


def dispatch(
    catalog: Catalog,
    request: ApiRequest,
    *,
    now_ns: int,
    rows: RowColumns,
    account: ApiAccount,
    consumers: ConsumerRegistry | None = None,
) -> bytes | NeedMessage | NeedPast | StartedReply | HeadedReply | None:
    """Handle a request: return the reply, also one that begins a transfer, what it needs to be read, or None for none.

    Changes to streams are made in ``catalog`` and appended to ``rows`` at once; the caller sends the reply only when
    these rows are durable. ``account``'s counters are incremented.
    """
    found = _find(request.subject, catalog.domain)
    if found is None:
        return None
    endpoint, names = found
    call = ApiCall(catalog, account, names, request.header, request.payload, now_ns, rows, consumers)
    try:
        if endpoint.level_first:
            call.require_level()
        result, reply = _within(endpoint, call)
    except ApiRefusal as error:
        account.api_total += endpoint.counted
        account.api_errors += endpoint.counted
        return failure(endpoint.kind, error, endpoint.beside_error)
    if isinstance(result, Silence):
        return None
    if isinstance(result, NeedMessage | OfPast | AskedView):
        return _needed(endpoint, call, result)
    account.api_total += endpoint.counted
    if isinstance(result, Uncounted):
        return failure(endpoint.kind, result.error, endpoint.beside_error)
    return _completed(result, reply)


def _completed(result: Result, reply: bytes) -> bytes | StartedReply | HeadedReply:
    """Return a success reply with what belongs to it."""
    if isinstance(result, Identified):
        return HeadedReply(reply, identity_block(result.identity))
    return StartedReply(reply, result.work) if isinstance(result, Started | Promised) else reply


def refusal(subject: bytes, domain: str, why: str) -> bytes | None:
    """Return the reply to any request while the store is unavailable; None for a subject without an endpoint."""
    found = _find(subject, domain)
    return None if found is None else failure(found[0].kind, unavailable(why), found[0].beside_error)


def _needed(
    endpoint: Endpoint, call: ApiCall, result: NeedMessage | OfPast | AskedView
) -> NeedMessage | NeedPast | StartedReply:
    """Return what a request's reply needs to be read."""
    if isinstance(result, NeedMessage):
        return result
    if isinstance(result, AskedView):
        return StartedReply(b"", _awaiting(endpoint, call, result))
    return _need_past(endpoint, call, result)


def _need_past(endpoint: Endpoint, call: ApiCall, asked: OfPast) -> NeedPast:
    refused = partial(failure, endpoint.kind, body=endpoint.beside_error)
    return NeedPast(asked, partial(_of_past, endpoint, call), refused)


def _awaiting(endpoint: Endpoint, call: ApiCall, asked: AskedView) -> ViewWork:
    refused = partial(failure, endpoint.kind, body=endpoint.beside_error)
    return ViewWork(asked, partial(_viewed, endpoint, replace(call, view_of=asked.new)), refused)


def _viewed(
    endpoint: Endpoint, call: ApiCall, view: PastView | None, now_ns: int, rows: RowColumns
) -> bytes | ViewWork:
    """Return what answers a request whose past states have been read: the reply, or that it waits for others."""
    call = replace(call, view=view, now_ns=now_ns, rows=rows)
    try:
        result, reply = _within(endpoint, call)
    except ApiRefusal as error:
        call.account.api_errors += endpoint.counted
        return failure(endpoint.kind, error, endpoint.beside_error)
    if isinstance(result, AskedView):
        return _awaiting(endpoint, call, result)
    call.account.api_total += endpoint.counted
    return reply


def _of_past(endpoint: Endpoint, call: ApiCall, told: Told) -> bytes | NeedMessage | StartedReply:
    """Return what answers a request by what was read of the past: the reply, or the message to reply with."""
    try:
        result, reply = _within(endpoint, replace(call, told=told))
    except ApiRefusal as error:
        return failure(endpoint.kind, error, endpoint.beside_error)
    if isinstance(result, Started):
        return StartedReply(reply, result.work)
    return result if isinstance(result, NeedMessage) else reply


def _within(endpoint: Endpoint, call: ApiCall) -> tuple[Result, bytes]:
    """Call the handler; return its result and, of a success, the reply, with as many entries as one message holds."""
    most = call.account.reply_bytes_max
    while True:
        result = endpoint.handler(call)
        fields = result.fields if isinstance(result, Started | Identified) else result
        reply = success(endpoint.kind, fields) if isinstance(fields, dict) else b""
        if len(reply) <= most:
            return result, reply
        if not endpoint.paged or not isinstance(result, dict) or call.page_max == 1:
            raise MESSAGE_TOO_LARGE.error
        entries = min(_entries(result), call.page_max)
        call = replace(call, page_max=max(1, min(entries - 1, entries * most // len(reply))))


def _entries(result: Mapping[str, Any]) -> int:
    """Return the length of the longest list in a reply."""
    inside = [*result.values(), *result.get("state", {}).values()]
    return max((len(one) for one in inside if isinstance(one, list | dict)), default=1)


def _find(subject: bytes, domain: str) -> tuple[Endpoint, tuple[str, ...]] | None:
    """Return a subject's endpoint and the tokens for its wildcards."""
    try:
        tokens = subject.decode().split(".")
    except UnicodeDecodeError:
        return None
    if tokens[:3] == ["$JS", domain, "API"] and domain:
        tokens = tokens[3:]
    elif tokens[:2] == ["$JS", "API"]:
        tokens = tokens[2:]
    else:
        return None
    for size in range(min(len(tokens), 3), 0, -1):
        fixed, names = tokens[:size], tuple(tokens[size:])
        arity = len(names) if len(names) <= 2 and (".".join(fixed), len(names)) in _INDEX else _OPEN
        endpoint = _INDEX.get((".".join(fixed), arity))
        if endpoint is not None and "" not in names and (arity != _OPEN or len(names) >= 2):
            return endpoint, names
    return None


_OPEN = -1
"""Arity of an endpoint whose subject ends in ``>``."""


def _index() -> dict[tuple[str, int], Endpoint]:
    indexed = {}
    for pattern, endpoint in ENDPOINTS.items():
        tokens = pattern.split(".")
        fixed = ".".join(filter(lambda word: word not in "*>", tokens))
        indexed[fixed, _OPEN if tokens[-1] == ">" else tokens.count("*")] = endpoint
    return indexed


_INDEX = _index()
