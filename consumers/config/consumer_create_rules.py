"""A create request beside existing consumers: names, updates, work queues. nats-server 2.15's rules. Pure."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from conf.limits import CONSUMER_NAME_CHARS_MAX, SUBJECT_STEPS_MAX
from consumers.config.consumer_config import MachineConfig
from consumers.config.consumer_config_rules import INACTIVE_DEFAULT_NS
from consumers.config.past_point import place_of
from delta_store.config import api_errors as errors
from delta_store.config.field_tags import check_changes
from delta_store.config.server_metadata import own
from delta_store.config.stream_config import StreamConfig
from delta_store.config.subject_overlaps import comparing
from delta_store.values.subject_relations import SubjectTrie

_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAME_CHARS: Final = 8
_NAME_TRIES: Final = 4


class Company:
    """The counts and filters of one stream's consumers, which decide whether it takes another."""

    __slots__ = ("claims", "count", "filters", "public")

    def __init__(self) -> None:
        self.count = 0
        self.public = 0
        """Number without those for copies of other servers."""
        self.claims = 0
        """For a work queue: the number of :attr:`filters`."""
        self.filters: SubjectTrie[str] = SubjectTrie()
        """For a work queue: the filters of its public consumers, with their names."""

    def join(self, config: MachineConfig, stream: StreamConfig) -> None:
        """Count a consumer with this configuration in."""
        self.count += 1
        self.public += not config.copies
        for one in _claimed(config, stream):
            self.claims += 1
            self.filters.add(one, config.name)

    def leave(self, config: MachineConfig, stream: StreamConfig) -> None:
        """Count a consumer with this configuration out."""
        self.count -= 1
        self.public -= not config.copies
        for one in _claimed(config, stream):
            self.claims -= 1
            self.filters.discard(one, config.name)


def _claimed(config: MachineConfig, stream: StreamConfig) -> tuple[str, ...]:
    """Return the filters that no other consumer may overlap."""
    claims = stream.retention == "workqueue" and not config.copies and place_of(config.metadata) is None
    return (config.filters or (">",)) if claims else ()


def named_by_subject(config: MachineConfig, name: str, subject_filter: str) -> MachineConfig:
    """Return the configuration of a request to ``CONSUMER.CREATE.<stream>.<name>[.<filter>]``; raises ApiRefusal."""
    _check_path(name)
    if config.durable_name and config.durable_name != name:
        raise errors.CONSUMER_DURABLE_NAME_MISMATCH.error
    if subject_filter and config.filter_subjects:
        raise errors.CONSUMER_MULTIPLE_FILTERS_IN_SUBJECT.error
    if subject_filter and config.filter_subject != subject_filter:
        raise errors.CONSUMER_FILTER_MISMATCH.error
    return replace(config, name=name)


def named_durable(config: MachineConfig, name: str) -> MachineConfig:
    """Return the configuration of a request to ``CONSUMER.DURABLE.CREATE.<stream>.<name>``; raises ApiRefusal."""
    _check_path(name)
    if not config.durable_name:
        raise errors.CONSUMER_DURABLE_NAME_NOT_SET.error
    if config.durable_name != name:
        raise errors.CONSUMER_DURABLE_NAME_MISMATCH.error
    return replace(config, name=name)


def named_by_request(config: MachineConfig) -> MachineConfig:
    """Return the configuration of a request to ``CONSUMER.CREATE.<stream>``, which may have no name."""
    _check_path(config.name)
    if config.durable_name:
        raise errors.CONSUMER_EPHEMERAL_WITH_DURABLE_NAME.error
    return config


def for_copy(config: MachineConfig, stream: StreamConfig, *, named: Callable[[], str]) -> MachineConfig:
    """Return the configuration of a consumer that another server asks for to copy the stream.

    A stream whose messages wait for consumers gets a durable one, which goes on where the copy acknowledged; any other
    a new one for each request, of the name that ``named`` returns (server/jetstream_api.go, jsConsumerCreateRequest).
    """
    if not (config.direct and config.sourcing and config.name):
        return config
    if stream.retention == "limits":
        return replace(config, name=named())
    durable = replace(config, direct=False, durable_name=config.name, ack_policy="flow_control")
    return replace(durable, ack_wait=0, max_deliver=0, inactive_threshold=0)


