"""Rules of a valid ``mirror`` and valid ``sources``: nats-server 2.15's, in its order, with its texts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from delta_store.config import api_errors
from delta_store.config.api_errors import Fixed, stream_invalid_config
from delta_store.config.stream_config import StreamConfig
from delta_store.config.stream_parts import StreamSource, SubjectMapping
from delta_store.config.subject_overlaps import first_covered, first_overlap
from delta_store.config.subject_transform import BadMapping, check_mapping
from delta_store.streams.stream_sources import is_local
from delta_store.values import subjects

Find = Callable[[str], StreamConfig | None]

_NAME_FORBIDDEN: Final = frozenset(" \t\r\n\f.*>\\/")
_API_PREFIX: Final = "$JS.API"
_MIRROR_EXCLUDES: Final[tuple[tuple[str, Fixed], ...]] = (
    ("first_seq", api_errors.MIRROR_WITH_FIRST_SEQ),
    ("subjects", api_errors.MIRROR_WITH_SUBJECTS),
    ("sources", api_errors.MIRROR_WITH_SOURCES),
    ("allow_msg_counter", api_errors.MIRROR_WITH_COUNTERS),
    ("allow_atomic", api_errors.MIRROR_WITH_ATOMIC_PUBLISH),
    ("allow_batched", api_errors.MIRROR_WITH_BATCH_PUBLISH),
    ("allow_msg_schedules", api_errors.MIRROR_WITH_SCHEDULES),
)


def no_stream(_name: str) -> StreamConfig | None:
    """Return None: the ``find`` of a directory without streams."""
    return None


def is_asset_name(name: str) -> bool:
    """Whether a stream or consumer may have this name."""
    return bool(name) and _NAME_FORBIDDEN.isdisjoint(name)


def checked(config: StreamConfig, *, pedantic: bool, find: Find) -> StreamConfig:
    """Return the configuration, ``mirror_direct`` copied from the origin.

    ``find`` returns other streams' configurations. Raises :class:`delta_store.config.api_errors.ApiRefusal`.
    """
    if config.mirror is not None:
        config = _checked_mirror(config, config.mirror, pedantic=pedantic, find=find)
    if config.sources and config.allow_msg_schedules:
        raise api_errors.SOURCE_WITH_SCHEDULES.error
    _check_sources(config, find)
    found = [find(source.name) for source in _origins(config) if source.external is None]
    _check_prefixes(config, [subject for origin in found if origin is not None for subject in origin.subjects])
    _check_cycles(config, find)
    return config


def check_new(config: StreamConfig) -> None:
    """Raise what a create request is refused for after all other checks: filters that are no subjects."""
    mirror = config.mirror
    if mirror is not None and mirror.filter_subject and not subjects.valid(mirror.filter_subject):
        raise api_errors.create_failed(f"subject filter '{mirror.filter_subject}' for the mirror invalid subject")
    for source in config.sources:
        if source.filter_subject and not subjects.valid(source.filter_subject):
            raise api_errors.create_failed(f"subject filter '{source.filter_subject}' for the source: invalid subject")


def refuse_unsupported(config: StreamConfig, *, domain: str) -> None:
    """Refuse, by name, what Silt does not have: a named consumer of an origin in the same store, which needs none."""
    for source in _origins(config):
        if source.consumer is not None and is_local(source, domain):
            raise stream_invalid_config("consumer of a mirror or source of the same store is not supported by Silt")


def _checked_mirror(config: StreamConfig, mirror: StreamSource, *, pedantic: bool, find: Find) -> StreamConfig:
    for name, kind in _MIRROR_EXCLUDES:
        if getattr(config, name):
            raise kind.error
    _check_consumer(mirror, api_errors.MIRROR_CONSUMER_INVALID)
    if mirror.filter_subject and mirror.subject_transforms:
        raise api_errors.MIRROR_MULTIPLE_FILTERS.error
    if config.subject_delete_marker_ttl > 0:
        raise stream_invalid_config("subject delete markers forbidden on mirrors")
    clash = first_overlap([mapping.src for mapping in mirror.subject_transforms])
    for place, mapping in enumerate(mirror.subject_transforms):
        _check_mapping(mapping, api_errors.mirror_transform_source_invalid, api_errors.mirror_transform_invalid)
        if clash is not None and clash[0] == place:
            raise api_errors.MIRROR_FILTERS_OVERLAP.error
    if mirror.external is not None:
        return config
    if not is_asset_name(mirror.name):
        raise api_errors.MIRROR_NAME_INVALID.error
    return _with_mirror_direct(config, mirror, pedantic=pedantic, find=find)


def _with_mirror_direct(config: StreamConfig, mirror: StreamSource, *, pedantic: bool, find: Find) -> StreamConfig:
    origin = find(mirror.name)
    if origin is None:
        return config
    if 0 < config.max_msg_size < origin.max_msg_size:
        raise api_errors.MIRROR_MESSAGE_SIZE.error
    if pedantic and config.mirror_direct != origin.allow_direct:
        raise api_errors.pedantic("origin stream has direct get set, mirror has it disabled")
    return replace(config, mirror_direct=origin.allow_direct)


def _check_sources(config: StreamConfig, find: Find) -> None:
    seen: set[object] = set()
    consumers: set[object] = set()
    for source in config.sources:
        if not is_asset_name(source.name):
            raise api_errors.SOURCE_NAME_INVALID.error
        index = _index_name(source)
        if index in seen:
            raise api_errors.SOURCE_DUPLICATE.error
        seen.add(index)
        _check_filters(source)
        _check_consumer(source, api_errors.SOURCE_CONSUMER_INVALID)
        if source.consumer is not None:
            named = (source.name, source.external, source.consumer.name)
            if named in consumers:
                raise api_errors.SOURCE_CONSUMER_DUPLICATE.error
            consumers.add(named)
        origin = find(source.name) if source.external is None else None
        if origin is not None and 0 < config.max_msg_size < origin.max_msg_size:
            raise api_errors.SOURCE_MESSAGE_SIZE.error


def _check_filters(source: StreamSource) -> None:
    if source.filter_subject and source.subject_transforms:
        raise api_errors.SOURCE_MULTIPLE_FILTERS.error
    for mapping in source.subject_transforms:
        _check_mapping(mapping, api_errors.source_transform_source_invalid, api_errors.source_transform_invalid)
    if first_covered([mapping.src for mapping in source.subject_transforms]) is not None:
        raise api_errors.SOURCE_FILTERS_OVERLAP.error


def _index_name(source: StreamSource) -> object:
    """Return what distinguishes two sources: the origin, its consumer, the filters and the destinations."""
    mappings = [(one.src or ">", one.dest or ">") for one in source.subject_transforms]
    filters = [one[0] for one in mappings] or [source.filter_subject or ">"]
    destinations = [one[1] for one in mappings] or [">"]
    external = source.external.api if source.external is not None else None
    consumer = source.consumer.name if source.consumer is not None else None
    return source.name, external, consumer, tuple(filters), tuple(destinations)


def _check_mapping(mapping: SubjectMapping, bad_source: Any, bad_destination: Any) -> None:
    if mapping.src and not subjects.valid(mapping.src):
        raise bad_source(f"invalid subject {mapping.src}")
    try:
        check_mapping(mapping.src, mapping.dest)
    except BadMapping as error:
        raise bad_destination(str(error)) from None


def _check_consumer(source: StreamSource, kind: Fixed) -> None:
    """Check that a named consumer of the origin is valid, and that it alone sets where to begin."""
    consumer = source.consumer
    if consumer is None:
        return
    if not is_asset_name(consumer.name) or not subjects.literal(consumer.deliver_subject):
        raise kind.error
    if source.opt_start_seq or source.opt_start_time is not None or source.filter_subject:
        raise kind.error


def _origins(config: StreamConfig) -> tuple[StreamSource, ...]:
    return (*((config.mirror,) if config.mirror is not None else ()), *config.sources)


def _check_prefixes(config: StreamConfig, stream_subjects: Sequence[str]) -> None:
    externals = [one.external for one in _origins(config) if one.external is not None]
    for deliver in [one.deliver for one in externals if one.deliver]:
        if not subjects.literal(deliver):
            raise api_errors.external_delivery_invalid(deliver)
        for subject in stream_subjects:
            if subjects.overlaps(subject, f"{deliver}.{subject}"):
                raise api_errors.external_delivery_overlaps(deliver, subject)
    for prefix in [one.api for one in externals if one.api]:
        if not subjects.literal(prefix):
            raise stream_invalid_config(
                f'stream external api prefix "{prefix}" must be a valid subject without wildcards'
            )
        if subjects.overlaps(prefix, _API_PREFIX):
            raise api_errors.external_api_overlaps(prefix, _API_PREFIX)


def _check_cycles(config: StreamConfig, find: Find) -> None:
    """Refuse streams that copy from each other in a circle."""
    to_visit = [config]
    visited: set[str] = set()
    while to_visit:
        one = to_visit.pop(0)
        visited.add(one.name)
        for source in one.sources:
            if source.external is not None:
                continue
            if source.name in visited:
                wanted = source.filter_subject
                if not wanted or any(subjects.overlaps(subject, wanted) for subject in one.subjects):
                    raise stream_invalid_config("detected cycle")
            elif (origin := find(source.name)) is not None:
                to_visit.append(origin)
        if one.mirror is not None and one.mirror.external is None:
            if one.mirror.name in visited:
                raise stream_invalid_config("detected cycle")
            if (origin := find(one.mirror.name)) is not None:
                to_visit.append(origin)
