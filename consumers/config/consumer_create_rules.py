"""What a create request means beside what is there: names, updates, other consumers. nats-server 2.15's rules. Pure."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from conf.limits import CONSUMER_NAME_CHARS_MAX, SUBJECT_STEPS_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import INACTIVE_DEFAULT_NS, REQUIRED_LEVEL_KEY
from delta_store.config import api_errors as errors
from delta_store.config.stream_config import StreamConfig
from delta_store.config.subject_overlaps import comparing
from delta_store.values.subject_relations import SubjectTrie

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME_CHARS: Final = 8
_NAME_TRIES: Final = 4
_FIXED_FIRST: Final = (
    ("deliver_policy", "deliver policy"),
    ("mem_storage", "storage type"),
    ("direct", "direct"),
    ("opt_start_seq", "start sequence"),
    ("opt_start_time", "start time"),
    ("ack_policy", "ack policy"),
    ("replay_policy", "replay policy"),
    ("idle_heartbeat", "heart beats"),
    ("flow_control", "flow control"),
)
"""Fields that an update may not change, and what nats-server calls them."""


class Company:
    """The consumers of one stream, as far as they decide which others it takes."""

    __slots__ = ("count", "filters", "public")

    def __init__(self) -> None:
        self.count = 0
        self.public = 0
        """How many there are beside those that are for other servers only."""
        self.filters: SubjectTrie[str] = SubjectTrie()
        """Of a work queue: what each of the public ones takes, by their names."""

    def join(self, config: MachineConfig, stream: StreamConfig) -> None:
        """A consumer has come, or has this configuration now."""
        self.count += 1
        self.public += not config.direct
        for one in _claimed(config, stream):
            self.filters.add(one, config.name)

    def leave(self, config: MachineConfig, stream: StreamConfig) -> None:
        """A consumer goes, or has this configuration no more."""
        self.count -= 1
        self.public -= not config.direct
        for one in _claimed(config, stream):
            self.filters.discard(one, config.name)


def _claimed(config: MachineConfig, stream: StreamConfig) -> tuple[str, ...]:
    """What no other consumer may take, too."""
    return (config.filters or (">",)) if stream.retention == "workqueue" and not config.direct else ()


def named_by_subject(config: MachineConfig, name: str, subject_filter: str) -> MachineConfig:
    """The configuration of a request to ``CONSUMER.CREATE.<stream>.<name>[.<filter>]``."""
    _check_path(name)
    if config.durable_name and config.durable_name != name:
        raise errors.CONSUMER_DURABLE_NAME_MISMATCH.error
    if subject_filter and config.filter_subjects:
        raise errors.CONSUMER_MULTIPLE_FILTERS_IN_SUBJECT.error
    if subject_filter and config.filter_subject != subject_filter:
        raise errors.CONSUMER_FILTER_MISMATCH.error
    return replace(config, name=name)


def named_durable(config: MachineConfig, name: str) -> MachineConfig:
    """The configuration of a request to ``CONSUMER.DURABLE.CREATE.<stream>.<name>``."""
    _check_path(name)
    if not config.durable_name:
        raise errors.CONSUMER_DURABLE_NAME_NOT_SET.error
    if config.durable_name != name:
        raise errors.CONSUMER_DURABLE_NAME_MISMATCH.error
    return replace(config, name=name)


def named_by_request(config: MachineConfig) -> MachineConfig:
    """The configuration of a request to ``CONSUMER.CREATE.<stream>``, which may leave the name to the server."""
    _check_path(config.name)
    if config.durable_name:
        raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.error
    return config


def generated_name(seed: str, taken: Callable[[str], bool]) -> str:
    """A name for a consumer that was given none; ``seed`` must not be used for two consumers of a stream."""
    for name in _names_of(seed):
        if not taken(name):
            return name
    raise errors.consumer_create_failed("no free consumer name")


def is_generated(name: str, seed: str) -> bool:
    """Whether the name came from :func:`generated_name` with this seed."""
    return len(name) == _NAME_CHARS and name in _names_of(seed)


def _names_of(seed: str) -> list[str]:
    digests = [hashlib.sha256(f"{seed} {number}".encode()).digest() for number in range(_NAME_TRIES)]
    return ["".join(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_NAME_CHARS]) for digest in digests]


def check_new(config: MachineConfig, stream: StreamConfig, company: Company) -> None:
    """Whether the stream takes another consumer beside those that it has."""
    count = company.public
    if not config.direct and 0 < stream.max_consumers <= count:
        raise errors.CONSUMERS_MAX.error
    if stream.retention == "workqueue" and not config.direct:
        if config.ack_policy not in {"explicit", "flow_control"}:
            raise errors.WORKQUEUE_REQUIRES_EXPLICIT_ACK.error
        if config.deliver_policy != "all":
            raise errors.WORKQUEUE_REQUIRES_DELIVER_ALL.error
        if count and not config.filters:
            raise errors.WORKQUEUE_MULTIPLE_UNFILTERED.error
        check_unique(config, company)
    size = len(config.name.encode())
    if size > CONSUMER_NAME_CHARS_MAX and config.is_durable:
        raise errors.consumer_name_too_long(CONSUMER_NAME_CHARS_MAX)
    if size > CONSUMER_NAME_CHARS_MAX and not config.direct:
        raise errors.consumer_create_failed("error creating store for consumer")


def check_unique(config: MachineConfig, company: Company) -> None:
    """On a workqueue stream no message may be wanted by two consumers."""
    wanted = SubjectTrie(((one, config.name) for one in config.filters), steps_max=SUBJECT_STEPS_MAX)
    with comparing():
        if next(wanted.pairs(company.filters), None) is not None:
            raise errors.WORKQUEUE_CONSUMER_NOT_UNIQUE.error


def with_inactivity(config: MachineConfig, *, durable: bool) -> MachineConfig:
    """A consumer that is not durable goes when it is not used for five seconds, unless it says for how long."""
    if durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=INACTIVE_DEFAULT_NS)


def same_config(one: MachineConfig, other: MachineConfig) -> bool:
    """Whether a request that must create asks for the consumer that is there."""
    return replace(one, metadata=_own(one)) == replace(other, metadata=_own(other))


def checked_update(
    before: MachineConfig, after: MachineConfig, *, interested: Callable[[bytes], bool]
) -> MachineConfig:
    """The configuration that an update leads to; raises :class:`ApiError` for what may not change."""
    if before == after:
        return after
    for name, shown in _FIXED_FIRST:
        if getattr(before, name) != getattr(after, name):
            raise errors.consumer_create_failed(f"{shown} can not be updated")
    if before.deliver_subject != after.deliver_subject:
        if not before.is_push:
            raise errors.consumer_create_failed("can not update pull consumer to push based")
        if not after.is_push:
            raise errors.consumer_create_failed("can not update push consumer to pull based")
        if interested(before.deliver_subject.encode()):
            raise errors.CONSUMER_NAME_EXISTS.error
    if before.max_waiting != after.max_waiting:
        raise errors.consumer_create_failed("max waiting can not be updated")
    if before.inactive_threshold != after.inactive_threshold:
        after = with_inactivity(after, durable=before.is_durable)
    return after


def _check_path(name: str) -> None:
    if "/" in name or "\\" in name:
        raise errors.CONSUMER_NAME_WITH_PATH_SEPARATORS.error


def _own(config: MachineConfig) -> dict[str, str]:
    return {key: value for key, value in config.metadata.items() if key != REQUIRED_LEVEL_KEY}
