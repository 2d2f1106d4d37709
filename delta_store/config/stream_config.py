"""A stream's configuration: its fields, their defaults, and their form in requests, replies and records."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from delta_store.config.api_errors import MIRROR_NOT_UPDATABLE, stream_invalid_config
from delta_store.config.field_tags import Json, RefusedChange, Tag, listed, part, parts, read_fields, show_fields, unset
from delta_store.config.stream_parts import ConsumerLimits, Placement, Republish, StreamSource, SubjectMapping
from delta_store.dialect.json_shapes import DURATION, FLAG, INT, INT32, INT64, TEXT, TEXT_MAP, UINT64, Shape, one_of

_CHANGE: Final = "stream configuration update can not "


def _limit(shape: Shape, order: int, *, omitempty: bool = False) -> Tag:
    return Tag(shape, omitempty, least=-1, zero_is_least=True, order=order)


def _no(order: int, reason: str, refused: Callable[[Any, Any], object] = operator.ne) -> tuple[RefusedChange, ...]:
    return (RefusedChange(order, stream_invalid_config(reason), refused),)


_RETENTION: Final = Tag(
    one_of("limits", "interest", "workqueue"),
    changes=_no(2, _CHANGE + "change retention policy to/from workqueue", lambda *both: {"workqueue"} < {*both}),
)
_MIRROR: Final = replace(
    part("StreamSource", StreamSource),
    changes=(RefusedChange(6, MIRROR_NOT_UPDATABLE.error, lambda old, new: new not in (None, old)),),
)
_COUNTER: Final = Tag(FLAG, omitempty=True, level=2, changes=_no(8, _CHANGE + "change message counter setting"))
_SCHEDULES: Final = Tag(FLAG, omitempty=True, level=2, changes=_no(9, "message schedules can not be disabled", unset))
_PERSIST_MODE: Final = Tag(
    one_of("", "async", default=""), omitempty=True, level=2, changes=_no(10, _CHANGE + "change persist mode")
)
_CONSUMER_LIMITS: Final = part("StreamConsumerLimits", ConsumerLimits, nullable=False, omitempty=False)
_METADATA: Final = Tag(TEXT_MAP, omitempty=True, read=dict, show=lambda members: dict(sorted(members.items())))


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A validated and normalised configuration; fields have the JetStream API's names and order; durations in ns."""

    name: Annotated[str, Tag(TEXT)]
    description: Annotated[str, Tag(TEXT, omitempty=True)] = field(default="", kw_only=True)
    subjects: Annotated[tuple[str, ...], listed()] = ()
    retention: Annotated[str, _RETENTION] = "limits"
    max_consumers: Annotated[int, _limit(INT, 5)] = -1
    max_msgs: Annotated[int, _limit(INT64, 1)] = -1
    max_bytes: Annotated[int, _limit(INT64, 3)] = -1
    max_age: Annotated[int, Tag(DURATION)] = 0
    max_msgs_per_subject: Annotated[int, _limit(INT64, 2)] = -1
    max_msg_size: Annotated[int, _limit(INT32, 4, omitempty=True)] = -1
    discard: Annotated[str, Tag(one_of("old", "new", any_case=True))] = "old"
    storage: Annotated[str, Tag(one_of("file", "memory"), changes=_no(1, _CHANGE + "change storage type"))] = "file"
    num_replicas: Annotated[int, Tag(INT)] = 1
    no_ack: Annotated[bool, Tag(FLAG, omitempty=True)] = False
    duplicate_window: Annotated[int, Tag(DURATION, omitempty=True)] = 120_000_000_000
    placement: Annotated[Placement | None, part("Placement", Placement)] = None
    mirror: Annotated[StreamSource | None, _MIRROR] = None
    sources: Annotated[tuple[StreamSource, ...], parts("StreamSource", StreamSource, nullable=True)] = ()
    compression: Annotated[str, Tag(one_of("none", "s2", refusal="unknown compression algorithm"))] = "none"
    first_seq: Annotated[int, Tag(UINT64, omitempty=True)] = 0
    subject_transform: Annotated[SubjectMapping | None, part("SubjectTransformConfig", SubjectMapping)] = None
    republish: Annotated[Republish | None, part("RePublish", Republish)] = None
    allow_direct: Annotated[bool, Tag(FLAG)] = False
    mirror_direct: Annotated[bool, Tag(FLAG)] = False
    discard_new_per_subject: Annotated[bool, Tag(FLAG, omitempty=True)] = False
    sealed: Annotated[bool, Tag(FLAG, changes=_no(3, _CHANGE + "unseal a sealed stream", unset))] = False
    deny_delete: Annotated[bool, Tag(FLAG, changes=_no(4, _CHANGE + "cancel deny message deletes", unset))] = False
    deny_purge: Annotated[bool, Tag(FLAG, changes=_no(5, _CHANGE + "cancel deny purge", unset))] = False
    allow_rollup_hdrs: Annotated[bool, Tag(FLAG)] = False
    consumer_limits: Annotated[ConsumerLimits, _CONSUMER_LIMITS] = field(default_factory=ConsumerLimits)
    allow_msg_ttl: Annotated[
        bool, Tag(FLAG, level=1, changes=_no(7, "message TTL status can not be disabled", unset))
    ] = False
    subject_delete_marker_ttl: Annotated[int, Tag(DURATION, omitempty=True, level=1)] = 0
    allow_msg_counter: Annotated[bool, _COUNTER] = False
    allow_atomic: Annotated[bool, Tag(FLAG, omitempty=True, level=2)] = False
    allow_msg_schedules: Annotated[bool, _SCHEDULES] = False
    persist_mode: Annotated[str, _PERSIST_MODE] = ""
    """Empty for the default."""
    allow_batched: Annotated[bool, Tag(FLAG, omitempty=True, level=4)] = False
    metadata: Annotated[dict[str, str], _METADATA] = field(default_factory=dict)

    def without_limits(self) -> "StreamConfig":
        """Return it without the limits that remove messages."""
        return replace(self, max_msgs=-1, max_bytes=-1, max_msgs_per_subject=-1, max_age=0)

    def as_json(self) -> Json:
        """Return the JSON object as nats-server prints it."""
        return show_fields(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "StreamConfig":
        """Return the configuration of a decoded request or of the JSON of :meth:`as_json`.

        An absent window is none, as for mirrors and sources.
        """
        return read_fields(cls, said, duplicate_window=0)
