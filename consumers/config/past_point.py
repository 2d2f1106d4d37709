"""The past point that a consumer reads, as its metadata says. Pure.

``silt.as_of`` is the point as users write it; an age becomes the time that it meant. Creation adds
``silt.as_of.place``, the fixed place in the order of the stream's rows (``<sequence>.<number of events>``), which no
later event changes, and for an age ``silt.as_of.asked``, so that the same request again is no change. Both are Silt's:
a request's are ignored.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from consumers.config.consumer_config import MachineConfig
from delta_store.config import api_errors
from delta_store.config.stream_config import StreamConfig
from delta_store.values.as_of import AsOf, NotAPoint, parse_as_of

POINT_KEY: Final = "silt.as_of"
_PLACE_KEY: Final = "silt.as_of.place"
_ASKED_KEY: Final = "silt.as_of.asked"
_KEYS: Final = (POINT_KEY, _PLACE_KEY, _ASKED_KEY)
_PLACE: Final = re.compile(r"([0-9]{1,19})\.([0-9]{1,19})")


def requested(config: MachineConfig, in_body: str | None) -> MachineConfig:
    """Return a request's configuration with its point, if it has one, in the metadata. Raises ``ApiRefusal``.

    ``in_body`` is the point beside the configuration.
    """
    point = config.metadata.get(POINT_KEY, in_body)
    if in_body is not None and point != in_body:
        raise api_errors.consumer_create_failed(f"silt_as_of {in_body!r} is not the metadata's {POINT_KEY} {point!r}")
    metadata = {key: value for key, value in config.metadata.items() if key not in _KEYS}
    return replace(config, metadata=metadata if point is None else metadata | {POINT_KEY: point})


def point_of(config: MachineConfig, now_ns: int) -> AsOf | None:
    """Return the point that a new consumer is to read, None for the stream as it is. Raises ``ApiRefusal``."""
    text = config.metadata.get(POINT_KEY)
    if text is None:
        return None
    if config.copies:
        raise api_errors.consumer_create_failed("a consumer of another server's copy reads no past point")
    try:
        return parse_as_of(text, now=datetime.fromtimestamp(now_ns / 1e9, UTC))
    except NotAPoint as error:
        raise api_errors.consumer_create_failed(f"metadata {POINT_KEY}: {error}") from None


def placed(config: MachineConfig, point: AsOf, place: tuple[int, int]) -> MachineConfig:
    """Return the configuration with the place of its point: a sequence, and the number of the last event behind it."""
    asked, added = config.metadata[POINT_KEY], {_PLACE_KEY: f"{place[0]}.{place[1]}"}
    if _is_age(asked):
        added |= {POINT_KEY: point.text or asked, _ASKED_KEY: asked}
    return replace(config, metadata=config.metadata | added)


def place_of(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the place that a consumer reads the stream at, None for now."""
    found = _PLACE.fullmatch(metadata.get(_PLACE_KEY, ""))
    return (int(found[1]), int(found[2])) if found else None


def kept(config: MachineConfig, known: MachineConfig) -> MachineConfig:
    """Return a request's configuration with the place of the existing consumer, where it asks for the same point."""
    asked, now = config.metadata.get(POINT_KEY), known.metadata
    if asked is None or asked not in (now.get(POINT_KEY), now.get(_ASKED_KEY)):
        return config
    return replace(config, metadata=config.metadata | {key: now[key] for key in _KEYS if key in now})


def check_unchanged(before: MachineConfig, after: MachineConfig) -> None:
    """Raise ``ApiRefusal`` for an update to another point."""
    if any(before.metadata.get(key) != after.metadata.get(key) for key in _KEYS):
        at = before.metadata.get(POINT_KEY)
        stands = "it reads the stream as it is" if at is None else f"it reads {at}"
        raise api_errors.consumer_create_failed(f"{POINT_KEY} can not be updated: {stands}")


def stream_read(config: MachineConfig, stream: StreamConfig) -> StreamConfig:
    """Return the stream's configuration as its rules for consumers see it.

    A past state is not a queue: nothing leaves it, so that what a stream with interest or work queue retention demands
    of its consumers does not hold for those of its past.
    """
    past = POINT_KEY in config.metadata and stream.retention != "limits"
    return replace(stream, retention="limits") if past else stream


def _is_age(text: str) -> bool:
    """Whether a point counts back from when it is read."""
    first, second = (parse_as_of(text, now=datetime(year, 1, 1, tzinfo=UTC)) for year in (9000, 9001))
    return first != second
