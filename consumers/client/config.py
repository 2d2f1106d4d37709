"""Consumer configurations with the fields of pull consumers that nats-py's lack; all other types are nats-py's."""

from dataclasses import dataclass
from typing import Any

from nats.js import api


@dataclass
class ConsumerConfig(api.ConsumerConfig):
    """A consumer's configuration; times in seconds."""

    max_batch: int | None = None
    max_expires: float | None = None
    max_bytes: int | None = None
    priority_groups: list[str] | None = None
    priority_policy: str | None = None
    priority_timeout: float | None = None

    @classmethod
    def from_response(cls, resp: dict[str, Any]) -> "ConsumerConfig":
        """Decode a server's reply, in which times are nanoseconds."""
        cls._convert_nanoseconds(resp, "max_expires")
        cls._convert_nanoseconds(resp, "priority_timeout")
        config = super().from_response(resp)
        assert isinstance(config, ConsumerConfig)
        return config

    def as_dict(self) -> dict[str, object]:
        """Encode for a server, with times in nanoseconds."""
        fields = super().as_dict()
        for name in ("max_expires", "priority_timeout"):
            if fields.get(name) is not None:
                fields[name] = self._to_nanoseconds(getattr(self, name))
        return fields


@dataclass
class ConsumerInfo(api.ConsumerInfo):
    """A consumer's configuration and state, as a server reports them."""

    @classmethod
    def from_response(cls, resp: dict[str, Any]) -> "ConsumerInfo":
        """Decode a server's reply."""
        config = dict(resp.get("config") or {})
        info = super().from_response({**resp, "config": {}})
        assert isinstance(info, ConsumerInfo)
        info.config = ConsumerConfig.from_response(config)
        return info
