"""The links from streams to their copies, and what the copies have yet to copy. Pure.

nats-server gives each copy a consumer of its origin. Here a copy's position follows from the copying stream, and what
it has yet to copy counts like the interest of a consumer.
"""

from collections.abc import Iterable
from typing import NamedTuple

from delta_store.config.stream_parts import StreamSource
from delta_store.streams.stream_sources import (
    Selection,
    SourcePosition,
    identity,
    index_name,
    mirror_start,
    source_start,
)
from delta_store.streams.stream_state import StreamState


class CopyLink(NamedTuple):
    """One mirror or source of a stream."""

    target: StreamState
    source: StreamSource
    label: str
    """Of a source, the key of its position; empty for a mirror."""
    selection: Selection

    def next_seq(self, origin: StreamState) -> int:
        """Return the first sequence of the origin that has not been copied."""
        target = self.target
        if not self.label:
            return mirror_start(self.source, target.index, origin.index)
        position = target.sources.get(self.label)
        if position is not None and position.identity != identity(origin.name, origin.stream_id):
            position = SourcePosition(0, "")
        return source_start(self.source, target.index, origin.index, position)


class Want(NamedTuple):
    """The messages that a copy has yet to copy from its origin."""

    selection: Selection
    next_seq: int

    def needs(self, seq: int, subject: str) -> bool:
        """Whether a message is among them."""
        chosen = self.selection.filter
        return seq >= self.next_seq and (chosen is None or chosen.matches(subject))


def links_of(state: StreamState) -> list[CopyLink]:
    """Return the copies that a stream makes."""
    mirror = state.config.mirror
    if mirror is not None:
        return [CopyLink(state, mirror, "", Selection(mirror))]
    return [CopyLink(state, one, index_name(one), Selection(one)) for one in state.config.sources]


def links_by_origin(states: Iterable[StreamState]) -> dict[str, list[CopyLink]]:
    """Return the copies that streams make, by the name of their origin."""
    found: dict[str, list[CopyLink]] = {}
    for state in states:
        for link in links_of(state):
            found.setdefault(link.source.name, []).append(link)
    return found
