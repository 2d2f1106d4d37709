"""A consumer's configuration: its fields, their defaults, and their form in requests, replies and the journal."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Final

from delta_store.config.api_errors import consumer_create_failed
from delta_store.config.field_tags import Json, RefusedChange, Tag, listed, read_fields, unset
from delta_store.dialect.json_shapes import DURATION, FLAG, INT, TEXT, TEXT_MAP, TIME, UINT64, ListOf, Word, one_of
from delta_store.dialect.times import format_time

EARLIEST_NS: Final = -(2**63)
"""The value of a time before 1678, which can only be Go's zero time, that is, none."""


def shown_time(ts_ns: int) -> str:
    """Format a request's time (ns) as in replies."""
    return format_time(ts_ns if ts_ns > EARLIEST_NS else None)


def _no(order: int, reason: str, refused: Callable[[Any, Any], object] = operator.ne) -> tuple[RefusedChange, ...]:
    return (RefusedChange(order, consumer_create_failed(reason), refused),)


def _fixed(order: int, shown: str) -> tuple[RefusedChange, ...]:
    return _no(order, f"{shown} can not be updated")


_DELIVER_POLICY: Final = Tag(
    one_of("all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject", undefined="all"),
    changes=_fixed(1, "deliver policy"),
)
_ACK_POLICY: Final = Tag(
    one_of("none", "all", "explicit", "flow_control"),
    level=4,
    needs="flow_control".__eq__,
    changes=_fixed(6, "ack policy"),
)
_DELIVER_SUBJECT: Final = Tag(
    TEXT,
    omitempty=True,
    changes=_no(10, "can not update pull consumer to push based", lambda old, new: new and not old)
    + _no(11, "can not update push consumer to pull based", unset),
)
_PRIORITY_POLICY: Final = Tag(
    Word(("none", "overflow", "pinned_client", "prioritized"), "unknown priority policy"),
    omitempty=True,
    level=1,
    show=lambda policy: "" if policy == "none" else policy,
)
_TIME: Final = Tag(TIME, omitempty=True, show=lambda ts_ns: shown_time(ts_ns) if ts_ns else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineConfig:
    """A validated configuration with its defaults; fields have the JetStream API's names and order; durations in ns."""

    durable_name: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    name: Annotated[str, Tag(TEXT, omitempty=True)]
    description: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    deliver_policy: Annotated[str, _DELIVER_POLICY] = "all"
    opt_start_seq: Annotated[int, Tag(UINT64, omitempty=True, changes=_fixed(4, "start sequence"))] = 0
    opt_start_time: Annotated[int, replace(_TIME, changes=_fixed(5, "start time"))] = 0
    """Time in ns since the epoch, 0 for none."""
    ack_policy: Annotated[str, _ACK_POLICY] = "none"
    ack_wait: Annotated[int, Tag(DURATION, omitempty=True)] = 0
    max_deliver: Annotated[int, Tag(INT, omitempty=True, least=-1, zero_is_least=True)] = -1
    backoff: Annotated[tuple[int, ...], listed(ListOf(DURATION, "[]time.Duration"), 0)] = ()
    filter_subject: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    filter_subjects: Annotated[tuple[str, ...], listed()] = ()
    replay_policy: Annotated[str, Tag(one_of("instant", "original"), changes=_fixed(7, "replay policy"))] = "instant"
    rate_limit_bps: Annotated[int, Tag(UINT64, omitempty=True)] = 0
    sample_freq: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    max_waiting: Annotated[int, Tag(INT, omitempty=True, least=0, changes=_fixed(12, "max waiting"))] = 0
    max_ack_pending: Annotated[int, Tag(INT, omitempty=True, least=-1)] = 0
    flow_control: Annotated[bool, Tag(FLAG, omitempty=True, changes=_fixed(9, "flow control"))] = False
    headers_only: Annotated[bool, Tag(FLAG, omitempty=True)] = False
    max_batch: Annotated[int, Tag(INT, omitempty=True, least=0)] = 0
    max_expires: Annotated[int, Tag(DURATION, omitempty=True, least=0)] = 0
    max_bytes: Annotated[int, Tag(INT, omitempty=True, least=0)] = 0
    deliver_subject: Annotated[str, _DELIVER_SUBJECT] = ""
    deliver_group: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    idle_heartbeat: Annotated[int, Tag(DURATION, omitempty=True, least=0, changes=_fixed(8, "heart beats"))] = 0
    inactive_threshold: Annotated[int, Tag(DURATION, omitempty=True, least=0)] = 0
    num_replicas: Annotated[int, Tag(INT)] = 0
    mem_storage: Annotated[bool, Tag(FLAG, omitempty=True, changes=_fixed(2, "storage type"))] = False
    direct: Annotated[bool, Tag(FLAG, omitempty=True, changes=_fixed(3, "direct"))] = False
    sourcing: Annotated[bool, Tag(FLAG, omitempty=True, changes=_fixed(3, "sourcing"))] = False
    metadata: Annotated[dict[str, str], Tag(TEXT_MAP, read=dict)] = field(default_factory=dict)
    pause_until: Annotated[int, replace(_TIME, level=1, needs=EARLIEST_NS.__lt__)] = 0
    """Time in ns since the epoch, 0 for none."""
    priority_groups: Annotated[tuple[str, ...], listed(level=1)] = ()
    priority_policy: Annotated[str, _PRIORITY_POLICY] = "none"
    priority_timeout: Annotated[int, Tag(DURATION, omitempty=True, level=1, least=0)] = 0

    @property
    def filters(self) -> tuple[str, ...]:
        """The subject filters; empty for all subjects."""
        return self.filter_subjects or ((self.filter_subject,) if self.filter_subject else ())

    @property
    def copies(self) -> bool:
        """Whether it is another server's, for a copy of the stream."""
        return self.direct or self.sourcing

    @property
    def is_push(self) -> bool:
        """Whether messages are pushed to a deliver subject."""
        return bool(self.deliver_subject)

    @property
    def is_durable(self) -> bool:
        """Whether the consumer outlives disuse, unless ``inactive_threshold`` is set."""
        return bool(self.durable_name)

    def to_record(self) -> Json:
        """Return all fields in the journal's form, the name first."""
        return {"name": self.name} | {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_record(cls, said: Mapping[str, Any]) -> "MachineConfig":
        """Read the form of :meth:`to_record`; unknown fields are ignored."""
        return read_fields(cls, said)
