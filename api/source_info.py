"""What stream info says of mirrors and sources."""

from typing import Any

from delta_store.catalog import Catalog
from delta_store.stream_parts import StreamSource
from delta_store.stream_sources import (
    SourcePosition,
    identity,
    index_name,
    is_local,
    mirror_start,
    shown,
    source_start,
)
from delta_store.stream_state import StreamState

Json = dict[str, Any]


def source_info(catalog: Catalog, state: StreamState, *, created: bool = False) -> Json:
    """The fields ``mirror`` or ``sources`` of a stream's info, none of any other stream.

    In the answer to a stream's creation (``created``) nothing has been heard of the origin yet.
    """
    mirror, sources = state.config.mirror, state.config.sources
    if mirror is not None:
        origin = _origin(catalog, mirror)
        next_seq = mirror_start(mirror, state.index, origin.index) if origin is not None else 0
        said = shown(mirror, origin.index if origin is not None else None, next_seq=next_seq, seq=0)
        if created:
            said = {name: value for name, value in _unheard(said).items() if name != "filter_subject"}
        return {"mirror": said}
    found = []
    for source in sources:
        origin = _origin(catalog, source)
        position = state.sources.get(index_name(source))
        seq, next_seq = position.seq if position is not None else 0, 0
        if origin is not None:
            if position is not None and position.identity != identity(origin.name, origin.stream_id):
                position, seq = SourcePosition(0, ""), 0
            next_seq = source_start(source, state.index, origin.index, position)
        said = shown(source, origin.index if origin is not None else None, next_seq=next_seq, seq=seq)
        found.append(_unheard(said) if created else said)
    return {"sources": found} if found else {}


def _origin(catalog: Catalog, source: StreamSource) -> StreamState | None:
    return catalog.streams.get(source.name) if is_local(source, catalog.domain) else None


def _unheard(said: Json) -> Json:
    return {name: value for name, value in said.items() if name != "error"} | {"lag": 0, "active": -1}
