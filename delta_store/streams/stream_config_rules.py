"""Rules of a valid stream configuration: nats-server 2.15's, with its error texts.

A *request* is the decoded JSON of a configuration: the fields that were set, with their right types. The rules run in
nats-server's order, so that a configuration with several faults gets the same error. What nats-server supports and Silt
does not is refused by name in a step of its own, in ``source_rules``: no field is silently ignored.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conf.limits import (
    FIRST_SEQ_MAX,
    STREAM_DESCRIPTION_BYTES_MAX,
    STREAM_METADATA_BYTES_MAX,
    STREAM_NAME_CHARS_MAX,
)
from delta_store.config import api_errors
from delta_store.config.api_errors import stream_invalid_config
from delta_store.config.field_tags import level_needed, raised_to_least
from delta_store.config.history import fault_of_history
from delta_store.config.server_metadata import own, recorded, size
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import Placement
from delta_store.config.subject_overlaps import first_overlap
from delta_store.config.subject_transform import BadMapping, SubjectTransform, check_mapping
from delta_store.streams import source_rules
from delta_store.streams.source_rules import Find, is_asset_name, no_stream
from delta_store.typed.bad_schema import BadSchema
from delta_store.typed.typing_keys import VALIDATE
from delta_store.typed.typing_terms import terms_of
from delta_store.values import subjects

Request = Mapping[str, Any]

REPLICAS_MAX = 5
MAX_AGE_MIN_NS = 100_000_000
DUPLICATE_WINDOW_DEFAULT_NS = 120_000_000_000
MARKER_TTL_MIN_NS = 1_000_000_000

_API_SPACES = ("$JS.>", "$JSC.>", "$NRG.>")
_RESERVED_STARTS = ("$", "*", ">")
"""First characters of subjects that may overlap :data:`_API_SPACES` or ``$SYS.>``."""


def normalise(request: Request, *, pedantic: bool = False, find: Find = no_stream) -> StreamConfig:
    """Return the configuration with its defaults, or raise nats-server's :class:`ApiRefusal`.

    ``pedantic`` refuses what would otherwise be adjusted; ``find`` returns the configuration of another stream.
    Features that Silt lacks are not checked here.
    """
    _check_name_and_texts(request)
    config = _with_limits(request, pedantic=pedantic)
    config = _with_window(config, pedantic=pedantic)
    config = _with_features(config, pedantic=pedantic)
    config = source_rules.checked(config, pedantic=pedantic, find=find)
    if not config.subjects and config.mirror is None and not config.sources:
        config = replace(config, subjects=(config.name,))
    _check_subjects(config)
    _check_transform(config)
    _check_table(config)
    if fault := fault_of_history(config.metadata):
        raise stream_invalid_config(fault)
    config = _with_republish(config, pedantic=pedantic)
    if config.placement is not None and config.placement.preferred:
        raise stream_invalid_config("preferred server not permitted in placement")
    return config


def check_create(request: Request) -> None:
    """Raise what only a create request is refused for, before its configuration is checked."""
    if request.get("sealed"):
        raise stream_invalid_config("stream configuration for create can not be sealed")
    if request.get("mirror_direct") and request.get("mirror") is None:
        raise stream_invalid_config("stream has no mirror but does have mirror direct")


def check_replicas(config: StreamConfig) -> None:
    """Raise 10074 for more than one replica: a single server has no place for them."""
    if config.num_replicas > 1:
        raise api_errors.REPLICAS_NOT_SUPPORTED.error


def with_required_level(metadata: Mapping[str, str], request: Request) -> dict[str, str]:
    """Return the metadata to record: without what replies add, with the API level that the stream needs."""
    return recorded(metadata, level_needed(StreamConfig, request.get))


def same_config(one: StreamConfig, other: StreamConfig) -> bool:
    """Whether a create request asks for the existing stream."""
    return replace(one, metadata=own(one.metadata)) == replace(other, metadata=own(other.metadata))


def _check_name_and_texts(request: Request) -> None:
    name = request.get("name", "")
    if not is_asset_name(name):
        raise stream_invalid_config("stream name is required and can not contain '.', '*', '>', '\\', '/'")
    if len(name.encode()) > STREAM_NAME_CHARS_MAX:
        raise stream_invalid_config(f"stream name is too long, maximum allowed is {STREAM_NAME_CHARS_MAX}")
    if len(request.get("description", "").encode()) > STREAM_DESCRIPTION_BYTES_MAX:
        raise stream_invalid_config(
            f"stream description is too long, maximum allowed is {STREAM_DESCRIPTION_BYTES_MAX}"
        )
    if size(request.get("metadata", {})) > STREAM_METADATA_BYTES_MAX:
        raise stream_invalid_config(f"stream metadata exceeds maximum size of {STREAM_METADATA_BYTES_MAX} bytes")


def _with_limits(request: Request, *, pedantic: bool) -> StreamConfig:
    replicas = request.get("num_replicas", 0) or 1
    if replicas > REPLICAS_MAX:
        raise stream_invalid_config(f"maximum replicas is {REPLICAS_MAX}")
    if replicas < 0:
        raise api_errors.REPLICAS_NEGATIVE.error
    limits = raised_to_least(StreamConfig, request.get, pedantic=pedantic)
    config = StreamConfig.from_json({**request, **limits, "num_replicas": replicas})
    if config.max_age < 0:
        raise stream_invalid_config("max age can not be negative")
    if 0 < config.max_age < MAX_AGE_MIN_NS:
        raise stream_invalid_config("max age needs to be >= 100ms")
    if config.first_seq > FIRST_SEQ_MAX:
        raise stream_invalid_config(f"first sequence can not be above {FIRST_SEQ_MAX}, half of the sequences there are")
    return replace(config, placement=None) if config.placement == Placement() else config


def _with_window(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Fill in and check the duplicate window."""
    window = config.duplicate_window
    if window == 0 and config.mirror is None and not config.sources:
        window = DUPLICATE_WINDOW_DEFAULT_NS
        if 0 < config.max_age < window:
            if pedantic:
                raise api_errors.pedantic("duplicate window cannot be bigger than max age")
            window = config.max_age
    if window < 0:
        raise stream_invalid_config("duplicates window can not be negative")
    if config.max_age and window > config.max_age:
        raise stream_invalid_config("duplicates window can not be larger then max age")
    if 0 < window < MAX_AGE_MIN_NS:
        raise stream_invalid_config("duplicates window needs to be >= 100ms")
    return replace(config, duplicate_window=window)


