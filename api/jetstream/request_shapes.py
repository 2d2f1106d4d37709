"""The shapes of the request bodies, field by field as nats-server 2.15 knows them."""

from dataclasses import dataclass
from typing import Any

from delta_store.dialect.json_reader import written
from delta_store.dialect.json_shapes import (
    ANYTHING,
    DURATION,
    FLAG,
    INT,
    INT32,
    INT64,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIME,
    UINT64,
    Choice,
    ListOf,
    Shape,
    Struct,
)
from delta_store.dialect.json_syntax import JsonError


def _words(*words: str) -> Choice:
    return Choice({word: word for word in words})


@dataclass(frozen=True, slots=True)
class _Word:
    """A word out of a few, whose refusal quotes the rejected value as written."""

    words: tuple[str, ...]
    refusal: str

    def decode(self, value: Any, before: Any) -> Any:  # noqa: ARG002  # a Go type with a decoder of its own: no context
        """Return the word; null is refused."""
        if type(value) is str and value in self.words:
            return value
        raise JsonError(f"{self.refusal}: {written(value)}")


DELIVER_POLICIES = ("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject")
_TRANSFORM = {"src": TEXT, "dest": TEXT}

_SOURCE: dict[str, Shape] = {
    "name": TEXT,
    "opt_start_seq": UINT64,
    "opt_start_time": TIME,
    "filter_subject": TEXT,
    "subject_transforms": ListOf(Struct("SubjectTransformConfig", _TRANSFORM), "[]server.SubjectTransformConfig"),
    "external": Struct("ExternalStream", {"api": TEXT, "deliver": TEXT}, nullable=True),
    "consumer": Struct("StreamConsumerSource", {"name": TEXT, "deliver_subject": TEXT}, nullable=True),
}

STREAM_CONFIG: dict[str, Shape] = {
    "name": TEXT,
    "description": TEXT,
    "subjects": TEXTS,
    "retention": _words("limits", "interest", "workqueue"),
    "max_consumers": INT,
    "max_msgs": INT64,
    "max_bytes": INT64,
    "max_age": DURATION,
    "max_msgs_per_subject": INT64,
    "max_msg_size": INT32,
    "discard": Choice({"old": "old", "new": "new"}, any_case=True),
    "storage": _words("file", "memory"),
    "num_replicas": INT,
    "no_ack": FLAG,
    "duplicate_window": DURATION,
    "placement": Struct("Placement", {"cluster": TEXT, "tags": TEXTS, "preferred": TEXT}, nullable=True),
    "mirror": Struct("StreamSource", _SOURCE, nullable=True),
    "sources": ListOf(Struct("StreamSource", _SOURCE, nullable=True), "[]*server.StreamSource"),
    "compression": Choice({"none": "none", "s2": "s2"}, refusal="unknown compression algorithm"),
    "first_seq": UINT64,
    "subject_transform": Struct("SubjectTransformConfig", _TRANSFORM, nullable=True),
    "republish": Struct("RePublish", {**_TRANSFORM, "headers_only": FLAG}, nullable=True),
    "allow_direct": FLAG,
    "mirror_direct": FLAG,
    "discard_new_per_subject": FLAG,
    "sealed": FLAG,
    "deny_delete": FLAG,
    "deny_purge": FLAG,
    "allow_rollup_hdrs": FLAG,
    "consumer_limits": Struct("StreamConsumerLimits", {"inactive_threshold": DURATION, "max_ack_pending": INT}),
    "allow_msg_ttl": FLAG,
    "subject_delete_marker_ttl": DURATION,
    "allow_msg_counter": FLAG,
    "allow_atomic": FLAG,
    "allow_msg_schedules": FLAG,
    "persist_mode": Choice({"": "", "default": "", "async": "async"}),
    "allow_batched": FLAG,
    "metadata": TEXT_MAP,
}

