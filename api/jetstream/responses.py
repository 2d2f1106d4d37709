"""The replies of the JetStream API: envelopes, and objects in nats-server's field order."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conf.limits import API_LEVEL, DELETED_DETAILS_MAX, LINK_PAYLOAD_BYTES_MAX
from delta_store.config import server_metadata
from delta_store.config.api_errors import MESSAGE_TOO_LARGE, NO_MESSAGE_FOUND, ApiRefusal
from delta_store.config.field_tags import show_fields
from delta_store.config.stream_config import StreamConfig
from delta_store.dialect.json_writer import write_json
from delta_store.dialect.times import format_time
from delta_store.streams.catalog import Catalog
from delta_store.streams.stream_state import StreamState
from delta_store.values.stream_message import StreamMessage

Json = dict[str, Any]

TYPE_PREFIX = "io.nats.jetstream.api.v1."


@dataclass(slots=True)
class ApiAccount:
    """The API's own data: server name, counters of requests, limit of replies."""

    server_name: str = "silt"
    api_total: int = 0
    api_errors: int = 0
    reply_bytes_max: int = LINK_PAYLOAD_BYTES_MAX
    """Most bytes of a reply: the hub's limit for one message."""
    horizon_seconds: float = 0.0
    """How long the past of streams that don't say it is kept."""
    settling: Callable[[], Mapping[str, Any]] = dict
    """Returns the state of settling, for ``silt stream report``."""


def success(kind: str, body: Mapping[str, Any]) -> bytes:
    """Return a success reply; ``kind`` is the last part of its type, like ``stream_info_response``."""
    return write_json({"type": TYPE_PREFIX + kind, **body})


def failure(kind: str, error: ApiRefusal, body: Mapping[str, Any]) -> bytes:
    """Return an error reply; ``body`` has the fields that nats-server prints even then."""
    return write_json({"type": TYPE_PREFIX + kind, "error": error.as_json(), **body})


def with_dynamic_metadata(config: StreamConfig) -> Json:
    """Return the configuration with the server's version and API level, as in replies on one stream."""
    return show_fields(config, metadata=server_metadata.shown(config.metadata))


def state_json(
    state: StreamState,
    *,
    consumers: int = 0,
    subjects: Mapping[str, int] | None = None,
    deleted_max: int = 0,
) -> Json:
    """Return the ``state`` object of a stream with so many consumers.

    ``subjects`` are the requested counts, ``deleted_max`` is the most deleted sequences to list.
    """
    index = state.index
    shown: Json = {
        "messages": index.msgs,
        "bytes": index.bytes,
        "first_seq": index.first_seq,
        "first_ts": format_time(index.first_ts or None),
        "last_seq": index.last_seq,
        "last_ts": format_time(index.last_ts or None),
    }
    if index.num_subjects:
        shown["num_subjects"] = index.num_subjects
    if subjects:
        shown["subjects"] = dict(sorted(subjects.items()))
    if index.num_deleted:
        shown["num_deleted"] = index.num_deleted
        if deleted_max:
            shown["deleted"] = index.deleted(limit=min(deleted_max, DELETED_DETAILS_MAX))
    return shown | {"consumer_count": consumers}


def stream_info(config: Json, state: StreamState, shown_state: Json, *, now_ns: int, extra: Mapping[str, Any]) -> Json:
    """Return a stream's info object; ``extra`` (domain, cluster, sources) goes between its state and its time."""
    return {
        "config": config,
        "created": format_time(state.created_ns),
        "state": shown_state,
        **extra,
        "ts": format_time(now_ns),
    }


def msg_get_reply(message: StreamMessage | None, *, no_hdr: bool = False, most: int = LINK_PAYLOAD_BYTES_MAX) -> bytes:
    """Return the reply of STREAM.MSG.GET, of at most ``most`` bytes; None is a message that does not exist."""
    kind = "stream_msg_get_response"
    if message is None:
        return failure(kind, NO_MESSAGE_FOUND.error, {})
    reply = success(kind, {"message": message_json(message, no_hdr=no_hdr)})
    return reply if len(reply) <= most else failure(kind, MESSAGE_TOO_LARGE.error, {})


def message_json(message: StreamMessage, *, no_hdr: bool = False) -> Json:
    """Return a message as in the reply of STREAM.MSG.GET."""
    shown: Json = {"subject": message.subject, "seq": message.seq}
    if message.headers and not no_hdr:
        shown["hdrs"] = b64encode(message.headers).decode()
    if message.data:
        shown["data"] = b64encode(message.data).decode()
    return shown | {"time": format_time(message.ts_ns)}


def account_stats(catalog: Catalog, account: ApiAccount, *, consumers: int = 0) -> Json:
    """Return the account info object: streams, bytes used and reserved, limits, and the API's counters."""
    used = {"memory": 0, "file": 0}
    reserved = {"memory": 0, "file": 0}
    for state in catalog.streams.values():
        used[state.config.storage] += state.index.bytes
        reserved[state.config.storage] += max(0, state.config.max_bytes)
    shown: Json = {
        "memory": used["memory"],
        "storage": used["file"],
        "reserved_memory": reserved["memory"],
        "reserved_storage": reserved["file"],
        "streams": len(catalog.streams),
        "consumers": consumers,
        "limits": catalog.account.limits.as_json(),
    }
    if catalog.domain:
        shown["domain"] = catalog.domain
    return shown | {"api": {"level": API_LEVEL, "total": account.api_total, "errors": account.api_errors}}
