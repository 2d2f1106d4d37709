"""The copies of a stream within this store, and the stream that answers Direct Get for a name. Pure."""

from itertools import islice
from typing import Final

from delta_store.index.matching import iter_matching
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import CopyLink
from delta_store.streams.stream_sources import is_local
from delta_store.streams.stream_state import StreamState

_CAUGHT_UP: Final = 10
"""A mirror answers for its origin once fewer messages than this are left to copy, as in nats-server."""


def local_copies(catalog: Catalog, name: str) -> list[CopyLink]:
    """Return the copies of a stream of this store."""
    return [link for link in catalog.copies.get(name, ()) if is_local(link.source, catalog.domain)]


def direct_server(catalog: Catalog, name: str) -> StreamState | None:
    """Return the stream that answers Direct Get for this name; None for none.

    nats-server picks one of the streams that may answer at random; here the origin answers, or else a mirror.
    """
    origin = catalog.streams.get(name)
    if origin is not None and origin.config.allow_direct:
        return origin
    for link in catalog.copies.get(name, ()):
        if not link.label and _serves(link, origin, is_here=is_local(link.source, catalog.domain)):
            return link.target
    return None


def _serves(link: CopyLink, origin: StreamState | None, *, is_here: bool) -> bool:
    """Whether a mirror may answer for its origin: from the first time it has caught up, for good.

    What it hears of an origin elsewhere (``is_here`` is False) tells the mirror itself when that is.
    """
    mirror = link.target
    if not mirror.config.mirror_direct:
        return False
    if is_here and not mirror.serves_origin and mirror.index.last_seq:
        left = iter(()) if origin is None else iter_matching(origin.index, link.selection.filter, link.next_seq(origin))
        mirror.serves_origin = sum(1 for _ in islice(left, _CAUGHT_UP)) < _CAUGHT_UP
    return mirror.serves_origin