def _with_features(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Check which features exclude each other, and switch on what others need."""
    if config.deny_purge and config.allow_rollup_hdrs:
        raise stream_invalid_config("roll-ups require the purge permission")
    if config.allow_msg_counter:
        _check_counter(config)
    if config.discard_new_per_subject:
        _check_discard_new_per_subject(config)
    _check_marker_ttl(config, pedantic=pedantic)
    if config.subject_delete_marker_ttl:
        config = _with_rollups(replace(config, allow_msg_ttl=True))
    if config.allow_msg_schedules:
        if config.discard == "new":
            raise stream_invalid_config("message scheduling cannot use discard new")
        if pedantic and not config.allow_rollup_hdrs:
            raise stream_invalid_config("message scheduling cannot be set if roll-ups are disabled")
        config = _with_rollups(config)
    if config.persist_mode:
        _check_async_persist(config)
    return config


def _with_rollups(config: StreamConfig) -> StreamConfig:
    return config if config.allow_rollup_hdrs else replace(config, allow_rollup_hdrs=True, deny_purge=False)


def _check_counter(config: StreamConfig) -> None:
    if config.discard == "new":
        raise stream_invalid_config("counter stream cannot use discard new")
    if config.allow_msg_ttl:
        raise stream_invalid_config("counter stream cannot use message TTLs")
    if config.allow_msg_schedules:
        raise stream_invalid_config("counter stream cannot use message schedules")
    if config.retention != "limits":
        raise stream_invalid_config("counter stream can only use limits retention")


def _check_discard_new_per_subject(config: StreamConfig) -> None:
    if config.discard != "new":
        raise stream_invalid_config("discard new per subject requires discard new policy to be set")
    if config.max_msgs_per_subject <= 0:
        raise stream_invalid_config("discard new per subject requires max msgs per subject > 0")


def _check_marker_ttl(config: StreamConfig, *, pedantic: bool) -> None:
    ttl = config.subject_delete_marker_ttl
    if ttl < 0:
        raise stream_invalid_config("subject delete marker TTL must not be negative")
    if 0 < ttl < MARKER_TTL_MIN_NS:
        raise stream_invalid_config("subject delete marker TTL must be at least 1 second")
    if ttl and pedantic:
        if not config.allow_msg_ttl:
            raise stream_invalid_config("subject delete marker cannot be set if message TTLs are disabled")
        if not config.allow_rollup_hdrs:
            raise stream_invalid_config("subject delete marker cannot be set if roll-ups are disabled")


def _check_async_persist(config: StreamConfig) -> None:
    if config.storage != "file":
        raise stream_invalid_config("async persist mode is only supported on file storage")
    if config.num_replicas > 1:
        raise stream_invalid_config("async persist mode is not supported on replicated streams")
    if config.allow_atomic:
        raise stream_invalid_config("async persist mode is not supported with atomic batch publish")


def _check_transform(config: StreamConfig) -> None:
    """Check the subject transform of incoming messages."""
    mapping = config.subject_transform
    if mapping is None:
        return
    if mapping.src and not subjects.valid(mapping.src):
        raise api_errors.transform_source_invalid(f"invalid subject {mapping.src}")
    try:
        check_mapping(mapping.src, mapping.dest)
    except BadMapping as error:
        raise api_errors.transform_invalid(str(error)) from None


def _check_table(config: StreamConfig) -> None:
    """Check what the metadata says of a typed table."""
    try:
        terms = terms_of(config.metadata)
    except BadSchema as error:
        raise stream_invalid_config(str(error)) from None
    if terms is not None and terms.rejects and config.allow_msg_counter:
        raise stream_invalid_config(f"{VALIDATE}=reject can't be with message counters, whose payloads are Silt's own")


def _with_republish(config: StreamConfig, *, pedantic: bool) -> StreamConfig:
    """Fill in and check what is republished."""
    again, mapping = config.republish, config.subject_transform
    if again is None:
        return config
    if not again.src:
        if pedantic:
            raise api_errors.pedantic("republish source can not be empty")
        again = again._replace(src=">")
    if (again.src, again.dest) == (">", ">") and mapping is not None and config.subjects == (mapping.src,):
        if pedantic:
            raise api_errors.pedantic("implicit republish based on subject transform")
        again = again._replace(src=mapping.dest, dest=mapping.dest)
    if any(subjects.overlaps(again.dest, one) for one in config.subjects):
        raise stream_invalid_config("stream configuration for republish destination forms a cycle")
    try:
        SubjectTransform(again.src, again.dest)
    except BadMapping:
        if again.dest:
            raise stream_invalid_config(
                f"stream configuration for republish with transform from '{again.src}' to '{again.dest}' not valid"
            ) from None
    return replace(config, republish=again)


def _check_subjects(config: StreamConfig) -> None:
    """Check that subjects are valid, distinct, do not overlap, and are not in NATS's own spaces."""
    seen: set[str] = set()
    clash = first_overlap(config.subjects)
    for place, subject in enumerate(config.subjects):
        if not subjects.valid(subject):
            raise stream_invalid_config("invalid subject")
        if subject in seen:
            raise stream_invalid_config("duplicate subjects detected")
        if subject == ">":
            if not config.no_ack:
                raise stream_invalid_config("capturing all subjects requires no-ack to be true")
            if config.num_replicas != 1:
                raise stream_invalid_config("capturing all subjects requires replicas of 1")
        if not config.no_ack and subject.startswith(_RESERVED_STARTS):
            _check_reserved(subject)
        if clash is not None and clash[0] == place:
            raise stream_invalid_config(f'subject "{subject}" overlaps with "{config.subjects[clash[1]]}"')
        seen.add(subject)


def _check_reserved(subject: str) -> None:
    reserved = any(subjects.overlaps(subject, space) for space in _API_SPACES)
    if reserved and not subjects.subset(subject, "$JS.EVENT.>"):
        raise stream_invalid_config("subjects that overlap with jetstream api require no-ack to be true")
    if subjects.overlaps(subject, "$SYS.>") and not subjects.subset(subject, "$SYS.ACCOUNT.>"):
        raise stream_invalid_config("subjects that overlap with system api require no-ack to be true")
