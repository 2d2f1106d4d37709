"""The validity of a consumer's configuration by itself and for its stream: nats-server 2.15's rules and texts. Pure.

A *request* is the decoded ``config`` of a create request: the fields that are set. The rules run in nats-server's
order, so that a configuration with several faults gets the same error.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from conf.limits import (
    CONSUMER_ACK_PENDING_DEFAULT,
    CONSUMER_DESCRIPTION_BYTES_MAX,
    CONSUMER_METADATA_BYTES_MAX,
    CONSUMER_WAITING_DEFAULT,
)
from consumers.config.consumer_config import MachineConfig
from delta_store.config import api_errors as errors
from delta_store.config import server_metadata
from delta_store.config.field_tags import level_needed, raised_to_least, read_fields
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import ConsumerLimits
from delta_store.config.subject_overlaps import first_covered
from delta_store.dialect.durations import format_duration
from delta_store.dialect.integers import NotAnInteger, atoi
from delta_store.streams.source_rules import is_asset_name
from delta_store.values import subjects

Request = Mapping[str, Any]

ACK_WAIT_DEFAULT_NS: Final = 30_000_000_000
INACTIVE_DEFAULT_NS: Final = 5_000_000_000
PIN_DEFAULT_NS: Final = 120_000_000_000
HEARTBEAT_MIN_NS: Final = 100_000_000
MAX_EXPIRES_MIN_NS: Final = 1_000_000
FLOW_ACK_HEARTBEAT_NS: Final = 1_000_000_000

GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")
_INT_MAX: Final = 2**63 - 1
_NAME_CHARS: Final = r"can not contain '.', '*', '>', '\', '/'"


def drafted(request: Request) -> MachineConfig:
    """Return the requested configuration, with absent fields at Go's zero value."""
    return read_fields(MachineConfig, request, name="", max_deliver=0)


def with_required_level(config: MachineConfig) -> MachineConfig:
    """Return the configuration with the metadata to record."""
    return replace(config, metadata=server_metadata.recorded(config.metadata, required_level(config)))


def required_level(config: MachineConfig) -> int:
    """Return the API level that a server needs to serve the consumer."""
    return level_needed(MachineConfig, partial(getattr, config))


def with_defaults(
    config: MachineConfig, stream: StreamConfig, *, pedantic: bool = False, ack_pending_max: int = -1
) -> MachineConfig:
    """Fill in the defaults; ``pedantic`` refuses values that would be adjusted. Raises ``ApiRefusal``.

    ``ack_pending_max`` is the account's limit, if positive.
    """
    config = replace(config, **raised_to_least(MachineConfig, partial(getattr, config), pedantic=pedantic))
    if not config.is_push and config.max_waiting == 0:
        config = replace(config, max_waiting=CONSUMER_WAITING_DEFAULT)
    config = replace(config, ack_wait=_ack_wait(config, pedantic=pedantic))
    config = _with_stream_limits(config, stream.consumer_limits, pedantic=pedantic)
    if config.max_ack_pending == 0 and config.ack_policy != "none":
        most = ack_pending_max if ack_pending_max > 0 else CONSUMER_ACK_PENDING_DEFAULT
        config = replace(config, max_ack_pending=min(most, CONSUMER_ACK_PENDING_DEFAULT))
    if config.priority_policy == "pinned_client" and config.priority_timeout == 0:
        config = replace(config, priority_timeout=PIN_DEFAULT_NS)
    if config.ack_policy == "flow_control" and not pedantic:
        config = replace(config, flow_control=True, idle_heartbeat=FLOW_ACK_HEARTBEAT_NS)
    return config


def _ack_wait(config: MachineConfig, *, pedantic: bool) -> int:
    """Return the ack wait (ns): the first backoff, if there is one."""
    ack_wait = config.ack_wait
    if ack_wait == 0 and config.ack_policy in {"explicit", "all"}:
        ack_wait = ACK_WAIT_DEFAULT_NS
    if not config.backoff:
        return ack_wait
    if pedantic and ack_wait != config.backoff[0]:
        raise errors.pedantic("first backoff value has to equal batch AckWait")
    return config.backoff[0]


def _with_stream_limits(config: MachineConfig, limits: ConsumerLimits, *, pedantic: bool) -> MachineConfig:
    """Fill in the stream's limits as defaults."""
    if config.max_ack_pending == 0:
        if pedantic and limits.max_ack_pending > 0:
            raise errors.pedantic("max_ack_pending must be set if it's configured in stream limits")
        config = replace(config, max_ack_pending=limits.max_ack_pending)
    if config.inactive_threshold == 0:
        if pedantic and limits.inactive_threshold > 0:
            raise errors.pedantic("inactive_threshold must be set if it's configured in stream limits")
        config = replace(config, inactive_threshold=limits.inactive_threshold)
    return config


