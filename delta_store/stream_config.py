"""A stream's configuration: the fields, their defaults and their JSON form (durations in ns)."""

from dataclasses import dataclass, field


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
