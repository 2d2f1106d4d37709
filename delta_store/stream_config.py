"""A stream's configuration: the fields, their defaults and their JSON form (durations in ns)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Validated and normalised configuration; field names are those of the JetStream API."""

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

    def as_json(self) -> Json:
        """The JSON object as nats-server prints it: its fields, their order, and what it leaves out when empty.

        Fields that Silt does not have yet are those that nats-server prints even when they are off.
        """
        shown: Json = {
            "name": self.name,
            "description": self.description,
            "subjects": list(self.subjects),
            "retention": self.retention,
            "max_consumers": self.max_consumers,
            "max_msgs": self.max_msgs,
            "max_bytes": self.max_bytes,
            "max_age": self.max_age,
            "max_msgs_per_subject": self.max_msgs_per_subject,
            "max_msg_size": self.max_msg_size,
            "discard": self.discard,
            "storage": self.storage,
            "num_replicas": self.num_replicas,
            "no_ack": self.no_ack,
            "duplicate_window": self.duplicate_window,
            "compression": self.compression,
            "allow_direct": self.allow_direct,
            "mirror_direct": False,
            "sealed": False,
            "deny_delete": self.deny_delete,
            "deny_purge": self.deny_purge,
            "allow_rollup_hdrs": False,
            "consumer_limits": {},
            "allow_msg_ttl": False,
            "metadata": dict(sorted(self.metadata.items())),
        }
        for name in ("description", "subjects", "max_msg_size", "no_ack", "duplicate_window", "metadata"):
            if not shown[name]:
                del shown[name]
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "StreamConfig":
        """The configuration that :meth:`as_json` wrote; fields that this version does not know are passed over."""
        known = {one.name: shown[one.name] for one in fields(cls) if one.name in shown}
        return cls(**(known | {"subjects": tuple(known.get("subjects", ()))}))
