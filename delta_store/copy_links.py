"""Which streams copy from which, what their copies have yet to take, and who answers Direct Get for an origin. Pure.

nats-server gives each copy a consumer of its origin. Here a copy's place follows from what the copying stream holds,
and what it has yet to take counts like the interest of a consumer.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from delta_store.stream_parts import StreamSource
from delta_store.stream_sources import (
    Selection,
    SourcePosition,
    identity,
    index_name,
    is_local,
    mirror_start,
    source_start,
)

if TYPE_CHECKING:
    from delta_store.catalog import Catalog
    from delta_store.stream_state import StreamState

_CAUGHT_UP: Final = 10
"""nats-server lets a mirror answer for its origin when fewer messages than this are left to copy."""


class CopyLink(NamedTuple):
    """One mirror or source."""

    target: "StreamState"
    source: StreamSource
    label: str
    """Of a source, how its position is called; empty for a mirror."""
    selection: Selection

    def next_seq(self, origin: "StreamState") -> int:
        """The first sequence of the origin that has not been taken."""
        target = self.target
        if not self.label:
            return mirror_start(self.source, target.index, origin.index)
        position = target.sources.get(self.label)
        if position is not None and position.identity != identity(origin.name, origin.stream_id):
            position = SourcePosition(0, "")
        return source_start(self.source, target.index, origin.index, position)


class Want(NamedTuple):
    """What a copy has yet to take of its origin."""

    selection: Selection
    next_seq: int

    def needs(self, seq: int, subject: str) -> bool:
        """Whether a message is among it."""
        chosen = self.selection.filter
        return seq >= self.next_seq and (chosen is None or chosen.matches(subject))


def links_of(state: "StreamState") -> list[CopyLink]:
    """The copies that a stream makes."""
    mirror = state.config.mirror
    if mirror is not None:
        return [CopyLink(state, mirror, "", Selection(mirror))]
    return [CopyLink(state, one, index_name(one), Selection(one)) for one in state.config.sources]


def links_by_origin(states: Iterable["StreamState"]) -> dict[str, list[CopyLink]]:
    """The copies that streams make by the name of their origin."""
    found: dict[str, list[CopyLink]] = {}
    for state in states:
        for link in links_of(state):
            found.setdefault(link.source.name, []).append(link)
    return found


def local_copies(catalog: "Catalog", name: str) -> list[CopyLink]:
    """The copies of a stream of this store."""
    return [link for link in catalog.copies_of(name) if is_local(link.source, catalog.domain)]


def direct_server(catalog: "Catalog", name: str) -> "StreamState | None":
    """The stream that answers Direct Get for this name, None for nobody.

    nats-server asks one of those that may answer at random; here the origin answers, and a mirror where it does not.
    """
    origin = catalog.streams.get(name)
    if origin is not None and origin.config.allow_direct:
        return origin
    for link in catalog.copies_of(name):
        if not link.label and is_local(link.source, catalog.domain) and _serves(link, origin):
            return link.target
    return None


def _serves(link: CopyLink, origin: "StreamState | None") -> bool:
    """Whether a mirror may answer for its origin: once it has caught up it may for good."""
    mirror = link.target
    if not mirror.config.mirror_direct:
        return False
    if not mirror.serves_origin and mirror.index.last_seq:
        left = iter(()) if origin is None else origin.index.iter_matching(link.selection.filter, link.next_seq(origin))
        mirror.serves_origin = sum(1 for _ in islice(left, _CAUGHT_UP)) < _CAUGHT_UP
    return mirror.serves_origin