def check(config: MachineConfig, stream: StreamConfig, *, starts_at_time: bool, ack_pending_max: int = -1) -> None:
    """Check a configuration; ``starts_at_time``: a start time was given. Raises ``ApiRefusal``.

    ``ack_pending_max`` is the account's limit, if positive.
    """
    _check_names_and_replicas(config, stream)
    _check_ack_times(config)
    if config.ack_policy == "flow_control":
        _check_flow_acks(config)
    if config.backoff and -1 != config.max_deliver < len(config.backoff):
        raise errors.CONSUMER_MAX_DELIVER_BACKOFF.error
    if len(config.description.encode()) > CONSUMER_DESCRIPTION_BYTES_MAX:
        raise errors.consumer_description_too_long(CONSUMER_DESCRIPTION_BYTES_MAX)
    if config.is_push:
        _check_push(config, stream)
    else:
        _check_pull(config, stream)
    _check_stream_limits(config, stream)
    if 0 < ack_pending_max < config.max_ack_pending:
        raise errors.consumer_max_ack_pending_exceeds(ack_pending_max)
    _check_direct(config)
    _check_filters(config)
    _check_start(config, starts_at_time=starts_at_time)
    _check_sampling(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise errors.CONSUMER_FLOW_CONTROL_NEEDS_HEARTBEATS.error
    _check_name_and_metadata(config)
    _check_priority(config)


def _check_direct(config: MachineConfig) -> None:
    if config.direct and not config.is_push:
        raise errors.CONSUMER_DIRECT_REQUIRES_PUSH.error
    if config.direct and config.is_durable:
        raise errors.CONSUMER_DIRECT_REQUIRES_EPHEMERAL.error


def _check_name_and_metadata(config: MachineConfig) -> None:
    if config.durable_name and config.name and config.name != config.durable_name:
        raise errors.CONSUMER_DURABLE_AND_NAME_MISMATCH.error
    if server_metadata.size(config.metadata) > CONSUMER_METADATA_BYTES_MAX:
        raise errors.consumer_metadata_too_long(CONSUMER_METADATA_BYTES_MAX)


def _check_names_and_replicas(config: MachineConfig, stream: StreamConfig) -> None:
    if config.name and not is_asset_name(config.name):
        raise errors.stream_invalid_config(f"consumer name {_NAME_CHARS}")
    if config.durable_name and not is_asset_name(config.durable_name):
        raise errors.stream_invalid_config(f"consumer durable name {_NAME_CHARS}")
    if config.num_replicas > stream.num_replicas:
        raise errors.CONSUMER_REPLICAS_EXCEED_STREAM.error
    if config.num_replicas < 0:
        raise errors.REPLICAS_NEGATIVE.error
    if stream.retention != "limits" and config.num_replicas not in {0, stream.num_replicas}:
        raise errors.CONSUMER_REPLICAS_SHOULD_MATCH.error


def _check_ack_times(config: MachineConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise errors.CONSUMER_BACKOFF_NEGATIVE.error
    if config.ack_wait < 0:
        raise errors.CONSUMER_ACK_WAIT_NEGATIVE.error


def _check_flow_acks(config: MachineConfig) -> None:
    """Check that acks by flow control go with a push consumer, flow control and no redelivery."""
    if not config.is_push:
        raise errors.CONSUMER_FLOW_ACK_REQUIRES_PUSH.error
    if not config.flow_control:
        raise errors.CONSUMER_FLOW_ACK_REQUIRES_FLOW_CONTROL.error
    if config.idle_heartbeat != FLOW_ACK_HEARTBEAT_NS:
        raise errors.stream_invalid_config("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise errors.CONSUMER_FLOW_ACK_REQUIRES_MAX_ACK_PENDING.error
    if config.ack_wait or config.backoff:
        raise errors.CONSUMER_FLOW_ACK_REQUIRES_NO_ACK_WAIT.error
    if config.max_deliver > 0:
        raise errors.CONSUMER_FLOW_ACK_REQUIRES_NO_MAX_DELIVER.error


def _check_push(config: MachineConfig, stream: StreamConfig) -> None:
    if subjects.has_wildcard(config.deliver_subject):
        raise errors.CONSUMER_DELIVER_TO_WILDCARDS.error
    if not subjects.valid(config.deliver_subject):
        raise errors.CONSUMER_DELIVER_SUBJECT_INVALID.error
    if any(subjects.subset(config.deliver_subject, one) for one in stream.subjects):
        raise errors.CONSUMER_DELIVER_CYCLE.error
    if config.max_waiting:
        raise errors.CONSUMER_PUSH_MAX_WAITING.error
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        raise errors.CONSUMER_MAX_PENDING_NEEDS_ACKS.error
    if 0 < config.idle_heartbeat < HEARTBEAT_MIN_NS:
        raise errors.CONSUMER_SMALL_HEARTBEAT.error


def _check_pull(config: MachineConfig, stream: StreamConfig) -> None:
    if config.ack_policy == "none" and stream.retention == "workqueue":
        raise errors.CONSUMER_PULL_REQUIRES_ACK.error
    if config.rate_limit_bps > 0:
        raise errors.CONSUMER_PULL_WITH_RATE_LIMIT.error
    if config.idle_heartbeat > 0:
        raise errors.CONSUMER_HEARTBEAT_REQUIRES_PUSH.error
    if config.flow_control:
        raise errors.CONSUMER_FLOW_CONTROL_REQUIRES_PUSH.error
    if 0 < config.max_expires < MAX_EXPIRES_MIN_NS:
        raise errors.CONSUMER_MAX_EXPIRES_TOO_SMALL.error


def _check_stream_limits(config: MachineConfig, stream: StreamConfig) -> None:
    limits = stream.consumer_limits
    if 0 < limits.max_ack_pending < config.max_ack_pending:
        raise errors.consumer_max_ack_pending_exceeds(limits.max_ack_pending)
    if 0 < limits.inactive_threshold < config.inactive_threshold:
        raise errors.consumer_inactive_threshold_exceeds(format_duration(limits.inactive_threshold))


def _check_filters(config: MachineConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise errors.CONSUMER_DUPLICATE_FILTERS.error
    if config.filter_subject and not subjects.valid(config.filter_subject):
        raise errors.stream_invalid_config("invalid subject")
    if "" in config.filter_subjects:
        raise errors.CONSUMER_EMPTY_FILTER.error
    covered = first_covered(config.filters)
    for place, one in enumerate(config.filters):
        if not subjects.valid(one):
            raise errors.stream_invalid_config("invalid subject")
        if place == covered:
            raise errors.CONSUMER_OVERLAPPING_FILTERS.error


def _check_start(config: MachineConfig, *, starts_at_time: bool) -> None:
    """Check that a start sequence or time is set with its own deliver policy and no other."""
    policy = config.deliver_policy
    shown = policy.replace("_", " ")
    needs = {"by_start_sequence": "start sequence", "by_start_time": "start time"}.get(policy, "")
    given = {"start sequence": config.opt_start_seq > 0, "start time": starts_at_time}
    if needs and not given[needs]:
        raise errors.consumer_invalid_policy(
            f"consumer delivery policy is deliver {shown}, but optional {needs} is not set"
        )
    for what in ("start sequence", "start time"):
        if given[what] and what != needs:
            # nats-server's text has "start start sequence" where a time is required.
            also = f"start {what}" if policy == "by_start_time" else what
            raise errors.consumer_invalid_policy(
                f"consumer delivery policy is deliver {shown}, but optional {also} is also set"
            )
    if policy == "last_per_subject" and not config.filters:
        raise errors.consumer_invalid_policy(
            "consumer delivery policy is deliver last per subject, but optional filter subject is not set"
        )


def _check_sampling(text: str) -> None:
    """Check that sampling is a whole number of percent, with or without the sign."""
    if not text:
        return
    try:
        percent = atoi(text.removesuffix("%"))
    except NotAnInteger as error:
        raise errors.consumer_invalid_sampling(str(error)) from None
    if percent < 0:
        raise errors.consumer_invalid_sampling("<nil>")


def _check_priority(config: MachineConfig) -> None:
    if config.priority_policy == "none":
        if config.priority_groups:
            raise errors.CONSUMER_GROUPS_WITHOUT_POLICY.error
        if config.priority_timeout > 0:
            raise errors.CONSUMER_PIN_TTL_WITHOUT_POLICY.error
        return
    if config.is_push:
        raise errors.CONSUMER_PUSH_WITH_GROUPS.error
    if not config.priority_groups:
        raise errors.CONSUMER_POLICY_WITHOUT_GROUP.error
    for group in config.priority_groups:
        if not group:
            raise errors.CONSUMER_GROUP_EMPTY.error
        if GROUP_NAME.fullmatch(group) is None:
            raise errors.CONSUMER_GROUP_INVALID.error
