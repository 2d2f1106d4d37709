"""Mirrors and sources in stream info."""

from typing import Any

from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import links_of
from delta_store.streams.heard_origin import HeardOrigin
from delta_store.streams.stream_sources import heard, identity, is_local, shown
from delta_store.streams.stream_state import StreamState

Json = dict[str, Any]


def source_info(catalog: Catalog, state: StreamState, *, now_ns: int, created: bool = False) -> Json:
    """Return the field ``mirror`` or ``sources`` of a stream's info; none for a stream without.

    ``created``: in the reply to a stream's creation nothing is known of the origin yet.
    """
    found = []
    for link in links_of(state):
        source = link.source
        position = state.sources.get(link.label)
        seq, next_seq = position.seq if position is not None else 0, 0
        if not is_local(source, catalog.domain):
            found.append(heard(source, state.heard.get(link.label, HeardOrigin()), seq=seq, now_ns=now_ns))
            continue
        origin = catalog.streams.get(source.name)
        if origin is not None:
            next_seq = link.next_seq(origin)
            if position is not None and position.identity != identity(origin.name, origin.stream_id):
                seq = 0
        said = shown(source, origin.index if origin is not None else None, next_seq=next_seq, seq=seq)
        found.append(_unheard(said) if created else said)
    if state.config.mirror is None:
        return {"sources": found} if found else {}
    mirror = found[0]
    if created:
        mirror.pop("filter_subject", None)
    return {"mirror": mirror}


def _unheard(said: Json) -> Json:
    return {name: value for name, value in said.items() if name != "error"} | {"lag": 0, "active": -1}
