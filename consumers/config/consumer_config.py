"""A consumer's configuration: the fields of the JetStream API and their form in the journal; times in ns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MachineConfig:
    """A validated configuration with its defaults; field names are those of the JetStream API."""

    name: str
    durable_name: str = ""
    description: str = ""
    deliver_policy: str = "all"
    opt_start_seq: int = 0
    opt_start_time: int = 0
    """Time in ns since the epoch, 0 for none."""
    ack_policy: str = "none"
    ack_wait: int = 0
    max_deliver: int = -1
    backoff: tuple[int, ...] = ()
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] = ()
    replay_policy: str = "instant"
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    metadata: dict[str, str] = field(default_factory=dict)
    pause_until: int = 0
    """Time in ns since the epoch, 0 for none."""
    priority_groups: tuple[str, ...] = ()
    priority_policy: str = "none"
    priority_timeout: int = 0

    @property
    def filters(self) -> tuple[str, ...]:
        """The subject filters; empty for all subjects."""
        return self.filter_subjects or ((self.filter_subject,) if self.filter_subject else ())

    @property
    def is_push(self) -> bool:
        """Whether messages are pushed to a deliver subject."""
        return bool(self.deliver_subject)

    @property
    def is_durable(self) -> bool:
        """Whether the consumer outlives disuse, unless ``inactive_threshold`` is set."""
        return bool(self.durable_name)

    def to_record(self) -> Json:
        """Return all fields in the journal's form, which :meth:`from_record` reads."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_record(cls, shown: Mapping[str, Any]) -> "MachineConfig":
        """Read the form of :meth:`to_record`; unknown fields are ignored."""
        known = {one.name: shown[one.name] for one in fields(cls) if one.name in shown}
        for name in ("backoff", "filter_subjects", "priority_groups"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)