STREAM_CONFIG_REQUEST = Struct("StreamConfigRequest", {**STREAM_CONFIG, "pedantic": FLAG})
STREAM_NAMES_REQUEST = Struct("JSApiStreamNamesRequest", {"offset": INT, "subject": TEXT})
STREAM_LIST_REQUEST = Struct("JSApiStreamListRequest", {"offset": INT, "subject": TEXT})
STREAM_INFO_REQUEST = Struct(
    "JSApiStreamInfoRequest", {"offset": INT, "deleted_details": FLAG, "subjects_filter": TEXT}
)
STREAM_PURGE_REQUEST = Struct("JSApiStreamPurgeRequest", {"seq": UINT64, "filter": TEXT, "keep": UINT64})
MSG_DELETE_REQUEST = Struct("JSApiMsgDeleteRequest", {"seq": UINT64, "no_erase": FLAG})
MSG_GET_REQUEST = Struct(
    "JSApiMsgGetRequest",
    {
        "seq": UINT64,
        "last_by_subj": TEXT,
        "next_by_subj": TEXT,
        "batch": INT,
        "max_bytes": INT,
        "start_time": TIME,
        "multi_last": TEXTS,
        "up_to_seq": UINT64,
        "up_to_time": TIME,
        "no_hdr": FLAG,
    },
)
SNAPSHOT_REQUEST = Struct(
    "JSApiStreamSnapshotRequest",
    {"deliver_subject": TEXT, "no_consumers": FLAG, "chunk_size": INT, "window_size": INT, "jsck": FLAG},
)
RESTORE_REQUEST = Struct(
    "JSApiStreamRestoreRequest",
    {"config": Struct("StreamConfig", STREAM_CONFIG), "state": ANYTHING},
)

CONSUMER_CONFIG: dict[str, Shape] = {
    "durable_name": TEXT,
    "name": TEXT,
    "description": TEXT,
    "deliver_policy": Choice(
        {word: "all" if word == "undefined" else word for word in ("undefined", *DELIVER_POLICIES)}
    ),
    "opt_start_seq": UINT64,
    "opt_start_time": TIME,
    "ack_policy": _words("none", "all", "explicit", "flow_control"),
    "ack_wait": DURATION,
    "max_deliver": INT,
    "backoff": ListOf(DURATION, "[]time.Duration"),
    "filter_subject": TEXT,
    "filter_subjects": TEXTS,
    "replay_policy": _words("instant", "original"),
    "rate_limit_bps": UINT64,
    "sample_freq": TEXT,
    "max_waiting": INT,
    "max_ack_pending": INT,
    "flow_control": FLAG,
    "headers_only": FLAG,
    "max_batch": INT,
    "max_expires": DURATION,
    "max_bytes": INT,
    "deliver_subject": TEXT,
    "deliver_group": TEXT,
    "idle_heartbeat": DURATION,
    "inactive_threshold": DURATION,
    "num_replicas": INT,
    "mem_storage": FLAG,
    "direct": FLAG,
    "sourcing": FLAG,
    "metadata": TEXT_MAP,
    "pause_until": TIME,
    "priority_groups": TEXTS,
    "priority_policy": _Word(("none", "overflow", "pinned_client", "prioritized"), "unknown priority policy"),
    "priority_timeout": DURATION,
}

CONSUMER_CREATE_REQUEST = Struct(
    "CreateConsumerRequest",
    {
        "stream_name": TEXT,
        "config": Struct("ConsumerConfig", CONSUMER_CONFIG),
        "action": _Word(("", "create", "update"), "unknown consumer action"),
        "pedantic": FLAG,
    },
)
CONSUMERS_REQUEST = Struct("JSApiConsumersRequest", {"offset": INT})
CONSUMER_PAUSE_REQUEST = Struct("JSApiConsumerPauseRequest", {"pause_until": TIME})
CONSUMER_RESET_REQUEST = Struct("JSApiConsumerResetRequest", {"seq": UINT64}, is_open=True)
CONSUMER_UNPIN_REQUEST = Struct("JSApiConsumerUnpinRequest", {"group": TEXT}, is_open=True)
