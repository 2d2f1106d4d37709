"""A stream's configuration: the fields, their defaults and their JSON form (durations in ns)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from delta_store.config.stream_parts import ConsumerLimits, Placement, Republish, StreamSource, SubjectMapping

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """A validated and normalised configuration; field names are those of the JetStream API."""

    name: str
    subjects: tuple[str, ...] = ()
    description: str = ""
    retention: str = "limits"
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    discard: str = "old"
    storage: str = "file"
    num_replicas: int = 1
    no_ack: bool = False
    duplicate_window: int = 120_000_000_000
    allow_direct: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    compression: str = "none"
    metadata: dict[str, str] = field(default_factory=dict)
    placement: Placement | None = None
    mirror: StreamSource | None = None
    sources: tuple[StreamSource, ...] = ()
    first_seq: int = 0
    subject_transform: SubjectMapping | None = None
    republish: Republish | None = None
    mirror_direct: bool = False
    discard_new_per_subject: bool = False
    sealed: bool = False
    allow_rollup_hdrs: bool = False
    consumer_limits: ConsumerLimits = field(default_factory=ConsumerLimits)
    allow_msg_ttl: bool = False
    subject_delete_marker_ttl: int = 0
    allow_msg_counter: bool = False
    allow_atomic: bool = False
    allow_msg_schedules: bool = False
    persist_mode: str = ""
    """Empty for the default."""
    allow_batched: bool = False

    def as_json(self) -> Json:
        """Return the JSON object as nats-server prints it: its fields, their order, and what it omits when empty."""
        shown: Json = {}
        for name in _ORDER:
            value = getattr(self, name)
            if value or name not in _OMITTED_WHEN_EMPTY:
                shown[name] = _shown(name, value)
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "StreamConfig":
        """Parse the JSON of :meth:`as_json`; fields that this version does not know are ignored.

        An absent window is none, as for mirrors and sources.
        """
        known = {one.name: shown[one.name] for one in fields(cls) if one.name in shown}
        return cls(**{name: read_part(name, value) for name, value in ({"duplicate_window": 0} | known).items()})


def read_part(name: str, value: Any) -> Any:
    """Convert the JSON value of an object or list field; return any other unchanged."""
    reader = _READERS.get(name)
    return reader(value) if reader is not None and value is not None else value


def _shown(name: str, value: Any) -> Any:
    if name == "metadata":
        return dict(sorted(value.items()))
    if name == "subjects":
        return list(value)
    if name == "sources":
        return [one.as_json() for one in value]
    return value.as_json() if name in _READERS else value


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "subjects": tuple,
    "placement": Placement.from_json,
    "mirror": StreamSource.from_json,
    "sources": lambda shown: tuple(StreamSource.from_json(one or {}) for one in shown),
    "subject_transform": SubjectMapping.from_json,
    "republish": Republish.from_json,
    "consumer_limits": ConsumerLimits.from_json,
}
_ORDER: Final = (
    "name",
    "description",
    "subjects",
    "retention",
    "max_consumers",
    "max_msgs",
    "max_bytes",
    "max_age",
    "max_msgs_per_subject",
    "max_msg_size",
    "discard",
    "storage",
    "num_replicas",
    "no_ack",
    "duplicate_window",
    "placement",
    "mirror",
    "sources",
    "compression",
    "first_seq",
    "subject_transform",
    "republish",
    "allow_direct",
    "mirror_direct",
    "discard_new_per_subject",
    "sealed",
    "deny_delete",
    "deny_purge",
    "allow_rollup_hdrs",
    "consumer_limits",
    "allow_msg_ttl",
    "subject_delete_marker_ttl",
    "allow_msg_counter",
    "allow_atomic",
    "allow_msg_schedules",
    "persist_mode",
    "allow_batched",
    "metadata",
)
_OMITTED_WHEN_EMPTY: Final = frozenset(
    (
        "description",
        "subjects",
        "max_msg_size",
        "no_ack",
        "duplicate_window",
        "placement",
        "mirror",
        "sources",
        "first_seq",
        "subject_transform",
        "republish",
        "discard_new_per_subject",
        "subject_delete_marker_ttl",
        "allow_msg_counter",
        "allow_atomic",
        "allow_msg_schedules",
        "persist_mode",
        "allow_batched",
        "metadata",
    )
)