def generated_name(seed: str, taken: Callable[[str], bool]) -> str:
    """Return a name for a consumer without one; ``seed`` must be unique among the stream's consumers."""
    for name in _names_of(seed):
        if not taken(name):
            return name
    raise errors.consumer_create_failed("no free consumer name")


def is_generated(name: str, seed: str) -> bool:
    """Whether :func:`generated_name` made the name from this seed."""
    return len(name) == _NAME_CHARS and name in _names_of(seed)


def _names_of(seed: str) -> list[str]:
    digests = [hashlib.sha256(f"{seed} {number}".encode()).digest() for number in range(_NAME_TRIES)]
    return ["".join(_DIGITS[byte % len(_DIGITS)] for byte in digest[:_NAME_CHARS]) for digest in digests]


def check_new(config: MachineConfig, stream: StreamConfig, company: Company) -> None:
    """Check that the stream may have another consumer. Raises ``ApiRefusal``."""
    count = company.public
    if not config.copies and 0 < stream.max_consumers <= count:
        raise errors.CONSUMERS_MAX.error
    if stream.retention == "workqueue" and not config.copies:
        if config.ack_policy not in {"explicit", "flow_control"}:
            raise errors.WORKQUEUE_REQUIRES_EXPLICIT_ACK.error
        if config.deliver_policy != "all":
            raise errors.WORKQUEUE_REQUIRES_DELIVER_ALL.error
        if company.claims and not config.filters:
            raise errors.WORKQUEUE_MULTIPLE_UNFILTERED.error
        check_unique(config, company)
    size = len(config.name.encode())
    if size > CONSUMER_NAME_CHARS_MAX and config.is_durable:
        raise errors.consumer_name_too_long(CONSUMER_NAME_CHARS_MAX)
    if size > CONSUMER_NAME_CHARS_MAX and not config.direct:
        raise errors.consumer_create_failed("error creating store for consumer")


def check_unique(config: MachineConfig, company: Company) -> None:
    """Check that no other consumer of a work queue wants the same messages. Raises ``ApiRefusal``."""
    wanted = SubjectTrie(((one, config.name) for one in config.filters), steps_max=SUBJECT_STEPS_MAX)
    with comparing():
        if next(wanted.pairs(company.filters), None) is not None:
            raise errors.WORKQUEUE_CONSUMER_NOT_UNIQUE.error


def with_inactivity(config: MachineConfig, *, durable: bool) -> MachineConfig:
    """Fill in the inactive threshold of a consumer that is not durable: five seconds by default."""
    if durable or config.inactive_threshold > 0:
        return config
    return replace(config, inactive_threshold=INACTIVE_DEFAULT_NS)


def same_config(one: MachineConfig, other: MachineConfig) -> bool:
    """Whether two configurations are the same to a request with action ``create``."""
    return replace(one, metadata=own(one.metadata)) == replace(other, metadata=own(other.metadata))


def checked_update(
    before: MachineConfig, after: MachineConfig, *, interested: Callable[[bytes], bool]
) -> MachineConfig:
    """Return the configuration after an update; raises ``ApiRefusal`` for a change that is not allowed."""
    if before == after:
        return after
    check_changes(before, after)
    if before.deliver_subject != after.deliver_subject and interested(before.deliver_subject.encode()):
        raise errors.CONSUMER_NAME_EXISTS.error
    if before.inactive_threshold != after.inactive_threshold:
        after = with_inactivity(after, durable=before.is_durable)
    return after


def _check_path(name: str) -> None:
    if "/" in name or "\\" in name:
        raise errors.CONSUMER_NAME_WITH_PATH_SEPARATORS.error
