"""The objects inside a stream's configuration, their fields in nats-server's order.

They are read from both a decoded request (times in ns) and a record (times as text); an absent field has Go's zero
value.
"""

from typing import Annotated, Any, NamedTuple

from delta_store.config.field_tags import Tag, listed, part, parts
from delta_store.dialect.json_shapes import DURATION, FLAG, INT, TEXT, TIME, UINT64
from delta_store.dialect.times import format_time, parse_time


class SubjectMapping(NamedTuple):
    """``subject_transform`` of a stream, or one of a source's ``subject_transforms``."""

    src: Annotated[str, Tag(TEXT)] = ""
    dest: Annotated[str, Tag(TEXT)] = ""


class Republish(NamedTuple):
    """``republish``: stored messages of ``src`` are published again under ``dest``."""

    src: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    dest: Annotated[str, Tag(TEXT)] = ""
    headers_only: Annotated[bool, Tag(FLAG, omitempty=True)] = False


class Placement(NamedTuple):
    """``placement``: recorded and printed only; a single server has one place."""

    cluster: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    tags: Annotated[tuple[str, ...], listed()] = ()
    preferred: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    """Refused in a stream's configuration."""


class ConsumerLimits(NamedTuple):
    """``consumer_limits``: bounds and defaults for the stream's consumers, 0 for none."""

    inactive_threshold: Annotated[int, Tag(DURATION, omitempty=True)] = 0
    """In ns."""
    max_ack_pending: Annotated[int, Tag(INT, omitempty=True)] = 0


class ExternalStream(NamedTuple):
    """``external`` of a source: the prefixes by which another domain or account is reached."""

    api: Annotated[str, Tag(TEXT)] = ""
    deliver: Annotated[str, Tag(TEXT)] = ""


class SourceConsumer(NamedTuple):
    """``consumer`` of a source: an existing durable push consumer of the origin, to copy through."""

    name: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    deliver_subject: Annotated[str, Tag(TEXT, omitempty=True)] = ""


def _read_time(said: Any) -> Any:
    return parse_time(said) if isinstance(said, str) else said


class StreamSource(NamedTuple):
    """``mirror`` or one of ``sources``: a stream whose messages are copied."""

    name: Annotated[str, Tag(TEXT)] = ""
    opt_start_seq: Annotated[int, Tag(UINT64, omitempty=True)] = 0
    opt_start_time: Annotated[int | None, Tag(TIME, omitempty=True, read=_read_time, show=format_time)] = None
    """In ns."""
    filter_subject: Annotated[str, Tag(TEXT, omitempty=True)] = ""
    subject_transforms: Annotated[tuple[SubjectMapping, ...], parts("SubjectTransformConfig", SubjectMapping)] = ()
    external: Annotated[ExternalStream | None, part("ExternalStream", ExternalStream)] = None
    consumer: Annotated[SourceConsumer | None, part("StreamConsumerSource", SourceConsumer)] = None
