"""The copies of a stream within this store, and the stream that answers Direct Get for a name. Pure."""

from itertools import islice

from conf.limits import MIRROR_CAUGHT_UP
from delta_store.index.matching import iter_matching
from delta_store.streams.catalog import Catalog
from delta_store.streams.copy_links import CopyLink
from delta_store.streams.stream_sources import is_local
from delta_store.streams.stream_state import StreamState


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


def has_caught_up(link: CopyLink, origin: StreamState | None) -> bool:
    """Whether a mirror has next to nothing left to copy of a stream of this store, None where that is gone."""
    if origin is None:
        return True
    left = iter_matching(origin.index, link.selection.filter, link.next_seq(origin))
    return sum(1 for _ in islice(left, MIRROR_CAUGHT_UP)) < MIRROR_CAUGHT_UP


def _serves(link: CopyLink, origin: StreamState | None, *, is_here: bool) -> bool:
    """Whether a mirror may answer for its origin: from the first time it has caught up, for good.

    That is recorded; mirrors that caught up before it was are looked at, where their origin is here (``is_here``).
    """
    mirror = link.target
    if not mirror.config.mirror_direct:
        return False
    if is_here and not mirror.serves_origin and mirror.index.last_seq:
        mirror.serves_origin = has_caught_up(link, origin)
    return mirror.serves_origin
