"""The objects inside a stream's configuration, with their JSON form, as nats-server prints and reads it.

``from_json`` takes both a decoded request (times in ns) and what ``as_json`` wrote (times as text); an absent field has
Go's zero value.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from delta_store.dialect.times import format_time, parse_time

Json = dict[str, Any]


class SubjectMapping(NamedTuple):
    """``subject_transform`` of a stream, or one of a source's ``subject_transforms``."""

    src: str = ""
    dest: str = ""

    def as_json(self) -> Json:
        """Return the JSON object."""
        return {"src": self.src, "dest": self.dest}

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "SubjectMapping":
        """Parse the JSON object."""
        return cls(shown.get("src", ""), shown.get("dest", ""))


class Republish(NamedTuple):
    """``republish``: stored messages of ``src`` are published again under ``dest``."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False

    def as_json(self) -> Json:
        """Return the JSON object."""
        return _without_zeros({"src": self.src, "dest": self.dest, "headers_only": self.headers_only}, kept="dest")

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "Republish":
        """Parse the JSON object."""
        return cls(shown.get("src", ""), shown.get("dest", ""), shown.get("headers_only", False))


class Placement(NamedTuple):
    """``placement``: recorded and printed only; a single server has one place."""

    cluster: str = ""
    tags: tuple[str, ...] = ()

    def as_json(self) -> Json:
        """Return the JSON object."""
        return _without_zeros({"cluster": self.cluster, "tags": list(self.tags)})

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "Placement":
        """Parse the JSON object."""
        return cls(shown.get("cluster", ""), tuple(shown.get("tags", ())))


class ConsumerLimits(NamedTuple):
    """``consumer_limits``: bounds and defaults for the stream's consumers, 0 for none."""

    inactive_threshold: int = 0
    """In ns."""
    max_ack_pending: int = 0

    def as_json(self) -> Json:
        """Return the JSON object."""
        return _without_zeros(self._asdict())

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "ConsumerLimits":
        """Parse the JSON object."""
        return cls(shown.get("inactive_threshold", 0), shown.get("max_ack_pending", 0))


class ExternalStream(NamedTuple):
    """``external`` of a source: the prefixes by which another domain or account is reached."""

    api: str = ""
    deliver: str = ""


class SourceConsumer(NamedTuple):
    """``consumer`` of a source: an existing durable push consumer of the origin, to copy through."""

    name: str = ""
    deliver_subject: str = ""


class StreamSource(NamedTuple):
    """``mirror`` or one of ``sources``: a stream whose messages are copied."""

    name: str = ""
    opt_start_seq: int = 0
    opt_start_time: int | None = None
    """In ns."""
    filter_subject: str = ""
    subject_transforms: tuple[SubjectMapping, ...] = ()
    external: ExternalStream | None = None
    consumer: SourceConsumer | None = None

    def as_json(self) -> Json:
        """Return the JSON object."""
        shown: Json = {
            "name": self.name,
            "opt_start_seq": self.opt_start_seq,
            "opt_start_time": format_time(self.opt_start_time) if self.opt_start_time is not None else "",
            "filter_subject": self.filter_subject,
            "subject_transforms": [one.as_json() for one in self.subject_transforms],
        }
        shown = _without_zeros(shown, kept="name")
        if self.external is not None:
            shown["external"] = self.external._asdict()
        if self.consumer is not None:
            shown["consumer"] = _without_zeros(self.consumer._asdict())
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> "StreamSource":
        """Parse the JSON object."""
        start, external, consumer = (shown.get(name) for name in ("opt_start_time", "external", "consumer"))
        return cls(
            name=shown.get("name", ""),
            opt_start_seq=shown.get("opt_start_seq", 0),
            opt_start_time=parse_time(start) if isinstance(start, str) else start,
            filter_subject=shown.get("filter_subject", ""),
            subject_transforms=tuple(SubjectMapping.from_json(one) for one in shown.get("subject_transforms", ())),
            external=ExternalStream(**external) if external is not None else None,
            consumer=SourceConsumer(**consumer) if consumer is not None else None,
        )


def _without_zeros(shown: Json, *, kept: str = "") -> Json:
    return {name: value for name, value in shown.items() if value or name == kept}
